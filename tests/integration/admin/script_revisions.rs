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
    lexicons_keep_their_documents,
    a_change_of_an_earlier_revision_is_refused
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

async fn a_change_of_an_earlier_revision_is_refused(world: World) {
    let server = &world.server;
    let id = format!("xrpc.query:{LIST}");
    let path = format!("/admin/scripts/{id}");
    let body = |n: usize, revision: Value| json!({ "id": id, "body": format!("function handle() return {n} end"), "revision": revision });
    let post = async |body| server.admin(Method::POST, "/admin/scripts", Some(&body)).await;
    let first = post(body(1, json!(0))).await;
    assert_eq!((first.status.as_u16(), &first.body["revision"]), (201, &json!(1)), "{}", first.text);
    assert_eq!(post(body(2, json!(1))).await.body["revision"], 2);

    let stale = post(body(3, json!(1))).await;
    assert_eq!(stale.status, 409, "{}", stale.text);
    let text = stale.body["error"].as_str().unwrap();
    assert!(text.contains("was changed by did:") && text.contains("(revision 2)"), "{text}");
    let described = json!({ "description": "three", "revision": 1 });
    assert_eq!(server.admin(Method::PATCH, &path, Some(&described)).await.status, 409);
    let stored = get(server, &path).await;
    assert_eq!((&stored["revision"], &stored["description"]), (&json!(2), &Value::Null), "{stored}");
    assert!(stored["body"].as_str().unwrap().contains("return 2"), "{stored}");
    for wrong in [json!(-1), json!("2"), json!(1.5)] {
        assert_eq!(post(body(4, wrong.clone())).await.status, 400, "{wrong}");
    }
    assert_eq!(post(body(4, Value::Null)).await.status, 200, "without one it replaces");

    let lexicon = |text: &str, revision: usize| {
        let mut lexicon = record_lexicon(NOTES);
        lexicon["description"] = json!(text);
        json!({ "lexicon_json": lexicon, "backfill": false, "revision": revision })
    };
    let upload = async |body: Value| server.admin(Method::POST, "/admin/lexicons", Some(&body)).await;
    assert_eq!(upload(lexicon("one", 0)).await.status, 201);
    assert_eq!(upload(lexicon("two", 0)).await.status, 409);
    assert_eq!(upload(json!({ "lexicons": [lexicon("two", 2)] })).await.status, 409);
    assert_eq!(upload(lexicon("two", 1)).await.body["revision"], 2);
}
