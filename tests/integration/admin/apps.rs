//! `/admin/apps`.

use http::Method;
use serde_json::{Value, json};

use crate::fixtures::{ALICE, LIST, NOTES, World};
use crate::support::app::App;
use crate::support::instance::{Instance, query_lexicon};

async fn get(server: &Instance, path: &str) -> Value {
    let answer = server.admin(Method::GET, path, None).await;
    assert_eq!(answer.status, 200, "{path} {}", answer.text);
    answer.body
}

crate::in_both_worlds!(an_app_has_its_parts_and_its_callers, invalid_requests_are_refused_with_the_reason);

async fn an_app_has_its_parts_and_its_callers(mut world: World) {
    world = world.with_notes().await;
    world.note(ALICE, "one", json!({ "text": "x" })).await;
    let server = &world.server;
    server.upload(query_lexicon("org.other.feed.list"), None).await;
    server.bind(LIST, "function handle() if params.fail then error('no') end return {} end").await;
    for trigger in ["job.run:com.example.job", "labeler.apply:_actor"] {
        let script = json!({ "id": trigger, "body": "function handle() end" });
        assert_eq!(server.admin(Method::POST, "/admin/scripts", Some(&script)).await.status, 201);
    }
    let client = App::confidential(server, "busy").await;
    let key = [("x-client-key", &*client.key)];
    for _ in 0..3 {
        let answer = server.request(Method::GET, &format!("/xrpc/{LIST}"), &key, None).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
    }
    assert_eq!(server.xrpc(&format!("{LIST}?fail=1")).await.status, 500);

    let all = get(server, "/admin/apps").await;
    assert!(all["since"].is_string());
    let [mine, other] = all["apps"].as_array().unwrap().as_slice() else { panic!("{all}") };
    let calls = json!({ "app": "com.example", "lexicons": 2, "scripts": 1, "views": 0, "records": 1, "calls": mine["calls"],
        "errors": 1, "clients": mine["clients"] });
    assert_eq!(*mine, calls);
    assert_eq!((&other["app"], &other["lexicons"]), (&json!("org.other"), &json!(1)));

    let found = get(server, "/admin/apps/com.example?hours=168").await;
    let lexicons = found["lexicons"].as_array().unwrap();
    let of = |id: &str| lexicons.iter().find(|one| one["id"] == id).unwrap();
    assert_eq!((&of(NOTES)["records"], &of(NOTES)["calls"]), (&json!(1), &json!(0)));
    assert_eq!((&of(LIST)["errors"], &of(LIST)["records"]), (&json!(1), &json!(null)));
    // The helpers of the test call it too.
    assert!(of(LIST)["calls"].as_u64().unwrap() >= 4 && of(LIST)["calls"] == mine["calls"], "{found}");
    assert!(of(LIST)["mean_ms"].as_f64().unwrap() > 0.0);
    let [script] = found["scripts"].as_array().unwrap().as_slice() else { panic!("{found}") };
    assert_eq!(
        (&script["id"], &script["runs"], &script["failures"], &script["is_view"]),
        (&json!(format!("xrpc.query:{LIST}")), &json!(4), &json!(1), &json!(false))
    );
    assert!(script["instructions"].as_f64().unwrap() > 100.0);
    let busy = found["clients"].as_array().unwrap().iter().find(|one| one["id"] == json!(client.id)).unwrap();
    assert_eq!(*busy, json!({ "id": client.id, "is_client": true, "name": "busy", "calls": 3 }));
}

async fn invalid_requests_are_refused_with_the_reason(world: World) {
    let server = &world.server;
    for (path, status, text) in [
        ("/admin/apps?hours=0", 400, "hours must be a number from 1 to 168"),
        ("/admin/apps?hours=%F0%9F%A6%8B", 400, "hours must be a number from 1 to 168"),
        ("/admin/apps/com.example?hours=169", 400, "hours must be a number from 1 to 168"),
        ("/admin/apps/com.nothing", 404, "the first two segments"),
        ("/admin/apps/%F0%9F%A6%8B", 404, "the first two segments"),
    ] {
        let answer = server.admin(Method::GET, path, None).await;
        assert_eq!(answer.status, status, "{path} {}", answer.text);
        assert!(answer.error().contains(text), "{path}: {}", answer.text);
    }
    assert_eq!(get(server, "/admin/apps").await["apps"], json!([]));
    let key = server.create_key(&["--did", ALICE, "--permissions", "lexicons:read,scripts:read"]);
    let headers = [("authorization", &*format!("Bearer {key}"))];
    assert_eq!(server.request(Method::GET, "/admin/apps", &headers, None).await.status, 403);
}
