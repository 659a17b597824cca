//! `/admin/export`.

use http::Method;
use serde_json::json;

use crate::fixtures::{ALICE, LIST, NOTES, World};

crate::in_both_worlds!(an_export_has_what_is_served_and_no_secrets);

async fn an_export_has_what_is_served_and_no_secrets(world: World) {
    let world = world.with_notes().await;
    let server = &world.server;
    server.bind(LIST, "function handle() return {} end").await;
    let variable = json!({ "key": "TOKEN", "value": "hunter2-secret" });
    assert!(server.admin(Method::POST, "/admin/script-variables", Some(&variable)).await.status.is_success());
    let name = json!({ "value": "Näme \u{1f98b}" });
    assert_eq!(server.admin(Method::PUT, "/admin/settings/app_name", Some(&name)).await.status, 204);

    let found = server.admin(Method::GET, "/admin/export", None).await;
    assert_eq!(found.status, 200, "{}", found.text);
    let export = &found.body;
    assert_eq!((&export["format"], &export["settings"]["app_name"]), (&json!(1), &json!("Näme \u{1f98b}")));
    let ids: Vec<&str> =
        export["lexicons"].as_array().unwrap().iter().filter_map(|one| one["id"].as_str()).collect();
    assert_eq!(ids, [LIST, NOTES]);
    assert_eq!(export["lexicons"][1]["lexicon_json"]["id"], json!(NOTES));
    assert_eq!(
        export["scripts"],
        json!([{ "id": format!("xrpc.query:{LIST}"), "description": null, "body": "function handle() return {} end" }])
    );
    assert!(!found.text.contains("hunter2"), "{}", found.text);

    let key = server.create_key(&["--did", ALICE, "--permissions", "lexicons:read,scripts:read"]);
    let headers = [("authorization", &*format!("Bearer {key}"))];
    assert_eq!(server.request(Method::GET, "/admin/export", &headers, None).await.status, 403);
}
