//! The catalogue of plugins, and updates.

use belvedere_standins::database::sqlite_url;
use belvedere_standins::files::{File, FileServer};
use http::Method;
use serde_json::{Value, json};

use super::{PATH, install, list, post, refused, summary};
use crate::support::instance::Instance;
use crate::support::plugins::PluginFiles;

fn release(site: &FileServer, version: &str) -> Value {
    let tag = format!("adaptable-v{version}");
    let folder = format!("/download/{tag}");
    let url = PluginFiles::adaptable(&json!({ "version": version })).publish(site, &folder);
    json!({ "tag_name": tag, "name": format!("Adaptable {version}"), "body": "Notes.", "draft": false,
        "published_at": "2026-01-02T03:04:05Z",
        "assets": [{ "name": "manifest.json", "browser_download_url": format!("{url}/manifest.json") }] })
}

fn publish(site: &FileServer, releases: &[Value]) {
    site.put("/releases", File::Whole(json!(releases).to_string().into_bytes()));
}

async fn official(server: &Instance) -> Value {
    server.admin(Method::GET, &format!("{PATH}/official"), None).await.body
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn releases_are_listed_and_newer_ones_are_updates() {
    let site = FileServer::start().await;
    let (first, second) = (release(&site, "1.0.0"), release(&site, "1.2.0"));
    publish(&site, &[second.clone(), first.clone(), json!({ "tag_name": "nightly" })]);
    let (url, _directory) = sqlite_url();
    let feed = site.url("/releases");
    let server = Instance::start_with(&url, "none", &[("PLUGIN_CATALOGUE_URL", &feed)]).await;
    let is_there = async |server: &Instance| official(server).await["plugins"][0]["id"] == "adaptable";
    server.eventually("the catalogue is read at the start", is_there).await;
    let catalogue = official(&server).await;
    let manifest = site.url("/download/adaptable-v1.2.0/manifest.json");
    let expected = json!([{ "id": "adaptable", "name": "Adaptable", "description": "Reads a secret, a value and a page.",
        "icon_url": null, "latest_version": "1.2.0", "manifest_url": manifest }]);
    assert_eq!(catalogue["plugins"], expected);
    assert!(catalogue["last_refreshed_at"].is_string());

    install(&server, first["assets"][0]["browser_download_url"].as_str().unwrap()).await;
    let plugin = summary(&server, "adaptable").await.unwrap();
    assert_eq!((&plugin["update_available"], &plugin["latest_version"]), (&json!(true), &json!("1.2.0")));
    let pending = json!([{ "version": "1.2.0", "name": "Adaptable 1.2.0", "published_at": "2026-01-02T03:04:05Z", "body": "Notes." }]);
    assert_eq!(plugin["pending_releases"], pending);

    publish(&site, &[release(&site, "2.0.0-rc.1"), second, first]);
    let checked = post(&server, "/adaptable/check-update", &json!(null)).await;
    assert_eq!(checked.status, 200, "{}", checked.text);
    assert_eq!(checked.body["pending_releases"].as_array().unwrap().len(), 2);
    assert_eq!(checked.body["latest_version"], "2.0.0-rc.1");
    // After an error the catalogue stays as it was.
    for broken in [File::Whole(b"{}".to_vec()), File::Truncated(b"[]".to_vec()), File::Endless] {
        site.put("/releases", broken);
        refused("the feed", &post(&server, "/adaptable/check-update", &json!(null)).await, "catalogue");
    }
    assert_eq!(official(&server).await["plugins"][0]["latest_version"], "2.0.0-rc.1");
    let body = json!({ "url": official(&server).await["plugins"][0]["manifest_url"] });
    let updated = post(&server, "/adaptable/reload", &body).await;
    assert_eq!(
        (updated.status.as_u16(), &updated.body["update_available"]),
        (200, &json!(false)),
        "{}",
        updated.text
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn there_is_none_without_an_address() {
    let (url, _directory) = sqlite_url();
    let server = Instance::start(&url, "none").await;
    assert_eq!(official(&server).await, json!({ "plugins": [], "last_refreshed_at": null }));
    assert_eq!(list(&server).await, [Value::Null; 0]);
    PluginFiles::built("minimal").upload(&server, PATH, &[]).await;
    refused(
        "no catalogue",
        &post(&server, "/minimal/check-update", &json!(null)).await,
        "PLUGIN_CATALOGUE_URL",
    );
}
