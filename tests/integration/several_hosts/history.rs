//! The history of metrics and the new events are those of all hosts.

use http::Method;
use serde_json::{Value, json};

use super::Hosts;
use crate::support::event_stream;
use crate::support::instance::Instance;

async fn calls(server: &Instance) -> Value {
    let answer = server.admin(Method::GET, "/admin/metrics?metric=requests", None).await;
    answer.body["series"][0]["total"].clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hosts_count_together() {
    let hosts = Hosts::start().await;
    for (server, count) in [(&hosts.a, 2), (&hosts.b, 3)] {
        for _ in 0..count {
            server.xrpc("com.example.nothing").await;
        }
    }
    // Each stores its own counts when it is asked.
    assert_eq!(calls(&hosts.a).await, json!(2.0));
    assert_eq!(calls(&hosts.b).await, json!(5.0));
    assert_eq!(calls(&hosts.a).await, json!(5.0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_of_one_host_are_followed_on_the_other() {
    let hosts = Hosts::start().await;
    let mut events = event_stream::open(&hosts.b, "/admin/events/stream?category=setting").await.unwrap();
    let name = json!({ "value": "Notes" });
    assert_eq!(hosts.a.admin(Method::PUT, "/admin/settings/app_name", Some(&name)).await.status, 204);
    assert!(events.next().await.unwrap().contains("setting.updated"));
}
