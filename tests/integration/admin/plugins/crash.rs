//! Kills in the middle of an installation.

use crate::fixtures::World;
use belvedere_standins::files::{File, FileServer};
use http::Method;
use serde_json::{Value, json};

use super::{ALL, PATH, install, list, summary};
use crate::support::plugins::PluginFiles;

crate::in_both_worlds!(a_kill_leaves_the_version_before_or_the_new_one, a_removal_goes_on_after_a_kill);

async fn a_kill_leaves_the_version_before_or_the_new_one(mut world: World) {
    let site = FileServer::start().await;
    let files = PluginFiles::adaptable(&json!({}));
    // During the download nothing is stored.
    let url = files.publish(&site, "/x");
    site.put("/x/plugin.wasm", File::Silent);
    let body = json!({ "url": url, "accepted_capabilities": ALL });
    let installing = world.server.admin(Method::POST, PATH, Some(&body));
    let downloading = async {
        while !site.requested().contains(&"/x/plugin.wasm".to_owned()) {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        answer = installing => panic!("{}", answer.text),
        () = downloading => {}
    }
    world.server.kill();
    world.server.start_again().await;
    assert_eq!(list(&world.server).await, [Value::Null; 0]);
    files.publish(&site, "/x");
    install(&world.server, &url).await;

    // At any moment of a reload the plugin is one of the two versions, whole.
    let versions = [files, PluginFiles::adaptable(&json!({ "version": "2.0.0" }))];
    for round in 0..6 {
        versions[(round + 1) % 2].publish(&site, "/x");
        let before = site.requested().len();
        let path = format!("{PATH}/adaptable/reload");
        let reloading = world.server.admin(Method::POST, &path, None);
        let late = async {
            while site.requested().len() < before + 2 {
                tokio::task::yield_now().await;
            }
            // A different moment after the download in each round.
            for _ in 0..round * 40 {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            _ = reloading => {}
            () = late => {}
        }
        world.server.kill();
        world.server.start_again().await;
        let plugin = summary(&world.server, "adaptable").await.unwrap();
        let version = usize::from(plugin["version"] == "2.0.0");
        assert_eq!(
            (&plugin["sha256"], &plugin["status"]),
            (&json!(versions[version].sha256()), &json!("active"))
        );
    }
}

async fn a_removal_goes_on_after_a_kill(mut world: World) {
    let site = FileServer::start().await;
    install(&world.server, &PluginFiles::adaptable(&json!({})).publish(&site, "/x")).await;
    world.server.kill();
    world.execute("UPDATE plugins SET status = 'removing'").await;
    world.server.start_again().await;
    let is_gone = async |server: &crate::support::instance::Instance| list(server).await.is_empty();
    world.server.eventually("the plugin is gone", is_gone).await;
}
