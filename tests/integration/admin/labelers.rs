//! `/admin/labelers`

use crate::fixtures::World;
use http::Method;
use serde_json::json;

const PATH: &str = "/admin/labelers";
const LABELER: &str = "did:plc:labelerlabelerlabelerlab";

crate::in_both_worlds!(labelers_are_added_listed_paused_and_deleted);

async fn labelers_are_added_listed_paused_and_deleted(world: World) {
    let server = &world.server;
    let post = async |did: &str| server.admin(Method::POST, PATH, Some(&json!({ "did": did }))).await;
    for wrong in ["", "alice.test", "did:plc:short", "did:key:zabc"] {
        let answer = post(wrong).await;
        assert_eq!(answer.status, 400, "{wrong}");
        assert!(answer.error().contains("did:"), "{}", answer.text);
    }
    assert_eq!(server.admin(Method::POST, PATH, Some(&json!({}))).await.status, 400);
    for _ in 0..2 {
        let answer = post(LABELER).await;
        assert_eq!((answer.status.as_u16(), answer.text.as_str()), (201, ""), "also the second time");
    }
    let list = server.admin(Method::GET, PATH, None).await;
    assert_eq!((list.status.as_u16(), list.body.as_array().unwrap().len()), (200, 1));
    let labeler = &list.body[0];
    assert_eq!((&labeler["did"], &labeler["status"]), (&json!(LABELER), &json!("active")));
    assert!(labeler["cursor"].is_null() && labeler["connected"] == false);
    assert!(labeler["created_at"].as_str().unwrap().ends_with('Z'));

    let one = format!("{PATH}/{LABELER}");
    let patch = async |path: &str, body| server.admin(Method::PATCH, path, Some(&body)).await;
    for wrong in
        [json!({ "status": "deleting" }), json!({ "status": "Active" }), json!({ "status": 1 }), json!({})]
    {
        assert_eq!(patch(&one, wrong.clone()).await.status, 400, "{wrong}");
    }
    let unknown = format!("{PATH}/did:plc:otherotherotherotherothe");
    assert_eq!(patch(&unknown, json!({ "status": "paused" })).await.status, 404);
    let paused = patch(&one, json!({ "status": "paused" })).await;
    assert_eq!((paused.status.as_u16(), &paused.body["status"]), (200, &json!("paused")));
    assert_eq!(server.admin(Method::GET, PATH, None).await.body[0]["status"], "paused");

    assert_eq!(server.admin(Method::DELETE, &unknown, None).await.status, 404);
    assert_eq!(server.admin(Method::DELETE, &one, None).await.status, 204);
    assert_eq!(server.admin(Method::DELETE, &one, None).await.status, 404);
    assert_eq!(server.admin(Method::GET, PATH, None).await.body, json!([]));

    let events = server.admin(Method::GET, "/admin/events?category=labeler", None).await;
    let events = events.body["events"].as_array().unwrap().clone();
    let by_admins: Vec<_> = events.iter().rev().filter(|event| !event["actor_did"].is_null()).collect();
    let kinds: Vec<_> = by_admins.iter().map(|event| event["event_type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["labeler.added", "labeler.updated", "labeler.deleted"], "{events:?}");
    assert!(by_admins.iter().all(|event| event["subject"] == LABELER));
    assert_eq!(by_admins[1]["detail"], json!({ "status": "paused" }));
}
