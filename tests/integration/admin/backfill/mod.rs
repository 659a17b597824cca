//! `/admin/backfill`

mod details;
mod events;
mod jobs;

use http::Method;
use serde_json::{Value, json};

use crate::fixtures::{ALICE, BOB, NOTES, World};
use crate::support::instance::{Answer, Instance, query_lexicon, record_lexicon};

async fn start(server: &Instance, body: Value) -> String {
    let answer = server.admin(Method::POST, "/admin/backfill", Some(&body)).await;
    assert_eq!(answer.status, 201, "{}", answer.text);
    assert_eq!(answer.body["status"], "running");
    assert_eq!(answer.body.as_object().unwrap().len(), 2, "{}", answer.text);
    answer.body["id"].as_str().unwrap().to_owned()
}

async fn list(server: &Instance) -> Vec<Value> {
    let answer = server.admin(Method::GET, "/admin/backfill/status", None).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.body.as_array().unwrap().clone()
}

async fn job(server: &Instance, id: &str) -> Value {
    list(server).await.into_iter().find(|job| job["id"] == id).unwrap_or_else(|| panic!("no job {id}"))
}

async fn until(server: &Instance, id: &str, status: &str) -> Value {
    server.eventually(&format!("{id} is {status}"), async |s| job(s, id).await["status"] == status).await;
    job(server, id).await
}

async fn control(server: &Instance, id: &str, verb: &str) -> Answer {
    server.admin(Method::POST, &format!("/admin/backfill/{id}/{verb}"), None).await
}

async fn get(server: &Instance, id: &str, path: &str) -> Answer {
    server.admin(Method::GET, &format!("/admin/backfill/{id}/{path}"), None).await
}

/// Uploads the record lexicon of notes, and makes every job stay in its discovery.
async fn with_endless_discovery(world: World) -> World {
    let world = world.with_notes().await;
    world.limit_relay();
    world
}

crate::in_both_worlds!(
    invalid_requests_are_refused_with_the_reason,
    permissions_are_those_of_the_specification,
    the_first_upload_of_a_record_lexicon_starts_a_backfill
);

async fn invalid_requests_are_refused_with_the_reason(world: World) {
    let server = &world.server;
    for (body, reason) in [
        (json!({ "collection": "nope" }), "collection is not an NSID"),
        (json!({ "collection": "" }), "collection is not an NSID"),
        (json!({ "collection": 5 }), "invalid request body"),
        (json!({ "did": "" }), "did: it is neither a handle nor a DID"),
        (json!({ "did": "did:nonsense" }), "did: it is neither a handle nor a DID"),
        (json!({ "did": "nobody.example.com" }), "did: the handle could not be resolved"),
        (json!([]), "invalid request body"),
    ] {
        let answer = server.admin(Method::POST, "/admin/backfill", Some(&body)).await;
        assert_eq!(answer.status, 400, "{body}: {}", answer.text);
        assert!(answer.error().contains(reason), "{body}: {}", answer.error());
    }
    assert_eq!(list(server).await, [] as [Value; 0], "nothing was started");

    for verb in ["pause", "resume", "cancel", "retry-failed"] {
        let answer = control(server, "unknown", verb).await;
        assert_eq!((answer.status.as_u16(), answer.error()), (404, "backfill job not found"), "{verb}");
    }
    // Lists of an unknown job are empty, and so is what is deleted.
    assert_eq!(get(server, "unknown", "repos").await.body, json!({ "repos": [], "cursor": null }));
    assert_eq!(
        get(server, "unknown", "pds-summary").await.body,
        json!({ "pds_endpoints": [], "total_hosts": 0 })
    );
    let errors = json!({ "errors": [], "counts": {}, "cursor": null });
    assert_eq!(get(server, "unknown", "errors").await.body, errors);
    for path in ["repos?limit=many", "pds-summary?limit=many"] {
        assert_eq!(get(server, "unknown", path).await.status, 400, "{path}");
    }
    for path in ["/admin/backfill/unknown/details", "/admin/backfill/details"] {
        assert_eq!(server.admin(Method::DELETE, path, None).await.status, 204);
    }
}

async fn permissions_are_those_of_the_specification(world: World) {
    let server = &world.server;
    let read = server.create_key(&["--did", ALICE, "--permissions", "backfill:read"]);
    let write = server.create_key(&["--did", BOB, "--permissions", "backfill:create"]);
    let send = async |key: &str, method: &Method, path: &str| {
        let key = format!("Bearer {key}");
        let path = format!("/admin/backfill{path}");
        server.request(method.clone(), &path, &[("authorization", &key)], None).await.status.as_u16()
    };
    for path in [
        "/status",
        "/plan?collection=com.example.note",
        "/x/repos",
        "/x/pds-summary",
        "/x/errors",
        "/x/events",
    ] {
        let status = send(&read, &Method::GET, path).await;
        assert_eq!(status, if path == "/x/events" { 404 } else { 200 }, "{path}");
        assert_eq!(send(&write, &Method::GET, path).await, 403, "{path}");
    }
    for (method, path) in [
        (Method::POST, ""),
        (Method::POST, "/x/cancel"),
        (Method::POST, "/x/pause"),
        (Method::POST, "/x/resume"),
        (Method::POST, "/x/retry-failed"),
        (Method::DELETE, "/x/details"),
        (Method::DELETE, "/details"),
    ] {
        assert_eq!(send(&read, &method, path).await, 403, "{method} {path}");
        assert_ne!(send(&write, &method, path).await, 403, "{method} {path}");
    }
}

async fn the_first_upload_of_a_record_lexicon_starts_a_backfill(world: World) {
    world.limit_relay();
    let server = &world.server;
    let upload = async |key: &str, body: Value| {
        let key = format!("Bearer {key}");
        let headers = [("authorization", key.as_str())];
        let answer = server.request(Method::POST, "/admin/lexicons", &headers, Some(body.to_string())).await;
        assert!(answer.status.is_success(), "{}", answer.text);
        answer.body["backfill_job_id"].clone()
    };
    let operator = server.admin_key.clone();
    let started = upload(&operator, json!({ "lexicon_json": record_lexicon(NOTES) })).await;
    let id = started.as_str().expect("a job").to_owned();
    let started = job(server, &id).await;
    assert_eq!((&started["collection"], &started["did"]), (&json!(NOTES), &Value::Null));

    // Absent, null and true are the same; all but the first upload of a record lexicon start none.
    let other = |name: &str| record_lexicon(&format!("com.example.{name}"));
    let null = upload(&operator, json!({ "lexicon_json": other("null"), "backfill": null })).await;
    assert!(null.is_string());
    let key = server.create_key(&["--did", ALICE, "--permissions", "lexicons:create"]);
    for (who, key, body) in [
        ("a second upload", &operator, json!({ "lexicon_json": record_lexicon(NOTES), "backfill": true })),
        ("backfill: false", &operator, json!({ "lexicon_json": other("not"), "backfill": false })),
        ("a query", &operator, json!({ "lexicon_json": query_lexicon("com.example.query") })),
        ("no permission", &key, json!({ "lexicon_json": other("weak") })),
    ] {
        assert_eq!(upload(key, body).await, Value::Null, "{who}");
    }
    assert_eq!(list(server).await.len(), 2);
    let events = server.admin(Method::GET, "/admin/events?event_type=backfill.started", None).await;
    let subjects: Vec<_> =
        events.body["events"].as_array().unwrap().iter().map(|e| e["subject"].clone()).collect();
    assert_eq!(json!(subjects), json!(["com.example.null", NOTES]));
}
