//! `belvedere move` from SQLite to PostgreSQL and back: the server on the target answers as the one on the source did.

use std::process::Output;

use belvedere_standins::database::{new_sqlite_url, sqlite_url};
use belvedere_standins::jetstream::FakeJetstream;
use belvedere_standins::postgres;
use http::Method;
use serde_json::{Value, json};

use crate::fixtures::{LIST, push_notes, start_with_notes};
use crate::several_hosts::SEALING_KEY;
use crate::support::instance::Instance;

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The answers in which a server shows its database.
async fn answers(server: &Instance) -> Vec<Value> {
    let mut answers = Vec::new();
    for path in [
        "/admin/lexicons",
        "/admin/api-clients",
        "/admin/script-variables",
        "/admin/scripts",
        "/admin/domains",
    ] {
        let mut answer = server.admin(Method::GET, path, None).await;
        assert!(answer.status.is_success(), "{path}: {}", answer.text);
        // The use of a client changes with each call.
        for row in answer.body.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
            row.retain(|name, _| !["last_used_at", "tokens", "rate_limited"].contains(&name.as_str()));
        }
        answers.push(answer.body);
    }
    let list = server.xrpc(&format!("{LIST}?limit=100")).await;
    assert!(list.status.is_success(), "{}", list.text);
    answers.push(list.body);
    answers
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_goes_on_with_the_other_database_and_comes_back() {
    let (first, _folder) = sqlite_url();
    let key = [("TOKEN_ENCRYPTION_KEY", SEALING_KEY), ("PUBLIC_URL", "https://move.example")];
    let stream = FakeJetstream::start().await;
    let mut server = start_with_notes(&first, &stream, &key).await;
    push_notes(&stream, 0..30);
    server.eventually("all notes", async |server: &Instance| server.records().await == 30).await;
    let variable = json!({ "key": "SECRET", "value": "sealed" });
    let answer = server.admin(Method::POST, "/admin/script-variables", Some(&variable)).await;
    assert!(answer.status.is_success(), "{}", answer.text);
    let before = answers(&server).await;

    // Not while it runs.
    let second = postgres::create_new_database().await;
    let refused = server.run(&["move", "--to", &second]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(err(&refused).contains("another server"), "{}", err(&refused));
    assert_eq!(server.stop(), Some(0));
    let moved = server.run(&["move", "--to", &second]);
    assert!(moved.status.success(), "{}", err(&moved));
    let counts = String::from_utf8_lossy(&moved.stdout).into_owned();
    let records = counts.lines().find(|line| line.ends_with(" records")).expect("a line for each table");
    assert!(records.trim_start().starts_with("30 "), "{records}");
    assert!(
        counts.contains("with the same checksums") && err(&moved).contains("DATABASE_URL=postgres"),
        "{counts}"
    );

    let (admin_key, client_key) = (server.admin_key.clone(), server.client_key.clone());
    let open = async |url: &str| {
        let mut server = Instance::start_unclaimed(url, &stream.url(), &key).await;
        server.admin_key.clone_from(&admin_key);
        server.client_key.clone_from(&client_key);
        server
    };
    let mut server = open(&second).await;
    assert_eq!(answers(&server).await, before);

    // Back, from a server that was stopped, into a new file.
    let (third, _other) = new_sqlite_url();
    let refused = server.run(&["move", "--to", &third]);
    assert!(err(&refused).contains("a server or another command uses the source"), "{}", err(&refused));
    assert_eq!(server.stop(), Some(0));
    let moved = server.run(&["move", "--to", &third]);
    assert!(moved.status.success(), "{}", err(&moved));
    let again = server.run(&["move", "--to", &third]);
    assert!(err(&again).contains("the target is not empty"), "{}", err(&again));
    let server = open(&third).await;
    assert_eq!(answers(&server).await, before);
    postgres::drop_database(&second);
}
