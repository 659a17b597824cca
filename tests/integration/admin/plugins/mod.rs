//! `/admin/plugins`

mod catalogue;
mod configured;
mod crash;
mod grants;
mod install;
mod reload;
mod secrets;
mod sources;

use http::Method;
use serde_json::{Value, json};

use crate::support::instance::{Answer, Instance};

const PATH: &str = "/admin/plugins";

/// The permissions that `adaptable` asks for.
const HOST: &str = "network:request?host=adaptable.example";
const ALL: [&str; 3] = [HOST, "secrets:read", "kv:use"];

async fn post(server: &Instance, path: &str, body: &Value) -> Answer {
    server.admin(Method::POST, &format!("{PATH}{path}"), Some(body)).await
}

/// Installs `adaptable` from a URL with all that it asks for. Panics if that fails.
async fn install(server: &Instance, url: &str) -> Value {
    let answer = post(server, "", &json!({ "url": url, "accepted_capabilities": ALL })).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.body
}

/// The summaries of all plugins.
async fn list(server: &Instance) -> Vec<Value> {
    let answer = server.admin(Method::GET, PATH, None).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    assert_eq!(answer.body["encryption_configured"], true);
    answer.body["plugins"].as_array().unwrap().clone()
}

async fn summary(server: &Instance, id: &str) -> Option<Value> {
    list(server).await.into_iter().find(|plugin| plugin["id"] == id)
}

/// Type, subject and detail of the events of plugins, the oldest first.
async fn events(server: &Instance) -> Vec<(String, Value, Value)> {
    let answer = server.admin(Method::GET, "/admin/events?category=plugin&limit=100", None).await;
    let mut events: Vec<_> = answer.body["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| {
            let kind = event["event_type"].as_str().unwrap().to_owned();
            (kind, event["subject"].clone(), event["detail"].clone())
        })
        .collect();
    events.reverse();
    events
}

/// The operator reads why nothing was installed.
#[track_caller]
fn refused(what: &str, answer: &Answer, text: &str) {
    assert_eq!(answer.status, 400, "{what}: {}", answer.text);
    assert!(answer.error().contains(text), "{what}: {}", answer.text);
}
