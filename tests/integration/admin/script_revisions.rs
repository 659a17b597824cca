//! `/admin/scripts/{id}/revisions`, `/admin/scripts/deleted`, `/admin/lexicons/{id}/revisions`

use crate::fixtures::World;
use http::Method;
use serde_json::{Value, json};

use crate::fixtures::{LIST, NOTES};
use crate::support::instance::{Instance, record_lexicon};

async fn get(server: &Instance, path: &str) -> Value {
    let answer = server.admin(Method::GET, path, None).await;
    assert_eq!(answer.status, 200, "{path}: {}", answer.text);
    answer.body
}

async fn save(server: &Instance, id: &str, n: usize) {
    let body = json!({ "id": id, "body": format!("function handle() return {n} end") });
    assert!(server.admin(Method::POST, "/admin/scripts", Some(&body)).await.status.is_success());
}

crate::in_both_worlds!(
    each_save_is_a_revision,
    the_last_fifty_revisions_are_kept,
    lexicons_keep_their_documents
);

async fn each_save_is_a_revision(world: World) {
    let server = &world.server;
    let id = format!("xrpc.query:{LIST}");
    let (script, path) = (format!("/admin/scripts/{id}"), format!("/admin/scripts/{id}/revisions"));
    assert_eq!(server.admin(Method::GET, &path, None).await.status, 404);
    save(server, &id, 1).await;
    save(server, &id, 1).await;
    save(server, &id, 2).await;
    let described = json!({ "description": "two" });
    assert_eq!(server.admin(Method::PATCH, &script, Some(&described)).await.status, 200);
    let list = get(server, &path).await;
    let revisions = list["revisions"].as_array().unwrap();
    assert_eq!(revisions.len(), 3, "an unchanged script is no revision: {list}");
    assert_eq!(revisions[0]["revision"], 3);
    assert_eq!((&revisions[0]["kind"], &revisions[0]["description"]), (&json!("saved"), &json!("two")));
    assert_eq!((&revisions[0]["bytes"], &revisions[0]["body"]), (&json!(30), &Value::Null));
    assert!(revisions[0]["saved_by"].as_str().unwrap().starts_with("did:"), "{list}");
    assert_eq!(get(server, &format!("{path}/1")).await["body"], "function handle() return 1 end");
    for missing in ["4", "0", "x", "99999999999999999999"] {
        assert_eq!(
            server.admin(Method::GET, &format!("{path}/{missing}"), None).await.status,
            404,
            "{missing}"
        );
    }

    // A deleted script can be restored.
    assert_eq!(server.admin(Method::DELETE, &script, None).await.status, 204);
    let deleted = get(server, "/admin/scripts/deleted").await;
    assert_eq!((&deleted["scripts"][0]["id"], &deleted["scripts"][0]["revision"]), (&json!(id), &json!(4)));
    let newest = get(server, &format!("{path}/4")).await;
    assert_eq!((&newest["kind"], &newest["body"]), (&json!("deleted"), &Value::Null));
    save(server, &id, 2).await;
    assert_eq!(get(server, "/admin/scripts/deleted").await, json!({ "scripts": [] }));
    assert_eq!(get(server, &path).await["revisions"][0]["revision"], 5, "the history goes on");
}

async fn the_last_fifty_revisions_are_kept(world: World) {
    let server = &world.server;
    let id = format!("xrpc.query:{LIST}");
    for n in 0..52 {
        save(server, &id, n).await;
    }
    let list = get(server, &format!("/admin/scripts/{id}/revisions")).await;
    let revisions = list["revisions"].as_array().unwrap();
    assert_eq!((revisions.len(), &revisions[49]["revision"]), (50, &json!(3)));
}

async fn lexicons_keep_their_documents(world: World) {
    let server = &world.server;
    let path = format!("/admin/lexicons/{NOTES}/revisions");
    assert_eq!(server.admin(Method::GET, &path, None).await.status, 404);
    server.upload(record_lexicon(NOTES), None).await;
    let mut second = record_lexicon(NOTES);
    second["description"] = "second".into();
    server.upload(second, None).await;
    let list = get(server, &path).await;
    let revisions = list["revisions"].as_array().unwrap();
    assert_eq!(
        (revisions.len(), &revisions[0]["revision"], &revisions[0]["source"]),
        (2, &json!(2), &json!("manual"))
    );
    assert!(revisions[0]["saved_by"].as_str().unwrap().starts_with("did:"));
    assert_eq!(get(server, &format!("{path}/1")).await["lexicon_json"], record_lexicon(NOTES));
    assert_eq!(get(server, &format!("{path}/2")).await["lexicon_json"]["description"], "second");
    assert_eq!(server.admin(Method::GET, &format!("{path}/3"), None).await.status, 404);
    server.admin(Method::DELETE, &format!("/admin/lexicons/{NOTES}"), None).await;
    assert_eq!(server.admin(Method::GET, &path, None).await.status, 404, "the history ends with the lexicon");
    server.upload(record_lexicon(NOTES), None).await;
    assert_eq!(get(server, &path).await["revisions"].as_array().unwrap().len(), 1);
}
