//! Changing what an installed plugin may do.

use crate::fixtures::World;
use belvedere_standins::files::FileServer;
use http::Method;
use serde_json::{Value, json};

use super::{ALL, HOST, PATH, events, install, post, refused, summary};
use crate::support::plugins::PluginFiles;

const OTHER: &str = "network:request?host=other.example";

crate::in_both_worlds!(
    grants_are_changed_for_later_calls,
    an_import_without_a_grant_is_refused_at_the_installation,
    a_paused_plugin_is_resumed
);

async fn grants_are_changed_for_later_calls(mut world: World) {
    let site = FileServer::start().await;
    let hosts = json!({ "hosts": ["adaptable.example", "other.example"] });
    let url = PluginFiles::adaptable(&hosts).publish(&site, "/x");
    let put = async |world: &World, granted: Value| {
        let body = json!({ "granted": granted });
        world.server.admin(Method::PUT, &format!("{PATH}/adaptable/grants"), Some(&body)).await
    };
    assert_eq!(put(&world, json!([])).await.status, 404);
    install(&world.server, &url).await;
    let answer = put(&world, json!([OTHER, "kv:use", "secrets:read"])).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    world.server.stop();
    world.server.start_again().await;
    let plugin = summary(&world.server, "adaptable").await.unwrap();
    let granted: Vec<bool> = plugin["permissions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["granted"].as_bool().unwrap())
        .collect();
    assert_eq!((granted, &plugin["status"]), (vec![false, true, true, true], &json!("active")));
    let (kind, _, detail) = events(&world.server).await.pop().unwrap();
    assert_eq!((kind.as_str(), &detail["denied"]), ("plugin.grants_updated", &json!([HOST])));
    refused("nothing", &put(&world, json!([])).await, "imports");
    refused("no network", &put(&world, json!(["kv:use", "secrets:read"])).await, "imports http");
    refused("not asked for", &put(&world, json!(["attest:sign"])).await, "does not ask for attest:sign");
    refused("unknown", &put(&world, json!(["all"])).await, "no permission");
    refused("no list", &put(&world, json!("kv:use")).await, "sequence");
    assert_eq!(summary(&world.server, "adaptable").await.unwrap(), plugin);
}

async fn an_import_without_a_grant_is_refused_at_the_installation(world: World) {
    let site = FileServer::start().await;
    let url = PluginFiles::adaptable(&json!({})).publish(&site, "/x");
    for (accepted, text) in [
        (vec![HOST, "kv:use"], "imports secrets"),
        (vec![HOST, "secrets:read"], "imports kv"),
        (vec!["kv:use", "secrets:read"], "imports http"),
        (vec![], "imports"),
        (vec![HOST, "kv:use", "secrets:read", OTHER], "does not ask for"),
    ] {
        let answer = post(&world.server, "", &json!({ "url": url, "accepted_capabilities": accepted })).await;
        refused(&format!("{accepted:?}"), &answer, text);
    }
    assert_eq!(summary(&world.server, "adaptable").await, None);
    let body = json!({ "url": url, "accepted_capabilities": ALL });
    assert_eq!(post(&world.server, "", &body).await.status, 200);
}

async fn a_paused_plugin_is_resumed(world: World) {
    let site = FileServer::start().await;
    install(&world.server, &PluginFiles::adaptable(&json!({})).publish(&site, "/x")).await;
    world.execute("UPDATE plugins SET status = 'paused', traps = 3, last_error = 'unreachable'").await;
    let paused = summary(&world.server, "adaptable").await.unwrap();
    assert_eq!(
        (&paused["status"], &paused["enabled"], &paused["last_error"]),
        (&json!("paused"), &json!(false), &json!("unreachable"))
    );
    let resumed = post(&world.server, "/adaptable/resume", &json!(null)).await;
    assert_eq!(
        (resumed.status.as_u16(), &resumed.body["status"]),
        (200, &json!("active")),
        "{}",
        resumed.text
    );
    assert_eq!(events(&world.server).await.pop().unwrap().0, "plugin.resumed");
    assert_eq!(post(&world.server, "/adaptable/resume", &json!(null)).await.status, 200);
    assert_eq!(events(&world.server).await.len(), 2, "a plugin that is active is left alone");
}
