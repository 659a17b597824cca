//! Unneeded sessions are deleted here and revoked at the authorization server.

use crate::fixtures::World;
use belvedere_base::clock::Clock;
use http::Method;
use serde_json::json;

use super::device::{App, Device, pds};
use crate::auth::Browser;
use crate::fixtures::{ALICE, BOB};
use crate::support::instance::OPERATOR;

crate::in_both_worlds!(
    expired_sessions_and_keys_are_deleted,
    logging_out_revokes_the_session_with_the_pds,
    a_revocation_is_repeated_until_the_server_answers,
    a_users_number_of_browser_sessions_is_limited,
    a_users_number_of_devices_is_limited
);

async fn expired_sessions_and_keys_are_deleted(mut world: World) {
    let pds = pds(&world, &[ALICE, BOB, OPERATOR]).await;
    let app = App::confidential(&world.server, "one").await;
    let in_a_minute = Clock::system().now().plus_seconds(60);
    let once = json!({ "refresh_token": null, "expires_at": in_a_minute });
    let over = app.device(&world.server, &pds, ALICE, once.clone()).await;
    let idle = app.device(&world.server, &pds, BOB, json!({})).await;
    let good = app.device(&world.server, &pds, ALICE, json!({})).await;
    let (unused, _) = app.provision(&world.server, &[], &json!({})).await;
    // Set times in the past, by which the sweep decides.
    world.execute("UPDATE oauth_sessions SET expires_at = 1 WHERE refreshable = FALSE").await;
    world
        .execute("UPDATE oauth_sessions SET updated_at = 1 WHERE did = 'did:plc:bobbobbobbobbobbobbobbob'")
        .await;
    world.execute("UPDATE dpop_keys SET created_at = 1 WHERE did IS NULL").await;
    world.server.kill();
    world.server.start_again().await;

    let server = &world.server;
    let session = |did: &str| format!("/oauth/sessions/{did}");
    for (device, did) in [(&over, ALICE), (&idle, BOB)] {
        server
            .eventually("its key is gone", async |server| {
                device.request(server, Method::GET, &session(did), None).await.error()
                    == "no DPoP key matching proof thumbprint"
            })
            .await;
    }
    server
        .eventually("the unused key is gone", async |server| {
            let body =
                json!({ "provision_id": unused, "did": ALICE, "access_token": "x", "scopes": "atproto" });
            app.post(server, "/oauth/sessions", &[], &body).await.error() == "DPoP key not found"
        })
        .await;
    assert_eq!(good.request(server, Method::GET, &session(ALICE), None).await.status, 200);
}

async fn logging_out_revokes_the_session_with_the_pds(mut world: World) {
    let pds = pds(&world, &[OPERATOR]).await;
    let mut browsers = [Browser::default(), Browser::default()];
    for browser in &mut browsers {
        browser.login(&world.server, &pds, OPERATOR).await;
    }
    world.execute("UPDATE oauth_sessions SET created_at = 1").await;
    world
        .execute("UPDATE web_sessions SET expires_at = 1 WHERE id = (SELECT min(id) FROM web_sessions)")
        .await;
    world.server.kill();
    world.server.start_again().await;
    world.server.eventually("it is revoked", async |_| !pds.requests("/oauth/revoke").is_empty()).await;
    let mut logged_in = 0;
    for browser in &mut browsers {
        logged_in += usize::from(browser.get(&world.server, "/auth/me").await.status == 200);
    }
    assert_eq!((logged_in, pds.requests("/oauth/revoke").len()), (1, 1), "the other one goes on");
}

async fn a_revocation_is_repeated_until_the_server_answers(mut world: World) {
    let pds = pds(&world, &[ALICE, BOB, OPERATOR]).await;
    let app = App::confidential(&world.server, "one").await;
    let refused = app.device(&world.server, &pds, ALICE, json!({})).await;
    app.device(&world.server, &pds, BOB, json!({})).await;
    pds.respond_with("/oauth/revoke", 503, json!({ "error": "temporarily_unavailable" }));
    let path = format!("/admin/api-clients/{}", app.id);
    assert_eq!(world.server.admin(Method::DELETE, &path, None).await.status, 204);
    let requests = || pds.requests("/oauth/revoke").len();
    world.server.eventually("both are tried, and one again", async |_| requests() >= 3).await;
    assert_eq!(
        refused.request(&world.server, Method::GET, &format!("/oauth/sessions/{ALICE}"), None).await.status,
        401
    );

    // Another one is about to be revoked when the server is killed.
    let mut browser = Browser::default();
    browser.login(&world.server, &pds, OPERATOR).await;
    let own = format!("http://{}", world.server.address);
    assert_eq!(browser.logout(&world.server, &own).await.status, 204);
    world.server.kill();
    pds.respond_normally("/oauth/revoke");
    let before = requests();
    // An attempt that was cut off is repeated after two minutes.
    world.execute("UPDATE revocations SET due_at = 1").await;
    world.server.start_again().await;
    let token = |request: &belvedere_standins::upstream::ReceivedRequest| {
        let form: std::collections::HashMap<_, _> =
            url::form_urlencoded::parse(&request.body).into_owned().collect();
        form["token"].clone()
    };
    world
        .server
        .eventually("all three are revoked", async |_| {
            let tokens: std::collections::HashSet<String> =
                pds.requests("/oauth/revoke")[before..].iter().map(token).collect();
            tokens.len() == 3
        })
        .await;
}

async fn a_users_number_of_browser_sessions_is_limited(world: World) {
    let server = &world.server;
    let pds = pds(&world, &[OPERATOR]).await;
    let mut browsers: Vec<Browser> = (0..21).map(|_| Browser::default()).collect();
    for browser in &mut browsers {
        assert_eq!(browser.login(server, &pds, OPERATOR).await.status, 303);
    }
    assert_eq!(browsers[0].get(server, "/auth/me").await.status, 401, "the first to come is the first to go");
    assert_eq!(browsers[1].get(server, "/auth/me").await.status, 200);
    assert_eq!(browsers[20].get(server, "/auth/me").await.status, 200);
    server.eventually("its session is revoked", async |_| pds.requests("/oauth/revoke").len() == 1).await;
}

async fn a_users_number_of_devices_is_limited(world: World) {
    let server = &world.server;
    let pds = pds(&world, &[ALICE]).await;
    let app = App::confidential(server, "one").await;
    let first = app.device(server, &pds, ALICE, json!({})).await;
    world.execute("UPDATE oauth_sessions SET updated_at = 2").await;
    let used = app.device(server, &pds, ALICE, json!({})).await;
    world
        .execute(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 48) \
        INSERT INTO dpop_keys (id, client_id, thumbprint, sealed, did, created_at) \
        SELECT 'copy-' || i, k.client_id, 'copy-' || i, k.sealed, k.did, k.created_at FROM dpop_keys k, n \
        WHERE k.id = (SELECT min(id) FROM dpop_keys)",
        )
        .await;
    world.execute("INSERT INTO oauth_sessions (id, key_id, client_id, did, scopes, token_hash, pds, issuer, oauth_client_id, sealed, \
            refreshable, version, created_at, updated_at) \
        SELECT k.id, k.id, s.client_id, s.did, s.scopes, '', s.pds, s.issuer, s.oauth_client_id, s.sealed, s.refreshable, 1, 3, 3 \
        FROM oauth_sessions s, dpop_keys k WHERE k.id LIKE 'copy-%' AND s.updated_at = 2").await;
    let devices = async |device: &Device| {
        let path = format!("/oauth/sessions/{ALICE}/devices");
        let answer = device.request(server, Method::GET, &path, None).await;
        answer.body.as_array().map_or(0, Vec::len)
    };
    assert_eq!(devices(&first).await, 50);
    let newest = app.device(server, &pds, ALICE, json!({})).await;
    assert_eq!(devices(&newest).await, 50);
    assert_eq!(devices(&used).await, 50);
    assert_eq!(devices(&first).await, 0, "it was renewed longest ago");
    server.eventually("it is revoked", async |_| pds.requests("/oauth/revoke").len() == 1).await;
    let events =
        server.admin(Method::GET, "/admin/events?event_type=dpop_session.device_deleted", None).await;
    assert_eq!(events.body["events"].as_array().map(Vec::len), Some(1), "{}", events.text);
}
