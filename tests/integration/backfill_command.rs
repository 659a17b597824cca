//! `belvedere backfill`, against a running server.

use std::process::Output;

use http::Method;
use serde_json::json;

use crate::fixtures::{ALICE, BOB, LIST, NOTES, World};

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backfill_is_started_and_watched() {
    let world = World::sqlite().await.with_notes().await;
    world.repo(ALICE, &["a"]);
    world.repo(BOB, &["b"]);
    let server = &world.server;
    let run =
        |arguments: &[&str]| server.run(&[&["backfill", "--key", &server.admin_key], arguments].concat());

    // A plan starts nothing.
    let output = run(&[NOTES, "--plan"]);
    assert!(output.status.success(), "{}", err(&output));
    let plan = out(&output);
    assert!(plan.starts_with(&format!("collections {NOTES}\nrepos       2\n")), "{plan}");
    let jobs = server.admin(Method::GET, "/admin/backfill/status", None).await.body;
    assert_eq!(jobs, json!([]));

    // Only the id on standard output, and the progress on standard error.
    let output = run(&[NOTES, "--watch"]);
    assert!(output.status.success(), "{}", err(&output));
    let id = out(&output).trim().to_owned();
    assert!(err(&output).contains("completed: 2 of 2 repos, 2 records, in "), "{}", err(&output));
    let jobs = server.admin(Method::GET, "/admin/backfill/status", None).await.body;
    assert_eq!((&jobs[0]["id"], &jobs[0]["collection"]), (&json!(id), &json!(NOTES)));
    let note = server.xrpc(&format!("{LIST}?uri=at://{BOB}/{NOTES}/b")).await;
    assert_eq!(note.status, 200, "{}", note.text);

    // Without --watch it returns at once. One repo: every collection.
    let output = run(&["--did", ALICE]);
    assert!(output.status.success() && err(&output).is_empty(), "{}", err(&output));
    let jobs = server.admin(Method::GET, "/admin/backfill/status", None).await.body;
    assert_eq!((&jobs[0]["id"], &jobs[0]["did"]), (&json!(out(&output).trim()), &json!(ALICE)));

    // Repos that could not be read are no failure of the job, but have an exit status, and are pointed out.
    world.network.set_error(BOB, Some("RepoDeactivated"));
    let output = run(&[NOTES, "--watch"]);
    assert_eq!(output.status.code(), Some(3), "{}", err(&output));
    let text = err(&output);
    assert!(
        text.contains("1 repos could not be read (repo_deactivated 1)") && text.contains("/retry-failed"),
        "{text}"
    );

    // A bound that the relay exceeds.
    world.network.set_repos_per_page(1);
    let output = run(&[NOTES, "--max-repos", "1", "--watch"]);
    assert!(err(&output).contains("and may have 1 (max_repos"), "{}", err(&output));
    assert_eq!(output.status.code(), Some(1), "{}", err(&output));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failures_are_explained_and_have_an_exit_code() {
    let world = World::sqlite().await;
    let server = &world.server;
    let key = server.admin_key.as_str();
    let weak = server.create_key(&["--did", ALICE, "--permissions", "stats:read"]);
    for (arguments, code, message) in [
        (&["backfill", "com.example.unknown", "--watch", "--key", key][..], 1, "failed: 0 of 0 repos"),
        (&["backfill", "nonsense", "--key", key], 1, "collection is not an NSID"),
        (&["backfill", "--key", "bva_00000000000000000000000000000000"], 1, "does not know this key"),
        (&["backfill", "--key", &weak], 1, "it needs backfill:create and backfill:read"),
        (&["backfill", "--key", key, "--url", "http://127.0.0.1:9"], 1, "does not answer"),
        (&["backfill"], 2, "--key"),
    ] {
        let output = server.run(arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", err(&output));
        assert!(err(&output).contains(message), "{arguments:?}: {}", err(&output));
    }
}
