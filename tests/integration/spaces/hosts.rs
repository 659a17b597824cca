//! Notices between the hosts of spaces and of repos: the tokens of PDSs, revoked credentials, and a receiver that hangs.

use belvedere_base::clock::Clock;
use belvedere_protocol::crypto::jws;
use belvedere_standins::jetstream::tid;
use belvedere_standins::recorder::recorder_on;
use http::Method;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::credentials::Holder;
use super::notifications::{AUTHORITY, OK, Service};
use super::{CAROL, Group, KIND, error, in_query};
use crate::fixtures::{ALICE, BOB, World};
use crate::oauth::device::{App, pds};

crate::in_both_worlds!(
    a_pds_signs_the_notices_of_its_accounts,
    the_pds_of_an_author_signs_our_notices,
    hosts_of_repos_learn_of_revoked_credentials,
    a_receiver_that_hangs_holds_up_no_other
);

const NOTIFY_WRITE: &str = "com.atproto.space.notifyWrite";

/// The notice of a write that was made now and some microseconds later, by an author whose host is another one.
fn notice(space: &str, repo: &str, later: u64) -> Value {
    let hash = json!({ "$bytes": "BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc" });
    json!({ "space": space, "repo": repo, "repoRev": tid(Clock::system().now().0 as u64 + later, 0), "hash": hash })
}

async fn a_pds_signs_the_notices_of_its_accounts(world: World) {
    let group = Group::exposed(world).await;
    let (space, service) = group.watched().await;
    group.join(&space, BOB, true, true).await;
    let server = &group.world.server;
    let host = format!("{}#atproto_space_host", server.did());
    // Without an API client: the caller is another server.
    let send = async |token: String| {
        let bearer = format!("Bearer {token}");
        let body = Some(notice(&space, BOB, 0).to_string());
        let path = format!("/xrpc/{NOTIFY_WRITE}");
        server.request(Method::POST, &path, &[("authorization", &bearer)], body).await
    };
    let now = Clock::system().now().as_seconds();
    let claims = |lxm: &str| json!({ "lxm": lxm });
    for (token, status) in [
        (group.bob.token(&host, claims("com.atproto.space.notifySpaceDeleted")), 401),
        (group.bob.token(&format!("{}#atproto_pds", server.did()), claims(NOTIFY_WRITE)), 401),
        (group.bob.token(&format!("{CAROL}#atproto_space_host"), claims(NOTIFY_WRITE)), 401),
        (group.bob.token(&host, json!({ "lxm": NOTIFY_WRITE, "exp": now - 60 })), 401),
        (group.carol.token(&host, json!({ "lxm": NOTIFY_WRITE, "iss": BOB })), 401),
        (group.carol.token(&host, claims(NOTIFY_WRITE)), 403),
        (group.bob.token(&host, claims(NOTIFY_WRITE)), 200),
    ] {
        let answer = send(token).await;
        assert_eq!(answer.status, status, "{}", answer.text);
    }
    let (.., forwarded) = service.request(&group, 0).await;
    assert_eq!(forwarded["repo"], BOB);
    let repos = group.get(&group.alice, &format!("space.listRepos?space={}", in_query(&space))).await;
    assert_eq!(repos.body["repos"][0]["repoRev"], forwarded["repoRev"]);
}

async fn the_pds_of_an_author_signs_our_notices(world: World) {
    let group = Group::exposed(world).await;
    let pds = pds(&group.world, &[ALICE]).await;
    let authority = Service::start().await;
    group.world.plc.host(AUTHORITY, &authority.url);
    let scopes = format!("atproto rpc:{NOTIFY_WRITE}?aud=*");
    let client = json!({ "name": "app", "client_id_url": "https://app.example/client.json",
        "client_uri": "https://app.example", "redirect_uris": [], "scopes": scopes });
    let app = App::with(&group.world.server, client).await;
    app.device(&group.world.server, &pds, ALICE, json!({ "scopes": scopes })).await;
    let audience = format!("{AUTHORITY}#atproto_space_host");
    let signed = group.alice.token(&audience, json!({ "lxm": NOTIFY_WRITE }));
    pds.respond_with("/xrpc/com.atproto.server.getServiceAuth", 200, json!({ "token": signed }));
    let space = format!("at://{AUTHORITY}/space/{KIND}/main");
    assert_eq!(group.note(&group.alice, &space, "a").await.status, 200);
    let (path, claims, body) = authority.request(&group, 0).await;
    assert_eq!((path, &body["repo"]), (format!("/xrpc/{NOTIFY_WRITE}"), &json!(ALICE)));
    assert_eq!(
        (&claims["iss"], &claims["aud"], &claims["lxm"]),
        (&json!(ALICE), &json!(audience), &json!(NOTIFY_WRITE))
    );
    let asked = pds.requests("/xrpc/com.atproto.server.getServiceAuth");
    let query = format!("?aud={}%23atproto_space_host&lxm={NOTIFY_WRITE}", AUTHORITY.replace(':', "%3A"));
    assert!(asked[0].path_and_query.ends_with(&query), "{}", asked[0].path_and_query);
}

async fn hosts_of_repos_learn_of_revoked_credentials(world: World) {
    let group = Group::exposed(world).await;
    // Before the first call, with which the server learns where Bob's repo is.
    let host = Service::start().await;
    group.world.plc.host(BOB, &host.url);
    let space = group.space("main", json!({})).await;
    group.join(&space, BOB, true, true).await;
    group.join(&space, CAROL, true, false).await;
    // Alice's repo is here, Bob's is there.
    assert_eq!(group.note(&group.alice, &space, "a").await.status, 200);
    assert_eq!(group.post(&group.bob, "space.notifyWrite", notice(&space, BOB, 0)).await.status, 200);
    let holder = Holder::new();
    let jti = |token: &str| jws::parse(token).unwrap().claims::<Value>().unwrap()["jti"].clone();
    let revoked = async |number: usize, jtis: Value| {
        let (path, claims, body) = host.request(&group, number).await;
        assert_eq!(path, "/xrpc/com.atproto.space.notifyCredentialRevoked");
        let issuer = group.world.server.did();
        assert_eq!((&claims["iss"], &claims["aud"]), (&json!(issuer), &json!(BOB)));
        assert_eq!(claims["lxm"], "com.atproto.space.notifyCredentialRevoked");
        assert_eq!(body, json!({ "space": space, "credentials": jtis }));
    };
    let first = holder.credential(&group, &group.carol, &space).await;
    let remove = json!({ "space": space, "did": CAROL });
    assert_eq!(group.post(&group.alice, "simplespace.removeMember", remove).await.status, 200);
    revoked(0, json!([jti(&first)])).await;
    // Other settings end credentials too, and a change of the name ends none.
    let second = holder.credential(&group, &group.bob, &space).await;
    let public = json!({ "$type": "com.atproto.simplespace.defs#publicPolicy" });
    for change in [json!({ "displayName": "x" }), json!({ "readPolicy": public })] {
        let mut body = json!({ "space": space });
        body.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        assert_eq!(group.post(&group.alice, "simplespace.updateSpace", body).await.status, 200);
    }
    revoked(1, json!([jti(&second)])).await;
    assert_eq!(host.count(), 2);
}

/// To its callers, a process that is stopped is a socket that accepts no connection.
async fn a_receiver_that_hangs_holds_up_no_other(world: World) {
    const HANGING: &str = "did:plc:hanginghanginghanginghan";
    let group = Group::exposed(world).await;
    let (space, service) = group.watched().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    group.world.plc.host(HANGING, &format!("http://{}", listener.local_addr().unwrap()));
    assert_eq!(group.register(&group.alice, &space, HANGING).await.status, 200);
    for n in 0..5 {
        assert_eq!(group.note(&group.alice, &space, &format!("n{n}")).await.status, 200);
        let (.., sent) = service.request(&group, n).await;
        assert_eq!(sent["repo"], ALICE);
    }
    let registrations = async || group.admin(Method::GET, &space, "/registrations", None).await.body;
    let failures = async || {
        let all = registrations().await;
        let row =
            all.as_array().unwrap().iter().find(|row| row["service"] == format!("{HANGING}#atproto_pds"));
        row.unwrap()["failures"].as_i64().unwrap()
    };
    let server = &group.world.server;
    server.eventually("the attempt fails", async |_| failures().await > 0).await;
    // It goes on, and receives the last state.
    let commit = format!("space.getLatestCommit?space={}&repo={ALICE}", in_query(&space));
    let last = group.get(&group.alice, &commit).await.body["rev"].clone();
    let requests = recorder_on(listener, |_| OK.to_owned());
    server.eventually("the attempt succeeds", async |_| failures().await == 0).await;
    let text = requests.lock().unwrap().last().unwrap().clone();
    let body: Value = serde_json::from_str(text.split_once("\r\n\r\n").unwrap().1).unwrap();
    assert_eq!(body["rev"], last);
    assert_eq!(service.count(), 5);
    let gone = group.register(&group.carol, &space, HANGING).await;
    assert_eq!(error(&gone), (404, "SpaceNotFound"));
}
