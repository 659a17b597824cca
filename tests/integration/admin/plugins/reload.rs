//! New versions of an installed plugin.

use crate::fixtures::World;
use belvedere_standins::files::{File, FileServer};
use serde_json::{Value, json};

use super::{ALL, HOST, events, install, list, post, refused, summary};
use crate::support::plugins::PluginFiles;

fn version(version: &str) -> PluginFiles {
    PluginFiles::adaptable(&json!({ "version": version }))
}

crate::in_both_worlds!(
    a_file_that_was_replaced_takes_effect_on_reload_only,
    a_version_that_asks_for_more_needs_consent,
    a_failed_reload_leaves_the_version_before,
    a_pinned_plugin_takes_its_module_only_until_it_moves
);

async fn a_file_that_was_replaced_takes_effect_on_reload_only(mut world: World) {
    let (site, old, new) = (FileServer::start().await, version("1.0.0"), version("1.1.0"));
    let url = old.publish(&site, "/x");
    install(&world.server, &url).await;
    new.publish(&site, "/x");
    world.server.stop();
    world.server.start_again().await;
    assert_eq!(summary(&world.server, "adaptable").await.unwrap()["version"], "1.0.0");
    // The same permissions need no new consent.
    let reloaded = post(&world.server, "/adaptable/reload", &json!({})).await;
    assert_eq!(reloaded.status, 200, "{}", reloaded.text);
    assert_eq!(
        (&reloaded.body["version"], &reloaded.body["sha256"]),
        (&json!("1.1.0"), &json!(new.sha256()))
    );
    let none = json!({ "added": [], "removed": [] });
    let changes = &reloaded.body["changes"];
    assert_eq!(changes["version"], json!({ "from": "1.0.0", "to": "1.1.0" }));
    assert_eq!(changes["sha256"], json!({ "from": old.sha256(), "to": new.sha256() }));
    assert_eq!((&changes["imports"], &changes["permissions"]), (&none, &none));
    let (kind, _, detail) = events(&world.server).await.pop().unwrap();
    assert_eq!((kind.as_str(), &detail["changes"]), ("plugin.reloaded", changes));
}

async fn a_version_that_asks_for_more_needs_consent(world: World) {
    let site = FileServer::start().await;
    let url = version("1.0.0").publish(&site, "/x");
    install(&world.server, &url).await;
    let more = "network:request?host=other.example&method=GET";
    let hosts = json!(["adaptable.example", { "host": "other.example", "methods": ["GET"] }]);
    PluginFiles::adaptable(&json!({ "version": "2.0.0", "hosts": hosts })).publish(&site, "/x");
    let asked = post(&world.server, "/adaptable/reload", &json!({})).await;
    assert_eq!((asked.status.as_u16(), asked.error()), (400, "ConsentRequired"));
    let permissions = asked.body["permissions"].as_array().unwrap();
    assert_eq!((permissions.len(), &permissions[0]["permission"]), (1, &json!(more)), "only what is new");
    assert_eq!(asked.body["changes"]["permissions"], json!({ "added": [more], "removed": [] }));
    assert_eq!(summary(&world.server, "adaptable").await.unwrap()["version"], "1.0.0");
    // Denied.
    let denied = post(&world.server, "/adaptable/reload", &json!({ "accepted_capabilities": [] })).await;
    assert_eq!((denied.status.as_u16(), &denied.body["version"]), (200, &json!("2.0.0")), "{}", denied.text);
    let granted = |body: &Value| {
        let all = body["permissions"].as_array().unwrap().iter();
        all.filter(|one| one["granted"] == true).map(|one| one["permission"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(granted(&denied.body), ALL);
    // A decision is not asked for again.
    let again = post(&world.server, "/adaptable/reload", &json!({})).await;
    assert_eq!((again.status.as_u16(), granted(&again.body)), (200, ALL.map(Value::from).to_vec()));
    let body = json!({ "accepted_capabilities": [more] });
    let accepted = post(&world.server, "/adaptable/reload", &body).await;
    assert_eq!(granted(&accepted.body), [HOST, more, "secrets:read", "kv:use"]);
}

async fn a_failed_reload_leaves_the_version_before(world: World) {
    let site = FileServer::start().await;
    let url = version("1.0.0").publish(&site, "/x");
    install(&world.server, &url).await;
    let before = list(&world.server).await;
    let reload = async |body: Value| post(&world.server, "/adaptable/reload", &body).await;
    PluginFiles::adaptable(&json!({ "id": "else", "required_secrets": [] })).publish(&site, "/else");
    refused("another id", &reload(json!({ "url": site.url("/else") })).await, "the id \"else\"");
    refused("no server", &reload(json!({ "url": "http://127.0.0.1:9/" })).await, "could not be downloaded");
    refused("no url", &reload(json!({ "url": "" })).await, "url must be");
    refused("another hash", &reload(json!({ "sha256": "00".repeat(32) })).await, "SHA-256");
    site.put("/x/plugin.wasm", File::Truncated(version("1.0.0").module));
    refused("half a module", &reload(json!({})).await, "could not be downloaded");
    site.put("/x/plugin.wasm", File::Whole(b"\0asm\x01\0\0\0".to_vec()));
    refused("a core module", &reload(json!({})).await, "");
    version("1.0.0").lying(&json!({ "version": "9.9.9" })).publish(&site, "/x");
    refused("a lie", &reload(json!({})).await, "9.9.9");
    assert_eq!(list(&world.server).await, before);
    let (kind, subject, _) = events(&world.server).await.pop().unwrap();
    assert_eq!((kind.as_str(), subject), ("plugin.refused", json!("adaptable")));
}

async fn a_pinned_plugin_takes_its_module_only_until_it_moves(world: World) {
    let (site, old, new) = (FileServer::start().await, version("1.0.0"), version("2.0.0"));
    let url = old.publish(&site, "/x");
    let body = json!({ "url": url, "sha256": old.sha256(), "accepted_capabilities": ALL });
    assert_eq!(post(&world.server, "", &body).await.status, 200);
    new.publish(&site, "/x");
    refused("a new module", &post(&world.server, "/adaptable/reload", &json!({})).await, "SHA-256");
    let same =
        post(&world.server, "/adaptable/reload", &json!({ "url": format!("{url}/manifest.json") })).await;
    refused("the same url", &same, "SHA-256");
    // A new pin, then a new URL.
    let body = json!({ "sha256": new.sha256().to_uppercase() });
    let pinned = post(&world.server, "/adaptable/reload", &body).await;
    assert_eq!((pinned.status.as_u16(), &pinned.body["pinned"]), (200, &json!(true)), "{}", pinned.text);
    let moved = old.publish(&site, "/y");
    let moved = post(&world.server, "/adaptable/reload", &json!({ "url": moved })).await;
    assert_eq!((moved.status.as_u16(), &moved.body["pinned"]), (200, &json!(false)), "{}", moved.text);
    assert_eq!((&moved.body["version"], &moved.body["url"]), (&json!("1.0.0"), &json!(site.url("/y"))));
}
