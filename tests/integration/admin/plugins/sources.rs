//! The sources from which plugins may be downloaded, and downloads that fail.

use crate::fixtures::World;
use belvedere_standins::files::{File, FileServer};
use serde_json::{Value, json};

use super::{events, install, list, post, refused};
use crate::support::plugins::PluginFiles;

crate::in_both_worlds!(
    internal_addresses_are_out_of_reach_also_through_redirects,
    three_redirects_are_followed_and_a_fourth_is_not,
    incomplete_and_huge_downloads_are_refused,
    a_key_in_a_query_is_sent_and_not_shown
);

async fn internal_addresses_are_out_of_reach_also_through_redirects(world: World) {
    let own = format!("http://127.0.0.1:{}/manifest.json", world.server.address.port());
    let site = FileServer::start().await;
    // One text for all, so that it does not reveal internal hosts.
    let unreachable =
        "manifest.json could not be downloaded: its server is no https server on the public internet";
    for (url, text) in [
        ("https://10.0.0.1/manifest.json", unreachable),
        ("https://169.254.169.254/manifest.json", unreachable),
        ("https://[::ffff:10.0.0.1]/manifest.json", unreachable),
        ("http://example.com/manifest.json", unreachable),
        (own.as_str(), unreachable),
        ("ftp://example.com/manifest.json", "its scheme is not https"),
        ("file:///etc/passwd", "its scheme is not https"),
        ("https://user:pw@example.com/manifest.json", "it carries credentials"),
    ] {
        let direct = post(&world.server, "/preview", &json!({ "url": url })).await;
        refused(url, &direct, text);
        assert!(!direct.text.contains("user:pw"), "{}", direct.text);
        site.put("/x/manifest.json", File::Redirect(url.to_owned()));
        let redirected = post(&world.server, "", &json!({ "url": site.url("/x") })).await;
        refused(url, &redirected, unreachable);
    }
    // The module is checked as the manifest is.
    let files = PluginFiles::adaptable(&json!({}));
    let url = files.publish(&site, "/y");
    site.put("/y/plugin.wasm", File::Redirect("https://10.0.0.1/plugin.wasm".to_owned()));
    let answer = post(&world.server, "", &json!({ "url": url })).await;
    refused("the module", &answer, "plugin.wasm could not be downloaded: its server is no https server");
    assert_eq!(list(&world.server).await, [Value::Null; 0]);
    assert!(events(&world.server).await.iter().all(|(kind, ..)| kind == "plugin.refused"));
}

async fn three_redirects_are_followed_and_a_fourth_is_not(world: World) {
    let site = FileServer::start().await;
    PluginFiles::adaptable(&json!({})).publish(&site, "/files");
    for n in 1..=4 {
        let to = if n == 1 { "/files".to_owned() } else { format!("/{}", n - 1) };
        for file in ["manifest.json", "plugin.wasm"] {
            site.put(&format!("/{n}/{file}"), File::Redirect(site.url(&format!("{to}/{file}"))));
        }
    }
    install(&world.server, &site.url("/3")).await;
    refused(
        "four",
        &post(&world.server, "", &json!({ "url": site.url("/4") })).await,
        "more than 3 redirects",
    );
}

async fn incomplete_and_huge_downloads_are_refused(world: World) {
    let (site, files) = (FileServer::start().await, PluginFiles::adaptable(&json!({})));
    let url = files.publish(&site, "/x");
    let refuse = async |path: &str, file: File, text: &str| {
        let what = format!("{path} {}", format!("{file:?}").chars().take(20).collect::<String>());
        site.put(&format!("/x/{path}"), file);
        refused(&what, &post(&world.server, "", &json!({ "url": url })).await, text);
    };
    refuse("plugin.wasm", File::Truncated(files.module.clone()), "plugin.wasm could not be downloaded").await;
    refuse("plugin.wasm", File::Announced(200 << 20), "larger than").await;
    let before = site.sent();
    refuse("plugin.wasm", File::Endless, "larger than").await;
    let taken = site.sent() - before;
    assert!(taken < 64 << 20, "{taken} bytes of an endless module");
    site.remove("/x/plugin.wasm");
    refused("404", &post(&world.server, "", &json!({ "url": url })).await, "404");
    refuse("manifest.json", File::Truncated(files.manifest.clone().into()), "manifest.json could not").await;
    refuse("manifest.json", File::Endless, "larger than 65536").await;
    assert_eq!(list(&world.server).await, [Value::Null; 0]);
    // The server goes on.
    files.publish(&site, "/x");
    install(&world.server, &url).await;
}

async fn a_key_in_a_query_is_sent_and_not_shown(world: World) {
    let site = FileServer::start().await;
    let url = PluginFiles::adaptable(&json!({})).publish(&site, "/x");
    let installed = install(&world.server, &format!("{url}?key=s3cret")).await;
    assert_eq!(installed["url"], url);
    let answer = post(&world.server, "/adaptable/reload", &json!({})).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    let events = format!("{:?}", events(&world.server).await);
    assert!(!answer.text.contains("s3cret") && !events.contains("s3cret"), "{events}");
}
