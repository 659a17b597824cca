//! Rollouts of scripts that no request runs, and rollouts while the database fails.

use belvedere_protocol::crypto::Algorithm;
use belvedere_standins::jetstream::{Frame, Place};
use http::Method;
use serde_json::{Value, json};

use crate::fixtures::{LIST, NOTES, World};
use crate::support::instance::{Instance, query_lexicon};

crate::in_both_worlds!(
    an_account_keeps_its_version_of_a_record_script,
    a_candidate_that_fails_on_records_is_returned,
    a_creator_keeps_its_version_of_a_job_script,
    runs_are_counted_and_the_candidate_returned_after_the_database_has_failed
);

/// Accounts whose part is chosen by their DIDs.
const ACCOUNTS: usize = 24;

fn did(n: usize) -> String {
    format!("did:plc:{}", ["a", "b", "c", "d", "e", "f"][n % 6].repeat(20) + &format!("{:04}", n + 2222))
}

async fn send(server: &Instance, method: Method, trigger: &str, body: Option<&Value>) -> Value {
    let path = format!("/admin/scripts/{}/rollout", trigger.replace(':', "%3A"));
    let answer = server.admin(method, &path, body).await;
    assert!(answer.status.is_success(), "{trigger}: {}", answer.text);
    answer.body
}

async fn until_returned(server: &Instance, trigger: &str) -> Value {
    let is = async |server: &Instance| send(server, Method::GET, trigger, None).await["state"] == "returned";
    server.eventually("the candidate is returned", is).await;
    send(server, Method::GET, trigger, None).await
}

/// Sends a note of each account, and waits until `count` are indexed.
async fn notes(world: &mut World, rkey: &str, count: u64) {
    for n in 0..ACCOUNTS {
        let did = did(n);
        let record = json!({ "$type": NOTES, "text": "x" });
        world.push(|at, rev| Frame::create(at, Place { did: &did, collection: NOTES, rkey, rev }, &record));
    }
    world.server.eventually("the notes", async |server| server.records().await >= count).await;
}

/// The version that the script wrote into the note of each account.
async fn versions(world: &World, rkey: &str) -> Vec<u64> {
    let mut versions = Vec::new();
    for n in 0..ACCOUNTS {
        let uri = format!("at://{}/{NOTES}/{rkey}", did(n));
        let answer = world.server.xrpc(&format!("{LIST}?uri={uri}")).await;
        versions.push(answer.body["record"]["version"].as_u64().unwrap_or_default());
    }
    versions
}

async fn an_account_keeps_its_version_of_a_record_script(world: World) {
    let mut world = world.with_notes().await;
    let trigger = format!("record.index:{NOTES}");
    let body = |version: u32| format!("function handle() record.version = {version} return record end");
    world.server.bind_to(&trigger, &body(1)).await;
    let rollout = json!({ "body": body(2), "percent": 50 });
    send(&world.server, Method::POST, &trigger, Some(&rollout)).await;
    notes(&mut world, "a", ACCOUNTS as u64).await;
    let first = versions(&world, "a").await;
    assert!(first.contains(&1) && first.contains(&2) && !first.contains(&0), "{first:?}");
    notes(&mut world, "b", 2 * ACCOUNTS as u64).await;
    assert_eq!(versions(&world, "b").await, first, "an account keeps its version");
    let candidates = first.iter().filter(|version| **version == 2).count();
    let counted = send(&world.server, Method::GET, &trigger, None).await;
    assert_eq!(counted["candidate"]["runs"], 2 * candidates, "{counted}");
    assert_eq!(counted["current"]["runs"], 2 * (ACCOUNTS - candidates), "{counted}");

    send(&world.server, Method::PUT, &trigger, Some(&json!({ "percent": 100 }))).await;
    notes(&mut world, "c", 3 * ACCOUNTS as u64).await;
    assert_eq!(versions(&world, "c").await, [2; ACCOUNTS]);
    send(&world.server, Method::DELETE, &trigger, None).await;
    notes(&mut world, "d", 4 * ACCOUNTS as u64).await;
    assert_eq!(versions(&world, "d").await, [1; ACCOUNTS]);
}

async fn a_candidate_that_fails_on_records_is_returned(world: World) {
    let mut world = world.with_notes().await;
    let trigger = format!("record.index:{NOTES}");
    world.server.bind_to(&trigger, "function handle() record.version = 1 return record end").await;
    let failing = json!({ "body": "function handle() error('no luck') end", "percent": 50, "min_runs": 3, "max_errors": 10 });
    send(&world.server, Method::POST, &trigger, Some(&failing)).await;
    notes(&mut world, "a", ACCOUNTS as u64).await;
    let first = versions(&world, "a").await;
    let failed = first.iter().filter(|version| **version == 0).count();
    assert!(failed > 0 && failed < ACCOUNTS, "{first:?}");
    let ended = until_returned(&world.server, &trigger).await;
    assert!(ended["reason"].as_str().unwrap().starts_with("100 % of "), "{ended}");
    let letters = world.server.admin(Method::GET, "/admin/dead-letters/count", None).await;
    assert_eq!(letters.body["count"], failed, "each failure has a dead letter");
    notes(&mut world, "b", 2 * ACCOUNTS as u64).await;
    assert_eq!(versions(&world, "b").await, [1; ACCOUNTS]);
}

async fn a_creator_keeps_its_version_of_a_job_script(world: World) {
    const START: &str = "com.example.start";
    let server = &world.server;
    server.upload(query_lexicon(START), None).await;
    server.bind(START, "function handle() return jobs.create('count', {}) end").await;
    server.bind_to("job.run:count", "function handle() return 1 end").await;
    let rollout = json!({ "body": "function handle() return 2 end", "percent": 50 });
    send(server, Method::POST, "job.run:count", Some(&rollout)).await;
    let audience = format!("did:web:127.0.0.1%3A{}", server.address.port());
    let creators: Vec<_> = (0..ACCOUNTS).map(|n| world.plc.person(&did(n), Algorithm::Es256k)).collect();
    // The result of a job of each creator.
    let round = async || {
        let mut ids = Vec::new();
        for creator in &creators {
            let token = format!("Bearer {}", creator.token(&audience, json!({ "lxm": START })));
            let headers = [("x-client-key", server.client_key.as_str()), ("authorization", &token)];
            let answer = server.request(Method::GET, &format!("/xrpc/{START}"), &headers, None).await;
            ids.push(answer.body.as_str().unwrap_or_else(|| panic!("{}", answer.text)).to_owned());
        }
        let mut results = Vec::new();
        for id in ids {
            let path = format!("/admin/jobs/{id}");
            let is_done = async |server: &Instance| {
                server.admin(Method::GET, &path, None).await.body["status"] == "completed"
            };
            server.eventually("the end of a job", is_done).await;
            results.push(server.admin(Method::GET, &path, None).await.body["result"].as_u64().unwrap());
        }
        results
    };
    let first = round().await;
    assert!(first.contains(&1) && first.contains(&2), "{first:?}");
    assert_eq!(round().await, first, "a creator keeps its version");
    let candidates = first.iter().filter(|version| **version == 2).count();
    let counted = send(server, Method::GET, "job.run:count", None).await;
    assert_eq!(counted["candidate"]["runs"], 2 * candidates, "{counted}");

    send(server, Method::DELETE, "job.run:count", None).await;
    let failing = json!({ "body": "function handle() error('no luck') end", "percent": 100, "min_runs": 3 });
    send(server, Method::POST, "job.run:count", Some(&failing)).await;
    for creator in &creators[..3] {
        let token = format!("Bearer {}", creator.token(&audience, json!({ "lxm": START })));
        let headers = [("x-client-key", server.client_key.as_str()), ("authorization", &token)];
        assert_eq!(server.request(Method::GET, &format!("/xrpc/{START}"), &headers, None).await.status, 200);
    }
    until_returned(server, "job.run:count").await;
    assert_eq!(round().await, [1; ACCOUNTS]);
}

async fn runs_are_counted_and_the_candidate_returned_after_the_database_has_failed(world: World) {
    let server = &world.server;
    let trigger = format!("xrpc.query:{LIST}");
    server.upload(query_lexicon(LIST), None).await;
    server.bind(LIST, "function handle() return { version = 1 } end").await;
    let failing = json!({ "body": "function handle() error('broken') end", "percent": 50, "min_runs": 5, "max_errors": 10 });
    send(server, Method::POST, &trigger, Some(&failing)).await;
    let mut keys = Vec::new();
    for n in 0..ACCOUNTS {
        keys.push(server.create_client(&format!("client{n}")).await);
    }
    let call = async || {
        let mut failed = 0_u64;
        for key in &keys {
            let path = format!("/xrpc/{LIST}");
            let answer = server.request(Method::GET, &path, &[("x-client-key", key)], None).await;
            failed += u64::from(answer.status == 500);
        }
        failed
    };
    let failures = || server.log().matches("rollouts could not be compared").count();
    let fails_again = async |what: &str| {
        let before = failures();
        server.eventually(what, async |_| failures() > before + 1).await;
    };
    world.execute("ALTER TABLE rollout_counts RENAME TO hidden_counts").await;
    let failed = call().await;
    assert!(failed >= 5 && failed < ACCOUNTS as u64, "{failed}");
    fails_again("the runs can't be stored").await;
    assert_eq!(call().await, failed, "the rollout goes on");
    fails_again("the runs of both rounds can't be stored").await;
    // The counts can be stored, and the end of the rollout can't.
    world.execute("ALTER TABLE rollouts RENAME TO hidden_rollouts").await;
    world.execute("ALTER TABLE hidden_counts RENAME TO rollout_counts").await;
    fails_again("the candidate can't be returned").await;
    world.execute("ALTER TABLE hidden_rollouts RENAME TO rollouts").await;
    let ended = until_returned(server, &trigger).await;
    assert_eq!(ended["candidate"]["runs"], 2 * failed, "{ended}");
    assert_eq!(ended["current"]["runs"], 2 * (ACCOUNTS as u64 - failed), "{ended}");
    assert_eq!(call().await, 0, "all callers run the saved body");
    let events = server.admin(Method::GET, "/admin/events?event_type=script.rollout_returned", None).await;
    assert_eq!(events.body["events"].as_array().unwrap().len(), 1, "{}", events.text);
}
