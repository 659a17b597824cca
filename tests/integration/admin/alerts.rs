//! `/admin/alerts`

use belvedere_standins::upstream::{Upstream, respond};
use http::Method;
use serde_json::{Value, json};

use crate::fixtures::World;
use crate::support::instance::Instance;

const PATH: &str = "/admin/alerts";

fn rule(change: &Value) -> Value {
    let mut rule = json!({
        "name": "Slow", "metric": "request_p99_ms", "condition": "above", "threshold": 250, "minutes": 5,
        "target": "log",
    });
    for (key, value) in change.as_object().unwrap() {
        rule[key] = value.clone();
    }
    rule
}

async fn create(server: &Instance, change: Value) -> Value {
    let answer = server.admin(Method::POST, PATH, Some(&rule(&change))).await;
    assert_eq!(answer.status, 201, "{}", answer.text);
    answer.body
}

crate::in_both_worlds!(
    alerts_are_created_changed_and_deleted,
    mistakes_are_refused_with_the_reason,
    a_test_calls_the_webhook,
    an_alert_fires_and_is_resolved
);

async fn alerts_are_created_changed_and_deleted(world: World) {
    let server = &world.server;
    let made = create(server, json!({ "label": "com.example.list" })).await;
    let path = format!("{PATH}/{}", made["id"].as_str().unwrap());
    assert_eq!((&made["state"], &made["revision"], &made["secret"]), (&json!("ok"), &json!(1), &Value::Null));
    let list = server.admin(Method::GET, PATH, None).await;
    assert_eq!(list.body["alerts"].as_array().unwrap().len(), 1, "{}", list.text);
    assert_eq!(list.body["alerts"][0]["label"], "com.example.list");
    let metrics = list.body["metrics"].as_array().unwrap();
    assert_eq!(metrics.len(), if world.is_postgres() { 9 } else { 10 });

    let change = rule(&json!({ "name": "Slower", "threshold": 500.5, "revision": 1 }));
    let changed = server.admin(Method::PUT, &path, Some(&change)).await;
    assert_eq!((changed.status.as_u16(), &changed.body["revision"]), (200, &json!(2)), "{}", changed.text);
    assert_eq!((&changed.body["threshold"], &changed.body["label"]), (&json!(500.5), &Value::Null));
    let late = server.admin(Method::PUT, &path, Some(&change)).await;
    assert_eq!(late.status, 409, "{}", late.text);
    assert!(late.error().contains("revision 2"), "{}", late.text);
    assert_eq!(server.admin(Method::GET, &path, None).await.body["name"], "Slower");
    assert_eq!(server.admin(Method::DELETE, &path, None).await.status, 204);
    for (method, body) in [(Method::GET, None), (Method::DELETE, None), (Method::PUT, Some(&change))] {
        assert_eq!(server.admin(method, &path, body).await.status, 404);
    }
    server
        .eventually("the events are stored", async |server| {
            let events = server.admin(Method::GET, "/admin/events?category=alert", None).await.text;
            ["alert.created", "alert.updated", "alert.deleted"].iter().all(|kind| events.contains(kind))
        })
        .await;
}

async fn mistakes_are_refused_with_the_reason(world: World) {
    for (change, text) in [
        (json!({ "name": "" }), "name must be"),
        (json!({ "metric": "nothing" }), "unknown variant `nothing`"),
        (json!({ "condition": "equal" }), "unknown variant `equal`"),
        (json!({ "threshold": -1 }), "threshold must be"),
        (json!({ "minutes": 1441 }), "minutes must be a number from 0 to 1440"),
        (json!({ "metric": "dead_letters", "label": "x" }), "dead_letters has no label"),
        (json!({ "target": "webhook" }), "url must be the address of the webhook"),
        (json!({ "url": "https://hooks.example/" }), "url is for webhooks only"),
        (json!({ "target": "webhook", "url": "http://10.0.0.1/" }), "url can't be called"),
        (
            json!({ "target": "webhook", "url": "https://hooks.example/", "secret": "short" }),
            "secret must have",
        ),
    ] {
        let answer = world.server.admin(Method::POST, PATH, Some(&rule(&change))).await;
        assert_eq!(answer.status, 400, "{change} {}", answer.text);
        assert!(answer.text.contains(text), "{change}: {}", answer.text);
    }
    if world.is_postgres() {
        let disk = rule(&json!({ "metric": "disk_free_bytes" }));
        assert_eq!(world.server.admin(Method::POST, PATH, Some(&disk)).await.status, 400);
    }
    assert_eq!(world.server.admin(Method::GET, "/admin/alerts/%00", None).await.status, 400);
}

async fn a_test_calls_the_webhook(world: World) {
    let server = &world.server;
    let hook = Upstream::start(|_| respond(204, "text/plain", "")).await;
    let webhook = json!({ "target": "webhook", "url": format!("{}/hook?token=t", hook.url()) });
    let made = create(server, webhook.clone()).await;
    assert_eq!(made["secret"].as_str().unwrap().len(), 64, "shown once");
    let path = format!("{PATH}/{}", made["id"].as_str().unwrap());
    assert!(server.admin(Method::GET, &path, None).await.body.get("secret").is_none());
    let test = server.admin(Method::POST, &format!("{path}/test"), None).await;
    assert_eq!((test.status.as_u16(), &test.body), (200, &json!({ "is_sent": true, "error": null })));
    let requests = hook.requests();
    let body: Value = serde_json::from_slice(&requests[0].body).unwrap();
    assert_eq!((&body["state"], &body["alert"]["name"]), (&json!("test"), &json!("Slow")));
    assert!(requests[0].headers["belvedere-signature"].to_str().unwrap().contains(",v1="));

    // A change without a secret keeps the secret, and shows none.
    let kept = server.admin(Method::PUT, &path, Some(&rule(&webhook))).await;
    assert_eq!((kept.status.as_u16(), &kept.body["secret"]), (200, &Value::Null), "{}", kept.text);
    drop(hook);
    let broken = json!({ "target": "webhook", "url": "http://127.0.0.1:1/" });
    server.admin(Method::PUT, &path, Some(&rule(&broken))).await;
    let test = server.admin(Method::POST, &format!("{path}/test"), None).await;
    assert_eq!(test.body["is_sent"], false, "{}", test.text);
    assert!(test.body["error"].as_str().unwrap().contains("connection failed"), "{}", test.text);
}

async fn an_alert_fires_and_is_resolved(world: World) {
    let server = &world.server;
    let always = json!({ "metric": "database_bytes", "threshold": 0, "minutes": 0 });
    let made = create(server, always.clone()).await;
    let path = format!("{PATH}/{}", made["id"].as_str().unwrap());
    let is = async |server: &Instance, state: &str| {
        server.admin(Method::GET, &path, None).await.body["state"] == state
    };
    server.eventually("it fires", async |server| is(server, "firing").await).await;
    let never = rule(&json!({ "metric": "database_bytes", "condition": "below", "threshold": 0 }));
    server.admin(Method::PUT, &path, Some(&never)).await;
    server.eventually("it is resolved", async |server| is(server, "ok").await).await;
}
