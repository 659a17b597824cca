//! The repos of a backfill: lists, errors, retrying, deleting.

use crate::fixtures::World;
use http::Method;
use serde_json::{Value, json};

use super::{control, get, job, start, until};
use crate::fixtures::{ALICE, BOB, NOTES};

const CAROL: &str = "did:plc:carolcarolcarolcarolcaro";
const GONE: &str = "did:plc:gonegonegonegonegonegone";

fn dids(body: &Value) -> Vec<&str> {
    let rows = body["repos"].as_array().or(body["errors"].as_array()).unwrap();
    rows.iter().map(|row| row["did"].as_str().unwrap()).collect()
}

crate::in_both_worlds!(repos_are_listed_summarized_and_deleted, failed_repos_are_listed_and_tried_again);

async fn repos_are_listed_summarized_and_deleted(world: World) {
    world.repo(ALICE, &["a", "b"]);
    world.repo(BOB, &["c"]);
    // Its DID document is missing.
    world.network.account(GONE, 0);
    world.network.put(GONE, NOTES, "x", json!({ "$type": NOTES }));
    let world = world.with_notes().await;
    let server = &world.server;
    let id = start(server, json!({ "collection": NOTES })).await;
    until(server, &id, "completed").await;

    let pds = world.network.pds_url(0);
    let row = |did: &str, records: i64| json!({ "did": did, "pds_endpoint": pds, "status": "completed", "records_fetched": records });
    let fetched = get(server, &id, "repos?phase=fetched").await.body;
    assert_eq!(fetched, json!({ "repos": [row(ALICE, 2), row(BOB, 1)], "cursor": null }));
    for (phase, expected) in [
        ("resolved", vec![ALICE, BOB]),
        ("discovered", vec![ALICE, BOB, GONE]),
        ("?", vec![ALICE, BOB, GONE]),
    ] {
        assert_eq!(dids(&get(server, &id, &format!("repos?phase={phase}")).await.body), expected, "{phase}");
    }
    // Pages by DID; a limit out of range is clamped.
    let page = get(server, &id, "repos?limit=2").await.body;
    assert_eq!((dids(&page), &page["cursor"]), (vec![ALICE, BOB], &json!(BOB)));
    let page = get(server, &id, &format!("repos?limit=2&cursor={BOB}")).await.body;
    assert_eq!((dids(&page), &page["cursor"]), (vec![GONE], &Value::Null));
    assert_eq!(dids(&get(server, &id, "repos?limit=-1").await.body), [ALICE]);
    assert_eq!(dids(&get(server, &id, "repos?limit=5000").await.body).len(), 3);
    let summary = get(server, &id, "pds-summary").await.body;
    let expected = json!({ "pds_endpoint": pds, "total_repos": 2, "completed_repos": 2, "failed_repos": 0,
        "error_kind": null, "total_records": 3 });
    assert_eq!(summary, json!({ "pds_endpoints": [expected], "total_hosts": 1 }));
    assert_eq!(get(server, &id, "pds-summary?limit=1").await.body, summary);

    // Details go, one job's or all; the jobs stay.
    let second = start(server, json!({ "collection": NOTES })).await;
    until(server, &second, "completed").await;
    let path = format!("/admin/backfill/{id}/details");
    assert_eq!(server.admin(Method::DELETE, &path, None).await.status, 204);
    assert_eq!(get(server, &id, "repos").await.body["repos"], json!([]));
    assert_eq!(dids(&get(server, &second, "repos").await.body).len(), 3);
    assert_eq!(server.admin(Method::DELETE, "/admin/backfill/details", None).await.status, 204);
    assert_eq!(get(server, &second, "repos").await.body["repos"], json!([]));
    assert_eq!(job(server, &id).await["total_repos"], 3);
}

async fn failed_repos_are_listed_and_tried_again(world: World) {
    world.repo(ALICE, &["a"]);
    world.repo(BOB, &["b"]);
    world.repo(CAROL, &["c"]);
    world.network.set_error(BOB, Some("RepoDeactivated"));
    world.network.set_error(CAROL, Some("RepoTakendown"));
    let world = world.with_notes().await;
    let server = &world.server;
    let id = start(server, json!({ "collection": NOTES })).await;
    let done = until(server, &id, "completed").await;
    assert_eq!((&done["processed_repos"], &done["total_records"]), (&json!(3), &json!(1)));
    let errors = get(server, &id, "errors").await.body;
    assert_eq!(errors["counts"], json!({ "repo_deactivated": 1, "repo_takendown": 1 }));
    assert_eq!((dids(&errors), &errors["cursor"]), (vec![BOB, CAROL], &Value::Null));
    let first = &errors["errors"][0];
    assert_eq!((&first["kind"], &first["retryable"]), (&json!("repo_deactivated"), &json!(false)));
    assert!(!first["error"].as_str().unwrap().is_empty() && first["pds_endpoint"].is_string(), "{first}");
    let page = get(server, &id, "errors?limit=1").await.body;
    assert_eq!((dids(&page), &page["cursor"]), (vec![BOB], &json!(BOB)));
    let summary = get(server, &id, "pds-summary").await.body;
    let host = &summary["pds_endpoints"][0];
    let counts = ["total_repos", "completed_repos", "failed_repos"].map(|name| host[name].as_i64().unwrap());
    assert_eq!(counts, [3, 1, 2]);
    // Both kinds are as frequent.
    assert_eq!(host["error_kind"], "repo_deactivated");

    let retry = async |body: Value| {
        server.admin(Method::POST, &format!("/admin/backfill/{id}/retry-failed"), Some(&body)).await
    };
    for (body, reason) in [
        (json!({ "kinds": ["nonsense"] }), "nonsense is not a kind of error; the kinds are dns_failure, "),
        (json!({ "kinds": ["timeout"] }), "no failed repos of these kinds"),
        (json!({ "kinds": [] }), "no failed repos of these kinds"),
        (json!({ "kinds": "timeout" }), "invalid request body"),
    ] {
        let refused = retry(body.clone()).await;
        assert_eq!(refused.status, 400, "{body}: {}", refused.text);
        assert!(refused.error().contains(reason), "{body}: {}", refused.error());
    }
    world.network.set_error(BOB, None);
    let answer = retry(json!({ "kinds": ["repo_deactivated"] })).await;
    assert_eq!(answer.status, 201, "{}", answer.text);
    let again = answer.body["id"].as_str().unwrap();
    assert_eq!(answer.body, json!({ "id": again }));
    let done = until(server, again, "completed").await;
    assert_eq!(
        (&done["collection"], &done["total_repos"], &done["total_records"]),
        (&json!(NOTES), &json!(1), &json!(1))
    );
    assert_eq!(dids(&get(server, again, "repos").await.body), [BOB]);
    assert_eq!(server.records().await, 2);
    let log = server.admin(Method::GET, "/admin/events?event_type=backfill.retry_started", None).await;
    let detail = &log.body["events"][0]["detail"];
    assert_eq!(detail, &json!({ "job_id": again, "source_job_id": id, "retried_repos": 1 }));
    // Without a body: every kind. A job without failures has nothing to retry.
    assert_eq!(control(server, again, "retry-failed").await.status, 400);
    let key = format!("Bearer {}", server.admin_key);
    let path = format!("/admin/backfill/{id}/retry-failed");
    let all = server.request(Method::POST, &path, &[("authorization", &key)], None).await;
    assert_eq!(all.status, 201, "{}", all.text);
    let done = until(server, all.body["id"].as_str().unwrap(), "completed").await;
    assert_eq!(done["total_repos"], 2);
}
