//! The secrets of plugins.

use belvedere_standins::files::FileServer;
use http::Method;
use serde_json::{Value, json};

use super::{PATH, events, install, refused, summary};
use crate::fixtures::World;
use crate::support::instance::Answer;
use crate::support::plugins::PluginFiles;

async fn put(world: &World, id: &str, secrets: Value) -> Answer {
    let body = json!({ "secrets": secrets });
    world.server.admin(Method::PUT, &format!("{PATH}/{id}/secrets"), Some(&body)).await
}

async fn get(world: &World, id: &str) -> Answer {
    world.server.admin(Method::GET, &format!("{PATH}/{id}/secrets"), None).await
}

async fn world_with_plugin(world: &World) -> FileServer {
    let site = FileServer::start().await;
    install(&world.server, &PluginFiles::adaptable(&json!({})).publish(&site, "/x")).await;
    site
}

crate::in_both_worlds!(
    a_set_replaces_the_stored_one_and_is_shown_masked,
    secrets_of_another_plugin_are_refused,
    secrets_outlive_their_plugin_and_can_be_removed_afterwards
);

async fn a_set_replaces_the_stored_one_and_is_shown_masked(mut world: World) {
    let _site = world_with_plugin(&world).await;
    assert_eq!(get(&world, "adaptable").await.body, json!({ "plugin_id": "adaptable", "secrets": {} }));
    let secrets = json!({ "PLUGIN_ADAPTABLE_KEY": "a s3cret value", "PLUGIN_ADAPTABLE_B": "short", "PLUGIN_ADAPTABLE_C": "" });
    assert_eq!(put(&world, "adaptable", secrets).await.status, 204);
    let masked = json!({ "PLUGIN_ADAPTABLE_KEY": "********alue", "PLUGIN_ADAPTABLE_B": "********" });
    assert_eq!(get(&world, "adaptable").await.body["secrets"], masked);
    assert_eq!(summary(&world.server, "adaptable").await.unwrap()["secrets_configured"], true);
    // The mask keeps a value; what is left out goes.
    let kept = json!({ "PLUGIN_ADAPTABLE_KEY": "********alue" });
    assert_eq!(put(&world, "adaptable", kept.clone()).await.status, 204);
    world.server.stop();
    world.server.start_again().await;
    assert_eq!(get(&world, "adaptable").await.body["secrets"], kept);
    refused(
        "nothing to keep",
        &put(&world, "adaptable", json!({ "PLUGIN_ADAPTABLE_B": "********" })).await,
        "PLUGIN_ADAPTABLE_B",
    );
    assert_eq!(get(&world, "adaptable").await.body["secrets"], kept, "nothing was changed");
    let seen = format!("{:?}", events(&world.server).await);
    assert!(seen.contains("plugin.secrets_updated") && !seen.contains("s3cret"), "{seen}");
    assert_eq!(put(&world, "adaptable", json!({ "PLUGIN_ADAPTABLE_KEY": null })).await.status, 204);
    assert_eq!(get(&world, "adaptable").await.body["secrets"], json!({}));
    assert_eq!(summary(&world.server, "adaptable").await.unwrap()["secrets_configured"], false);
}

async fn secrets_of_another_plugin_are_refused(world: World) {
    let _site = world_with_plugin(&world).await;
    for (name, value) in [
        ("PLUGIN_MINIMAL_KEY", json!("x")),
        ("KEY", json!("x")),
        ("PLUGIN_ADAPTABLE_", json!("x")),
        ("PLUGIN_ADAPTABLE_key", json!("x")),
        ("", json!("x")),
        ("PLUGIN_ADAPTABLE_KEY", json!("x".repeat(17_000))),
        ("PLUGIN_ADAPTABLE_KEY", json!(5)),
        ("PLUGIN_ADAPTABLE_KEY", json!("a\0b")),
        ("PLUGIN_ADAPTABLE_K\0", json!("x")),
    ] {
        let answer = put(&world, "adaptable", json!({ name: value })).await;
        assert_eq!(answer.status, 400, "{name} {}", answer.text);
    }
    let many: serde_json::Map<String, Value> =
        (0..65).map(|n| (format!("PLUGIN_ADAPTABLE_{n}"), json!("x"))).collect();
    refused("too many", &put(&world, "adaptable", many.into()).await, "at most 64");
    assert_eq!(
        (get(&world, "none").await.status.as_u16(), put(&world, "none", json!({})).await.status.as_u16()),
        (404, 404)
    );
    assert_eq!(get(&world, "adaptable").await.body["secrets"], json!({}));
}

async fn secrets_outlive_their_plugin_and_can_be_removed_afterwards(world: World) {
    let site = world_with_plugin(&world).await;
    put(&world, "adaptable", json!({ "PLUGIN_ADAPTABLE_KEY": "a value of it" })).await;
    let path = format!("{PATH}/adaptable");
    assert_eq!(world.server.admin(Method::DELETE, &path, None).await.status, 204);
    assert_eq!(get(&world, "adaptable").await.body["secrets"]["PLUGIN_ADAPTABLE_KEY"], "********f it");
    let again = install(&world.server, &site.url("/x")).await;
    assert_eq!(again["secrets_configured"], true);
    assert_eq!(world.server.admin(Method::DELETE, &path, None).await.status, 204);
    assert_eq!(put(&world, "adaptable", json!({})).await.status, 204);
    assert_eq!(get(&world, "adaptable").await.status, 404);
}
