//! `belvedere job`, against a running server.

use std::process::Output;

use http::Method;
use serde_json::{Value, json};

use crate::fixtures::{ALICE, World};

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

async fn with_scripts(world: &World) {
    for (id, body) in [
        ("job.run:echo", "function handle() job.progress({ at = 1 }) job.wait(1.2) return job.input end"),
        ("job.run:broken", "function handle() error('no luck') end"),
        ("job.run:silent", "function handle() end"),
    ] {
        let script = json!({ "id": id, "body": body });
        let stored = world.server.admin(Method::POST, "/admin/scripts", Some(&script)).await;
        assert!(stored.status.is_success(), "{}", stored.text);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_is_started_and_awaited() {
    let world = World::sqlite().await;
    with_scripts(&world).await;
    let server = &world.server;
    let run =
        |arguments: &[&str]| server.run(&[&["job", "run", "--key", &server.admin_key], arguments].concat());

    // Only the id on standard output, at once.
    let output = run(&["echo", "--input", r#"{"n":1}"#]);
    assert!(output.status.success() && err(&output).is_empty(), "{}", err(&output));
    let job = server.admin(Method::GET, &format!("/admin/jobs/{}", out(&output).trim()), None).await.body;
    assert_eq!((&job["job_type"], &job["input"]), (&json!("echo"), &json!({ "n": 1 })));

    // Only the result on standard output, and the progress on standard error.
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), r#"{ "from": "a file" }"#).unwrap();
    let output = run(&["echo", "--wait", "--input", &format!("@{}", file.path().display())]);
    assert!(output.status.success(), "{}", err(&output));
    assert_eq!(serde_json::from_str::<Value>(&out(&output)).unwrap(), json!({ "from": "a file" }));
    let text = err(&output);
    assert!(text.starts_with("started the job ") && text.contains("completed, in "), "{text}");
    assert!(text.contains("running {\"at\":1}"), "{text}");
    let output = run(&["silent", "--wait"]);
    assert_eq!((output.status.code(), out(&output).trim()), (Some(0), "null"), "{}", err(&output));

    let output = run(&["broken", "--wait"]);
    assert_eq!(output.status.code(), Some(1), "{}", err(&output));
    assert!(err(&output).contains("failed, in ") && err(&output).contains("no luck"), "{}", err(&output));
    assert!(out(&output).is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failures_of_starting_a_job_are_explained() {
    let world = World::sqlite().await;
    with_scripts(&world).await;
    let server = &world.server;
    let key = server.admin_key.as_str();
    let weak = server.create_key(&["--did", ALICE, "--permissions", "jobs:read"]);
    for (arguments, code, message) in [
        (&["missing", "--key", key][..], 1, "the types with a script are broken, echo, silent"),
        (&["echo", "--key", key, "--input", "{broken"], 1, "--input is not JSON: "),
        (&["echo", "--key", key, "--input", "@/nowhere.json"], 1, "/nowhere.json can't be read"),
        (&["echo", "--key", &weak], 1, "it needs jobs:create and jobs:read"),
        (&["--key", key], 2, "TYPE"),
    ] {
        let output = server.run(&[&["job", "run"], arguments].concat());
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", err(&output));
        assert!(err(&output).contains(message), "{arguments:?}: {}", err(&output));
    }
}
