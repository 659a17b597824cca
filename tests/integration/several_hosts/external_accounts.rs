//! Two hosts refresh an account's tokens once, and share a sync.

use crate::auth::Browser;
use crate::external_auth::{BACK, location, plugin_folder};
use crate::fixtures::{ALICE, NOTES};
use crate::support::app::App;
use crate::support::instance::{query_lexicon, record_lexicon};
use crate::support::linked_service::LinkedService;
use crate::support::oauth_pds::OauthPds;

use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_are_refreshed_once_and_a_dead_hosts_sync_goes_on() {
    let (service, plugins) = (LinkedService::start().await, plugin_folder());
    let folder = plugins.path().display().to_string();
    let more = [("PLUGIN_DIR", folder.as_str()), ("PLUGIN_PROBE_PROXY_URL", &service.url())];
    let mut hosts = Hosts::start_with(&more).await;
    hosts.a.upload(record_lexicon(NOTES), None).await;
    hosts.a.upload(query_lexicon("com.example.listNotes"), Some(NOTES)).await;
    let pds = OauthPds::start().await;
    hosts.plc.host(ALICE, &pds.url());
    let app = App::confidential(&hosts.a, "game").await;
    let alice = app.device(&hosts.a, &pds, ALICE, json!({})).await;

    // Begins on one host, and completes on the other: only the store connects them.
    service.expire_in(Some(30));
    let path = format!("/external-auth/probe/authorize?redirect_uri={BACK}");
    let begun = alice.request(&hosts.a, Method::GET, &path, None).await;
    let page =
        begun.body["authorize_url"].as_str().unwrap().split_once("/external-auth").unwrap().1.to_owned();
    let mut browser = Browser::default();
    let to = location(&browser.post(&hosts.a, &format!("/external-auth{page}"), &json!({})).await);
    let back = service.sign_in(&to, "765");
    let back = format!("/external-auth{}", back.split_once("/external-auth").unwrap().1);
    assert_eq!(location(&browser.get(&hosts.a, &back).await), format!("{BACK}?auth=success"));

    // A host learns of the client of another by a notification.
    let knows = async || {
        alice.request(&hosts.b, Method::GET, "/external-auth/accounts", None).await.status.is_success()
    };
    soon("the other host knows the client", NOTIFIED_WITHIN, knows).await;

    service.expire_in(Some(3_600));
    let refresh = async |host: &Instance| {
        let refreshed = alice.request(host, Method::POST, "/external-auth/probe/refresh", None).await;
        assert_eq!(refreshed.status, 200, "{}", refreshed.text);
        assert!(refreshed.body["expires_at"].is_string());
    };
    tokio::join!(refresh(&hosts.a), refresh(&hosts.b), refresh(&hosts.a), refresh(&hosts.b));
    assert_eq!(service.refreshes(), (1, 0));

    // The host that syncs dies; the other goes on when its lease has lapsed.
    service.list(|cursor| {
        let n: usize = cursor.parse().unwrap_or(0);
        let item =
            |n: usize| json!({ "collection": NOTES, "key": format!("n{n}"), "value": { "text": "x" } });
        json!({ "items": [item(2 * n), item(2 * n + 1)], "next": (n < 9).then(|| (n + 1).to_string()) })
    });
    let started = alice.request(&hosts.a, Method::POST, "/external-auth/probe/sync", None);
    drop(tokio::time::timeout(Duration::from_millis(200), started).await);
    hosts.a.kill();
    let ended = async |host: &Instance| {
        let accounts = alice.request(host, Method::GET, "/external-auth/accounts", None).await;
        let sync = &accounts.body[0]["sync"];
        sync["status"] == "idle" && sync["processed"] == 20
    };
    hosts.b.eventually("the other host ends the sync", ended).await;
    assert_eq!(hosts.b.records().await, 20);
}
