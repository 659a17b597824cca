//! `/admin/script-variables`

use http::Method;
use serde_json::{Value, json};

use crate::fixtures::World;
use crate::support::instance::query_lexicon;

const PATH: &str = "/admin/script-variables";
const VALUE: &str = "hunter2 with \"quotes\"";

crate::in_both_worlds!(
    a_variable_is_set_read_by_scripts_and_deleted,
    events_do_not_contain_values,
    invalid_variables_are_refused
);

async fn a_variable_is_set_read_by_scripts_and_deleted(mut world: World) {
    let set = async |world: &World, key: &str, value: &str| {
        let body = json!({ "key": key, "value": value });
        world.server.admin(Method::POST, PATH, Some(&body)).await
    };
    world.server.upload(query_lexicon("com.example.env"), None).await;
    world.server.bind("com.example.env", "function handle() return { env.TOKEN, env.NONE == nil } end").await;
    assert_eq!(set(&world, "TOKEN", "first").await.status, 204);
    assert_eq!(world.server.xrpc("com.example.env").await.body, json!(["first", true]));
    assert_eq!(set(&world, "TOKEN", VALUE).await.status, 204);
    assert_eq!(set(&world, "A", "abc").await.status, 204);
    assert_eq!(world.server.xrpc("com.example.env").await.body, json!([VALUE, true]));

    let list = world.server.admin(Method::GET, PATH, None).await;
    let seen: Vec<_> =
        list.body.as_array().unwrap().iter().map(|v| json!([v["key"], v["preview"]])).collect();
    assert_eq!(json!(seen), json!([["A", "***"], ["TOKEN", "hunt****"]]));
    assert!(!list.text.contains("hunter2"), "{}", list.text);

    // It survives a restart, stored encrypted.
    world.server.stop();
    world.server.start_again().await;
    assert_eq!(world.server.xrpc("com.example.env").await.body, json!([VALUE, true]));

    let delete = async || world.server.admin(Method::DELETE, &format!("{PATH}/TOKEN"), None).await;
    assert_eq!(delete().await.status, 204);
    assert_eq!((delete().await.status.as_u16(), delete().await.error()), (404, "script variable not found"));
    assert_eq!(world.server.xrpc("com.example.env").await.body, json!([null, true]));
    let events = world.server.admin(Method::GET, "/admin/events?category=script_variable", None).await;
    let seen: Vec<_> = events.body["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|e| json!([e["event_type"], e["subject"]]))
        .collect();
    assert_eq!(seen[0], json!(["script_variable.deleted", "TOKEN"]));
    assert_eq!(seen.len(), 4);
    assert!(!events.text.contains("hunter2"));
}

async fn events_do_not_contain_values(world: World) {
    let body = json!({ "key": "TOKEN", "value": VALUE });
    world.server.admin(Method::POST, PATH, Some(&body)).await;
    world.server.upload(query_lexicon("com.example.leak"), None).await;
    let source = "function handle() log('I have ' .. env.TOKEN) error('and ' .. env.TOKEN) end";
    world.server.bind("com.example.leak", source).await;
    let query = "com.example.leak?password=swordfish&said=hunter2%20with%20%22quotes%22&plain=word";
    assert_eq!(world.server.xrpc(query).await.status, 500);
    let events = world.server.admin(Method::GET, "/admin/events?category=script", None).await;
    assert!(!events.text.contains("hunter2") && !events.text.contains("swordfish"), "{}", events.text);
    assert!(events.text.contains("[env.TOKEN]") && events.text.contains("word"), "{}", events.text);
}

async fn invalid_variables_are_refused(world: World) {
    for (body, message) in [
        (json!({ "key": " ", "value": "x" }), "key must be"),
        (json!({ "key": "a\nb", "value": "x" }), "key must be"),
        (json!({ "key": "a".repeat(200), "value": "x" }), "key must be"),
        (json!({ "key": "A", "value": "x".repeat(20_000) }), "value is longer"),
        (json!({ "key": "A" }), "value"),
        (json!({ "key": "A", "value": 5 }), "string"),
    ] {
        let answer = world.server.admin(Method::POST, PATH, Some(&body)).await;
        assert_eq!(answer.status, 400, "{body}");
        assert!(answer.error().contains(message), "{}", answer.text);
    }
    for n in 0..200 {
        let body = json!({ "key": format!("K{n}"), "value": "x" });
        assert_eq!(world.server.admin(Method::POST, PATH, Some(&body)).await.status, 204);
    }
    let more =
        world.server.admin(Method::POST, PATH, Some(&json!({ "key": "ONE_MORE", "value": "x" }))).await;
    assert!(more.status == 400 && more.error().contains("200 variables"), "{}", more.text);
    let again = world.server.admin(Method::POST, PATH, Some(&json!({ "key": "K7", "value": "y" }))).await;
    assert_eq!((again.status.as_u16(), again.body), (204, Value::Null));
}
