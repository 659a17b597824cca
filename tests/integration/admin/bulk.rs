//! `/admin/records/bulk/delete` and `/admin/moderation/bulk`

use http::Method;
use serde_json::{Value, json};

use crate::fixtures::{ALICE, BOB, NOTES, World};
use crate::support::instance::OPERATOR;

crate::in_both_worlds!(records_are_deleted_together, records_are_hidden_together, bad_batches_are_refused);

async fn records_are_deleted_together(mut world: World) {
    world = world.with_notes().await;
    let mut uris = Vec::new();
    for n in 0..3 {
        uris.push(world.note(ALICE, &format!("n{n}"), json!({ "text": format!("{n}") })).await);
    }
    let body = json!({ "uris": [uris[0], "at://nobody", uris[1], uris[1]], "reason": " spam " });
    let answer = world.server.admin(Method::POST, "/admin/records/bulk/delete", Some(&body)).await;
    let outcome = |id: &str, error: Option<&str>| match error {
        None => json!({ "id": id, "ok": true }),
        Some(error) => json!({ "id": id, "ok": false, "error": error }),
    };
    assert_eq!((answer.status.as_u16(), &answer.body["ok"]), (200, &json!(false)), "{}", answer.text);
    let results = answer.body["results"].as_array().unwrap();
    assert_eq!((&results[0], &results[2]), (&outcome(&uris[0], None), &outcome(&uris[1], None)));
    assert_eq!((&results[1]["id"], &results[1]["ok"]), (&json!("at://nobody"), &json!(false)));
    assert_eq!(results[3], outcome(&uris[1], Some("record not found")));
    assert_eq!(world.server.records().await, 1);
    let events = world.server.admin(Method::GET, "/admin/events?event_type=record.deleted", None).await;
    let events = events.body["events"].as_array().unwrap().clone();
    assert_eq!(events.len(), 2);
    assert_eq!((&events[0]["actor_did"], &events[0]["detail"]["reason"]), (&json!(OPERATOR), &json!("spam")));
    assert_eq!(events[0]["subject"], uris[1]);

    let body = json!({ "uris": [uris[2]] });
    let answer = world.server.admin(Method::POST, "/admin/records/bulk/delete", Some(&body)).await;
    assert_eq!(answer.body, json!({ "ok": true, "results": [outcome(&uris[2], None)] }));
}

async fn records_are_hidden_together(mut world: World) {
    world = world.with_notes().await;
    let mut uris = Vec::new();
    for n in 0..3 {
        uris.push(world.note(ALICE, &format!("n{n}"), json!({ "text": format!("{n}") })).await);
    }
    world.note(BOB, "b", json!({ "text": "b" })).await;
    let taken_down = json!({ "subject": uris[2], "action": "takedown", "reason": "illegal" });
    assert_eq!(world.server.admin(Method::POST, "/admin/moderation", Some(&taken_down)).await.status, 201);
    let subjects = [&*uris[0], &*uris[1], BOB, "nonsense"];
    let body = json!({ "subjects": subjects, "action": "hide", "reason": "spam" });
    for _ in 0..2 {
        // The same decision again changes nothing.
        let answer = world.server.admin(Method::POST, "/admin/moderation/bulk", Some(&body)).await;
        assert_eq!((answer.status.as_u16(), &answer.body["ok"]), (200, &json!(false)), "{}", answer.text);
        let done: Vec<&Value> =
            answer.body["results"].as_array().unwrap().iter().map(|one| &one["ok"]).collect();
        assert_eq!(done, [true, true, true, false], "{}", answer.text);
        assert!(answer.body["results"][3]["error"].as_str().unwrap().starts_with("subject must be"));
    }
    let list = world.server.admin(Method::GET, &format!("/admin/records?collection={NOTES}"), None).await;
    assert_eq!(list.body["records"], json!([]));
    let hidden = world
        .server
        .admin(Method::GET, &format!("/admin/records?collection={NOTES}&moderated=true"), None)
        .await;
    assert_eq!(hidden.body["records"].as_array().unwrap().len(), 3);
    let events = world.server.admin(Method::GET, "/admin/events?event_type=moderation.created", None).await;
    assert_eq!(events.body["events"].as_array().unwrap().len(), 4);
}

async fn bad_batches_are_refused(world: World) {
    let many = vec!["at://did:plc:a/b.c.d/e"; 101];
    for (path, body, text) in [
        ("/admin/records/bulk/delete", json!({ "uris": [] }), "uris must have 1 to 100 elements"),
        ("/admin/records/bulk/delete", json!({ "uris": many }), "uris must have 1 to 100 elements"),
        (
            "/admin/records/bulk/delete",
            json!({ "uris": ["x"], "reason": "x".repeat(2_001) }),
            "reason must have",
        ),
        ("/admin/records/bulk/delete", json!({}), ""),
        (
            "/admin/moderation/bulk",
            json!({ "subjects": many, "action": "hide", "reason": "x" }),
            "subjects must have",
        ),
        (
            "/admin/moderation/bulk",
            json!({ "subjects": [ALICE], "action": "x", "reason": "x" }),
            "action must be",
        ),
        (
            "/admin/moderation/bulk",
            json!({ "subjects": [ALICE], "action": "hide", "reason": "x", "expires_at": "soon" }),
            "expires_at must be",
        ),
    ] {
        let answer = world.server.admin(Method::POST, path, Some(&body)).await;
        assert_eq!(answer.status, 400, "{path}: {}", answer.text);
        assert!(answer.error().starts_with(text), "{path}: {}", answer.text);
    }
    let body = json!({ "subjects": [ALICE], "action": "hide", "reason": " " });
    let answer = world.server.admin(Method::POST, "/admin/moderation/bulk", Some(&body)).await;
    assert!(
        answer.body["results"][0]["error"].as_str().unwrap().starts_with("reason must have"),
        "{}",
        answer.text
    );
    let key = world.server.create_key(&["--did", OPERATOR, "--permissions", "records:read"]);
    let header = format!("Bearer {}", key.trim());
    for path in ["/admin/records/bulk/delete", "/admin/moderation/bulk"] {
        let answer = world
            .server
            .request(Method::POST, path, &[("authorization", &header)], Some("{}".to_owned()))
            .await;
        assert_eq!(answer.status, 403, "{path}: {}", answer.text);
    }
}
