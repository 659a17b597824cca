//! `belvedere diff`, against running servers.

use std::process::Output;

use http::Method;
use serde_json::json;

use crate::fixtures::{LIST, NOTES, World};
use crate::support::instance::query_lexicon;

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_instances_are_compared_by_address_or_by_file() {
    let (first, second) = (World::sqlite().await.with_notes().await, World::postgres().await);
    let (a, b) = (&first.server, &second.server);
    let [url_a, url_b] = [a, b].map(|server| format!("http://{}", server.address));
    let keys = ["--key", &a.admin_key, "--second-key", &b.admin_key];
    let diff = |before: &str, after: &str| a.run(&[&["diff", before, after], &keys[..]].concat());

    b.upload(query_lexicon(LIST), None).await;
    b.bind(LIST, "function handle() return {} end").await;
    let name = json!({ "value": "Second" });
    assert_eq!(b.admin(Method::PUT, "/admin/settings/app_name", Some(&name)).await.status, 204);
    let output = diff(&url_a, &url_b);
    assert_eq!(output.status.code(), Some(1), "{}", err(&output));
    for line in [
        format!("different: lexicon {LIST}\n"),
        format!("only in the first: lexicon {NOTES}\n"),
        format!("only in the second: xrpc.query:{LIST}\n"),
        "setting app_name\n".to_owned(),
        " different: ".to_owned(),
    ] {
        assert!(out(&output).contains(&line), "{line}: {}", out(&output));
    }

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("export.json").display().to_string();
    std::fs::write(&file, a.admin(Method::GET, "/admin/export", None).await.text).unwrap();
    let with_file = || a.run(&["diff", &file, &url_a, "--second-key", &a.admin_key]);
    let output = with_file();
    assert_eq!(output.status.code(), Some(0), "{}{}", out(&output), err(&output));
    assert!(out(&output).contains(" equal, 0 different: "), "{}", out(&output));

    // Not compared.
    let unknown = ["--second-key", "bva_nothing"];
    let output = a.run(&[&["diff", &url_a, &url_b, "--key", &a.admin_key], &unknown[..]].concat());
    assert_eq!(output.status.code(), Some(2));
    assert!(
        err(&output).contains(&url_b) && err(&output).contains("does not know this key"),
        "{}",
        err(&output)
    );
    std::fs::write(&file, "{}").unwrap();
    let output = with_file();
    assert!(err(&output).contains("is not the answer of GET /admin/export"), "{}", err(&output));
    assert_eq!(diff("nowhere.json", &url_a).status.code(), Some(2));
}
