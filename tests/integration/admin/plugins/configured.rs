//! Plugins that the configuration names: `PLUGIN_DIR` and `PLUGIN_URLS`.

use belvedere_standins::database::sqlite_url;
use belvedere_standins::files::FileServer;
use http::Method;
use serde_json::{Value, json};

use super::{ALL, PATH, events, list, post, refused, summary};
use crate::support::instance::Instance;
use crate::support::plugins::PluginFiles;

/// A test of a server with its own variables, on both databases.
macro_rules! on_both {
    ($($name:ident),* $(,)?) => {
        $(mod $name {
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn sqlite() {
                let (url, _directory) = super::sqlite_url();
                super::$name(&url).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn postgres() {
                super::$name(&belvedere_standins::postgres::create_database().await).await;
            }
        })*
    };
}

fn granted(plugin: &Value) -> Vec<&str> {
    let all = plugin["permissions"].as_array().unwrap().iter();
    all.filter(|one| one["granted"] == true).map(|one| one["permission"].as_str().unwrap()).collect()
}

/// Waits until a plugin has a status.
async fn wait_for(server: &Instance, id: &str, status: &str) -> Value {
    let is_so =
        async |server: &Instance| summary(server, id).await.is_some_and(|one| one["status"] == status);
    server.eventually(&format!("{id} is {status}"), is_so).await;
    summary(server, id).await.unwrap()
}

on_both!(
    folders_are_loaded_and_a_broken_one_harms_no_other,
    urls_are_installed_once_with_what_the_operator_granted
);

async fn folders_are_loaded_and_a_broken_one_harms_no_other(url: &str) {
    let folder = tempfile::tempdir().unwrap();
    PluginFiles::built("minimal").write(&folder.path().join("one"));
    let unrestricted = json!({ "unrestricted_network": true });
    PluginFiles::adaptable(&unrestricted).write(&folder.path().join("two"));
    PluginFiles::built("minimal").lying(&json!({ "id": "liar" })).write(&folder.path().join("three"));
    std::fs::create_dir(folder.path().join("four")).unwrap();
    std::fs::write(folder.path().join("four/manifest.json"), "{").unwrap();
    let dir = folder.path().display().to_string();
    let environment = [("PLUGIN_DIR", &*dir), ("PLUGIN_ADAPTABLE_KEY", "from the environment")];
    let mut server = Instance::start_with(url, "none", &environment).await;
    let status = |plugins: &[Value], id: &str| {
        plugins.iter().find(|one| one["id"] == id).map(|one| (one["status"].clone(), one["source"].clone()))
    };
    let plugins = list(&server).await;
    assert_eq!(plugins.len(), 4, "{plugins:?}");
    for (id, expected) in
        [("minimal", "active"), ("adaptable", "active"), ("liar", "failed"), ("four", "failed")]
    {
        assert_eq!(status(&plugins, id), Some((json!(expected), json!("file"))), "{id}");
    }
    let failed = |id: &str| plugins.iter().find(|one| one["id"] == id).unwrap()["last_error"].to_string();
    assert!(failed("liar").contains("describes itself") && failed("four").contains("manifest.json"));
    assert!(server.log().contains("a plugin could not be loaded"));
    let adaptable = summary(&server, "adaptable").await.unwrap();
    assert_eq!(adaptable["secrets_configured"], true, "by the environment");
    assert_eq!(granted(&adaptable), ["network:request?host=adaptable.example", "secrets:read", "kv:use"]);
    let secrets = server.admin(Method::GET, &format!("{PATH}/adaptable/secrets"), None).await;
    assert_eq!(secrets.body["secrets"], json!({}), "those of the environment are not listed");

    refused("reload", &post(&server, "/minimal/reload", &json!({})).await, "PLUGIN_DIR");
    let grants =
        server.admin(Method::PUT, &format!("{PATH}/minimal/grants"), Some(&json!({ "granted": [] }))).await;
    refused("grants", &grants, "PLUGIN_DIR");
    let replaced = PluginFiles::built("minimal").upload(&server, PATH, &[]).await;
    assert_eq!(
        (replaced.status.as_u16(), replaced.error().contains("PLUGIN_DIR")),
        (409, true),
        "{}",
        replaced.text
    );
    let seen = async |server: &Instance, kind: &str, id: &str| {
        events(server).await.iter().filter(|event| event.0 == kind && event.1 == id).count()
    };
    for (kind, id) in [("plugin.added", "minimal"), ("plugin.refused", "liar"), ("plugin.refused", "four")] {
        assert_eq!(seen(&server, kind, id).await, 1, "{kind} {id}");
    }

    // The next start takes new files, and drops a plugin whose folder is gone.
    PluginFiles::adaptable(&json!({ "version": "1.0.1" })).write(&folder.path().join("two"));
    std::fs::remove_dir_all(folder.path().join("one")).unwrap();
    server.stop();
    server.start_again().await;
    assert_eq!(summary(&server, "adaptable").await.unwrap()["version"], "1.0.1");
    assert_eq!(seen(&server, "plugin.reloaded", "adaptable").await, 1);
    let gone = summary(&server, "minimal").await.unwrap();
    assert_eq!(gone["status"], "failed");
    assert!(gone["last_error"].as_str().unwrap().contains("no longer in PLUGIN_DIR"), "{gone}");
    assert_eq!(server.admin(Method::DELETE, &format!("{PATH}/minimal"), None).await.status, 204);
    assert_eq!(summary(&server, "minimal").await, None);
}

async fn urls_are_installed_once_with_what_the_operator_granted(url: &str) {
    let site = FileServer::start().await;
    let files = PluginFiles::adaptable(&json!({ "unrestricted_network": true }));
    let good = files.publish(&site, "/x");
    let minimal = PluginFiles::built("minimal").publish(&site, "/y");
    let half = PluginFiles::adaptable(&json!({ "id": "half", "required_secrets": [] }));
    let half_pinned = format!("half|{}|sha256:{}", half.publish(&site, "/z"), half.sha256());
    let (pin, manifest, wrong) = (files.sha256(), files.manifest_sha256(), "00".repeat(32));
    let urls = format!(
        "adaptable|{good}|sha256:{pin}+{manifest},wrong|{minimal},minimal|{minimal}|sha256:{wrong},{half_pinned}"
    );
    let environment =
        [("PLUGIN_URLS", &*urls), ("PLUGIN_GRANT_UNRESTRICTED", "adaptable"), ("PLUGIN_DIR", "/nowhere")];
    let mut server = Instance::start_with(url, "none", &environment).await;
    let plugin = wait_for(&server, "adaptable", "active").await;
    assert_eq!(
        (&plugin["source"], &plugin["pinned"], &plugin["url"]),
        (&json!("environment"), &json!(true), &json!(good))
    );
    assert!(granted(&plugin).contains(&"network:request:unrestricted"), "{plugin}");
    let other = wait_for(&server, "wrong", "failed").await;
    assert!(other["last_error"].as_str().unwrap().contains("PLUGIN_URLS names \"wrong\""), "{other}");
    let hash = wait_for(&server, "minimal", "failed").await;
    assert!(hash["last_error"].as_str().unwrap().contains("SHA-256"), "{hash}");
    assert_eq!((&hash["source"], &hash["version"]), (&json!("environment"), &Value::Null));
    // The author of the manifest decides which permissions a plugin asks for, so only its hash is consent.
    let half = wait_for(&server, "half", "active").await;
    assert_eq!(granted(&half), ["secrets:read", "kv:use"]);
    let grants = json!({ "granted": ALL });
    let more = server.admin(Method::PUT, &format!("{PATH}/half/grants"), Some(&grants)).await;
    assert_eq!((more.status.as_u16(), granted(&more.body)), (200, ALL.to_vec()), "{}", more.text);
    let moved = post(&server, "/half/reload", &json!({ "url": site.url("/elsewhere") })).await;
    assert_eq!(moved.status, 409, "{}", moved.text);
    // A stored one is not downloaded again.
    let count = || site.requested().iter().filter(|path| path.starts_with("/x/")).count();
    assert_eq!(count(), 2);
    server.stop();
    server.start_again().await;
    wait_for(&server, "adaptable", "active").await;
    wait_for(&server, "minimal", "failed").await;
    assert_eq!(count(), 2);
    assert_eq!(granted(&wait_for(&server, "half", "active").await), ALL);
}
