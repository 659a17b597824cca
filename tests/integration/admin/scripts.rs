//! `/admin/scripts`

use crate::fixtures::World;
use http::Method;
use serde_json::{Value, json};

use crate::fixtures::LIST;
use crate::support::instance::query_lexicon;

const ONE: &str = "function handle() return { n = 1 } end";

crate::in_both_worlds!(
    a_script_is_created_replaced_patched_and_deleted,
    invalid_scripts_are_refused_with_line_and_message
);

async fn a_script_is_created_replaced_patched_and_deleted(world: World) {
    let server = &world.server;
    server.upload(query_lexicon(LIST), None).await;
    let id = format!("xrpc.query:{LIST}");
    let body = json!({ "id": id, "body": ONE, "description": "first" });
    let made = server.admin(Method::POST, "/admin/scripts", Some(&body)).await;
    assert_eq!(made.status, 201);
    assert_eq!(made.body["id"], id);
    assert_eq!(made.body["script_type"], "lua");
    assert_eq!(made.body["outbound_xrpcs"], Value::Null);
    assert_eq!(server.xrpc(LIST).await.body, json!({ "n": 1 }));

    let body = json!({ "id": id, "script_type": null, "body": "function handle() return xrpc.query('com.example.a') and 2 end" });
    let replaced = server.admin(Method::POST, "/admin/scripts", Some(&body)).await;
    assert_eq!(replaced.status, 200);
    assert_eq!(replaced.body["description"], Value::Null, "absent is cleared");
    assert_eq!(replaced.body["created_at"], made.body["created_at"]);
    assert_eq!(replaced.body["outbound_xrpcs"], json!(["com.example.a"]));

    for path in [format!("/admin/scripts/{id}"), format!("/admin/scripts/{}", id.replace(':', "%3A"))] {
        assert_eq!(server.admin(Method::GET, &path, None).await.body["id"], id);
    }
    let path = format!("/admin/scripts/{id}");
    let change = json!({ "body": "function handle() return { n = 3 } end", "description": "third" });
    let patched = server.admin(Method::PATCH, &path, Some(&change)).await;
    assert_eq!((patched.status.as_u16(), &patched.body["description"]), (200, &json!("third")));
    assert_eq!(server.xrpc(LIST).await.body, json!({ "n": 3 }));
    let patched = server.admin(Method::PATCH, &path, Some(&json!({ "description": null }))).await;
    assert_eq!(patched.body["description"], Value::Null);

    let by_suffix = server.admin(Method::GET, &format!("/admin/scripts?suffix={LIST}"), None).await;
    assert_eq!(by_suffix.body.as_array().unwrap().len(), 1);
    let by_suffix = server.admin(Method::GET, "/admin/scripts?suffix=other", None).await;
    assert_eq!(by_suffix.body, json!([]));

    assert_eq!(server.admin(Method::DELETE, &path, None).await.status, 204);
    assert_eq!(server.admin(Method::DELETE, &path, None).await.status, 404);
    assert_eq!(server.admin(Method::PATCH, &path, Some(&change)).await.status, 404);
    assert_eq!(server.xrpc(LIST).await.body, json!({ "records": [] }), "the built-in behaviour is back");
}

async fn invalid_scripts_are_refused_with_line_and_message(world: World) {
    let id = format!("xrpc.query:{LIST}");
    for (body, reason) in [
        (json!({ "id": id, "body": "function handle(\n  return\nend" }), ":2:"),
        (json!({ "id": id, "body": "x = nil + 1" }), ":1:"),
        (json!({ "id": id, "body": "function other() end" }), "handle"),
        (json!({ "id": id, "body": "handle = 5" }), "handle"),
        (json!({ "id": id, "body": "while true do end" }), "instructions"),
        (json!({ "id": id, "body": "\u{1b}Lua" }), ""),
        (json!({ "id": "xrpc.query", "body": ONE }), ""),
        (json!({ "id": "xrpc.fly:com.example.a", "body": ONE }), ""),
        (json!({ "id": "xrpc.query:nope", "body": ONE }), ""),
        (json!({ "id": id, "body": ONE, "script_type": "js" }), "script_type"),
        (json!({ "id": id, "body": ONE, "description": "x".repeat(301) }), "description"),
        (json!({ "id": id }), "body"),
    ] {
        let answer = world.server.admin(Method::POST, "/admin/scripts", Some(&body)).await;
        assert_eq!(answer.status, 400, "{body}: {}", answer.text);
        assert!(answer.error().contains(reason), "{body}: {}", answer.error());
    }
    let path = format!("/admin/scripts/{id}");
    for patch in [json!({}), json!({ "script_type": "lua" }), json!({ "body": "oops" })] {
        world.server.admin(Method::POST, "/admin/scripts", Some(&json!({ "id": id, "body": ONE }))).await;
        let answer = world.server.admin(Method::PATCH, &path, Some(&patch)).await;
        assert_eq!(answer.status, 400, "{patch}: {}", answer.text);
    }
}
