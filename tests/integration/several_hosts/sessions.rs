//! A session is shared by all hosts: registered on one, used on any; a used proof is refused on all, tokens are renewed
//! once, and logging out takes effect on all.

use http::Method;
use serde_json::json;

use super::Hosts;
use crate::auth::Browser;
use crate::fixtures::{ALICE, NOTES};
use crate::support::app::App;
use crate::support::instance::{OPERATOR, procedure_lexicon, record_lexicon};
use crate::support::oauth_pds::OauthPds;

const PUT: &str = "/xrpc/com.example.put";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_is_shared_by_all_hosts() {
    let hosts = Hosts::start().await;
    let (a, b) = (&hosts.a, &hosts.b);
    let pds = OauthPds::start().await;
    hosts.plc.host(ALICE, &pds.url());
    a.upload(record_lexicon(NOTES), None).await;
    a.upload(procedure_lexicon("com.example.put"), Some(NOTES)).await;
    let app = App::confidential(a, "one").await;
    let device = app.device(a, &pds, ALICE, json!({})).await;
    let body = json!({ "text": "hello" });

    // A proof names the URL that the client uses, which is the same for hosts behind one address: here the first's.
    let proof = device.proof(a, &Method::POST, PUT);
    let path = format!("/oauth/sessions/{ALICE}");
    b.eventually("the other host knows the application and the method", async |host| {
        let first = device.proof(a, &Method::POST, PUT);
        device.send(host, Method::POST, PUT, &first, Some(&body)).await.status == 200
    })
    .await;
    assert_eq!(device.send(b, Method::POST, PUT, &proof, Some(&body)).await.status, 200);
    for host in [a, b] {
        let answer = device.send(host, Method::POST, PUT, &proof, Some(&body)).await;
        assert_eq!((answer.status.as_u16(), answer.error()), (401, "DPoP proof replay detected"));
    }
    // One of the concurrent calls on both hosts renews the tokens.
    pds.expire_all();
    let calls = (0..8).map(|n| {
        let (host, proof) = (if n % 2 == 0 { a } else { b }, device.proof(a, &Method::POST, PUT));
        let (device, body) = (&device, &body);
        async move { device.send(host, Method::POST, PUT, &proof, Some(body)).await.status.as_u16() }
    });
    assert_eq!(futures_util::future::join_all(calls).await, [200; 8]);
    assert_eq!((pds.refreshes(), pds.reused()), (1, 0));
    // When the client loses scopes on one host, its sessions lose them on the other at once.
    let client = format!("/admin/api-clients/{}", app.id);
    let lost = json!({ "scopes": "atproto" });
    assert_eq!(a.admin(Method::PUT, &client, Some(&lost)).await.status, 204);
    let beyond = device.proof(a, &Method::POST, PUT);
    assert_eq!(device.send(b, Method::POST, PUT, &beyond, Some(&body)).await.error(), "ScopeMissingError");
    // A session that is logged out on one host is gone on the other.
    let out = device.proof(a, &Method::DELETE, &path);
    assert_eq!(device.send(a, Method::DELETE, &path, &out, None).await.status, 204);
    let late = device.proof(a, &Method::POST, PUT);
    assert_eq!(device.send(b, Method::POST, PUT, &late, Some(&body)).await.status, 401);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_browser_is_logged_out_on_all_hosts() {
    let secret = "0123456789abcdef".repeat(5);
    let hosts = Hosts::start_with(&[("SESSION_SECRET", &secret)]).await;
    let (a, b) = (&hosts.a, &hosts.b);
    let pds = OauthPds::start().await;
    hosts.plc.host(OPERATOR, &pds.url());
    let mut browser = Browser::default();
    browser.login(a, &pds, OPERATOR).await;
    assert_eq!(browser.get(b, "/admin/stats").await.status, 200);
    let user = browser.get(b, "/auth/me").await.body["user_id"].as_str().unwrap().to_owned();
    let ended = a.admin(Method::DELETE, &format!("/admin/users/{user}/sessions"), None).await;
    assert_eq!(ended.body, json!({ "ended": 1 }), "{}", ended.text);
    assert_eq!(browser.get(b, "/admin/stats").await.status, 401);
}
