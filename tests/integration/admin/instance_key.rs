//! `/admin/oauth/instance-key`

use std::collections::HashMap;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::Method;
use serde_json::{Value, json};

use crate::fixtures::{ALICE, NOTES, World};
use crate::oauth::device::pds;
use crate::support::instance::Answer;
use crate::support::oauth_pds::OauthPds;

const PATH: &str = "/admin/oauth/instance-key";

/// A domain where the instance is a confidential client; at its own loopback origin it is a public one.
const HOST: &str = "second.example";

/// Sends a request to the domain.
async fn get(world: &World, path: &str) -> Answer {
    world.server.request(Method::GET, path, &[("host", HOST)], None).await
}

async fn keys(world: &World) -> Vec<Value> {
    world.server.admin(Method::GET, PATH, None).await.body["keys"].as_array().unwrap().clone()
}

async fn published(world: &World) -> Vec<Value> {
    let metadata = get(world, "/oauth-client-metadata.json").await.body;
    metadata["jwks"]["keys"].as_array().unwrap().iter().map(|key| key["kid"].clone()).collect()
}

/// The key that signed the client assertion of the last request to a path of the PDS.
fn signed_with(pds: &OauthPds, path: &str) -> Value {
    let request = pds.requests(path).pop().unwrap();
    let form: HashMap<_, _> = url::form_urlencoded::parse(&request.body).into_owned().collect();
    let header = URL_SAFE_NO_PAD.decode(form["client_assertion"].split('.').next().unwrap()).unwrap();
    serde_json::from_slice::<Value>(&header).unwrap()["kid"].clone()
}

/// Creates a grant of Alice's repo, which she authorizes. Returns its id.
async fn link(world: &World, pds: &OauthPds) -> String {
    let grants = "/admin/linked-repos";
    let body = json!({ "scopes": format!("repo:{NOTES}") });
    let id =
        world.server.admin(Method::POST, grants, Some(&body)).await.body["id"].as_str().unwrap().to_owned();
    let invite = world.server.admin(Method::POST, &format!("{grants}/{id}/invite"), None).await;
    let token = invite.body["invite_url"].as_str().unwrap().split("token=").nth(1).unwrap().to_owned();
    let begun = get(world, &format!("/auth/linked-repo/start?token={token}&handle={ALICE}")).await;
    let back = pds.consent(ALICE, begun.headers["location"].to_str().unwrap());
    let back = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(back).finish();
    let done = get(world, &format!("/auth/callback?{back}")).await;
    assert_eq!(done.headers["location"], "/link/result?status=success", "{}", done.text);
    id
}

async fn prepared(world: &World) -> OauthPds {
    let pds = pds(world, &[ALICE]).await;
    let domain = json!({ "url": format!("https://{HOST}") });
    assert_eq!(world.server.admin(Method::POST, "/admin/domains", Some(&domain)).await.status, 201);
    pds
}

crate::in_both_worlds!(
    sessions_keep_the_key_that_they_began_with,
    a_login_that_is_under_way_completes_with_its_key
);

async fn sessions_keep_the_key_that_they_began_with(mut world: World) {
    let pds = prepared(&world).await;
    let first = keys(&world).await;
    assert_eq!(first.len(), 1);
    let (old, server) = (first[0]["kid"].clone(), &world.server);
    assert_eq!((&first[0]["status"], &first[0]["session_count"]), (&json!("current"), &json!(0)));
    assert_eq!(published(&world).await, std::slice::from_ref(&old));
    let grant = link(&world, &pds).await;
    assert_eq!(signed_with(&pds, "/oauth/par"), old);
    assert_eq!(keys(&world).await[0]["session_count"], 1);

    let rotated = server.admin(Method::POST, &format!("{PATH}/rotate"), None).await;
    assert_eq!(
        (rotated.status.as_u16(), &rotated.body["orphaned_sessions"]),
        (200, &json!(0)),
        "{}",
        rotated.text
    );
    let new = rotated.body["kid"].clone();
    let view = |key: &Value| json!([key["kid"], key["status"], key["session_count"]]);
    let both: Vec<Value> = keys(&world).await.iter().map(view).collect();
    assert_eq!(both, [json!([new, "current", 0]), json!([old, "retiring", 1])]);
    assert_eq!(published(&world).await, [new.clone(), old.clone()]);
    // The new key is in use only once servers have had time to see it.
    let login = async || get(&world, &format!("/auth/login?handle={ALICE}")).await.status;
    assert_eq!((login().await.as_u16(), signed_with(&pds, "/oauth/par")), (200, old.clone()));
    world.execute("UPDATE instance_oauth_keys SET created_at = created_at - 3600000000").await;
    assert_eq!((login().await.as_u16(), signed_with(&pds, "/oauth/par")), (200, new.clone()));

    // The session of the grant is renewed with the key that it began with.
    pds.expire_all();
    world.execute("UPDATE linked_repos SET last_refreshed_at = 0").await;
    world.server.stop();
    world.server.start_again().await;
    let server = &world.server;
    server.eventually("the grant's session is renewed", async |_| pds.refreshes() == 1).await;
    assert_eq!(signed_with(&pds, "/oauth/token"), old);

    let delete = async |kid: &Value| {
        server.admin(Method::DELETE, &format!("{PATH}/{}", kid.as_str().unwrap()), None).await
    };
    assert_eq!(delete(&json!("unknown")).await.status, 404);
    assert_eq!(delete(&new).await.error(), "the current key can't be deleted: rotate it first");
    let deleted = delete(&old).await;
    assert_eq!(
        (deleted.status.as_u16(), deleted.body),
        (200, json!({ "kid": old, "sessions_destroyed": 1 }))
    );
    let grants = server.admin(Method::GET, "/admin/linked-repos", None).await.body;
    let shown = &grants["linked_repos"][0];
    assert_eq!((&shown["id"], &shown["status"]), (&json!(grant), &json!("needs_reauth")), "{shown}");
    assert_eq!(shown["last_error"], "the key of its session was deleted");
    server.eventually("the key is gone", async |_| keys(&world).await.len() == 1).await;
    assert_eq!(signed_with(&pds, "/oauth/revoke"), old, "its session was ended at the PDS");
    assert_eq!(published(&world).await, std::slice::from_ref(&new));
    assert_eq!(delete(&old).await.status, 404);

    let events = server.admin(Method::GET, "/admin/events?category=instance_key", None).await;
    let seen: Vec<Value> = events.body["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| json!([event["event_type"], event["severity"], event["subject"]]))
        .collect();
    assert_eq!(
        seen,
        [json!(["instance_key.deleted", "warn", old]), json!(["instance_key.rotated", "warn", new])]
    );
    // Authorized again, with the new key.
    link_again(&world, &pds, &grant).await;
    assert_eq!(signed_with(&pds, "/oauth/par"), new);
    assert_eq!(keys(&world).await[0]["session_count"], 1);
}

async fn a_login_that_is_under_way_completes_with_its_key(world: World) {
    let pds = prepared(&world).await;
    let old = keys(&world).await[0]["kid"].clone();
    let begun = get(&world, &format!("/auth/login?handle={ALICE}&redirect_uri=/page")).await;
    let cookie = begun.headers["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
    let back = pds.consent(ALICE, begun.body["url"].as_str().unwrap());
    world.server.admin(Method::POST, &format!("{PATH}/rotate"), None).await;
    world.execute("UPDATE instance_oauth_keys SET created_at = created_at - 3600000000").await;
    let back = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(back).finish();
    let headers = [("host", HOST), ("cookie", &*cookie)];
    let done = world.server.request(Method::GET, &format!("/auth/callback?{back}"), &headers, None).await;
    // Alice is no user; that is checked after the exchange.
    assert_eq!(done.headers["location"], "/login?error=not_authorized", "{}", done.text);
    assert_eq!(signed_with(&pds, "/oauth/token"), old);
}

async fn link_again(world: &World, pds: &OauthPds, grant: &str) {
    let key = format!("Bearer {}", world.server.admin_key);
    let headers = [("host", HOST), ("authorization", &*key)];
    let path = format!("/admin/linked-repos/{grant}/authorize");
    let begun = world.server.request(Method::POST, &path, &headers, None).await;
    let back = pds.consent(ALICE, begun.body["authorize_url"].as_str().unwrap());
    let back = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(back).finish();
    let done = get(world, &format!("/auth/callback?{back}")).await;
    assert_eq!(done.headers["location"], format!("/dashboard/#/linked-repos/{grant}"));
}
