//! Tokens are renewed before they expire and when the PDS refuses them, once for all concurrent calls on all hosts.

use crate::fixtures::World;
use std::sync::Arc;

use belvedere_base::clock::{Clock, Timestamp};
use belvedere_base::random::Random;
use belvedere_instance::identity::Resolver;
use belvedere_instance::oauth::{Discovery, DpopClient, OwnKeys};
use belvedere_instance::pds::{Agent, PdsPools, Registration, Vault};
use belvedere_protocol::atproto::Did;
use belvedere_protocol::crypto::{Algorithm, PrivateKey, SealingKey, jwk};
use belvedere_standins::database::Database;
use belvedere_storage::store::Db;
use belvedere_storage::store::dpop_keys::{self, DpopKeyRow};
use belvedere_web::fair_share::Tenant;
use belvedere_web::net::{Client, OutboundPolicy};
use http::Method;
use serde_json::json;
use tokio_util::task::TaskTracker;

use super::device::{App, pds};
use crate::fixtures::{ALICE, NOTES};
use crate::support::instance::procedure_lexicon;
use crate::support::oauth_pds::OauthPds;
use crate::support::plc::Plc;

const PUT: &str = "com.example.putNote";

crate::in_both_worlds!(
    expired_tokens_are_renewed,
    a_server_killed_during_a_renewal_renews_after_restart,
    an_unavailable_authorization_server_ends_no_session
);

async fn expired_tokens_are_renewed(world: World) {
    let world = world.with_notes().await;
    let server = &world.server;
    server.upload(procedure_lexicon(PUT), Some(NOTES)).await;
    let pds = pds(&world, &[ALICE]).await;
    let app = App::confidential(server, "one").await;
    let soon = Timestamp(Clock::system().now().0).plus_seconds(5).to_string();
    let device = app.device(server, &pds, ALICE, json!({ "expires_at": soon })).await;
    let put = async || {
        device.request(server, Method::POST, &format!("/xrpc/{PUT}"), Some(&json!({ "text": "a" }))).await
    };
    // Renewed in advance, because the token expires within seconds.
    assert_eq!(put().await.status, 200);
    assert_eq!((pds.refreshes(), pds.requests("/xrpc/com.atproto.repo.createRecord").len()), (1, 1));
    let form = pds.requests("/oauth/token");
    let form = String::from_utf8_lossy(&form[0].body).into_owned();
    assert!(
        form.contains("client_id=https%3A%2F%2Fone.example%2Fclient.json")
            && form.contains("grant_type=refresh_token"),
        "{form}"
    );
    // Renewed because the PDS refuses the token; the write is then sent again and applied once.
    pds.expire_all();
    assert_eq!(put().await.status, 200);
    assert_eq!((pds.refreshes(), pds.requests("/xrpc/com.atproto.repo.createRecord").len()), (2, 3));
    // The nonce changed: one more request, no renewal.
    pds.demand_nonce("fresh");
    assert_eq!(put().await.status, 200);
    assert_eq!((pds.refreshes(), pds.requests("/xrpc/com.atproto.repo.createRecord").len()), (2, 5));
    // The user revoked the session at the PDS: it is deleted here too.
    pds.revoke_all();
    let ended = put().await;
    assert_eq!((ended.status.as_u16(), ended.error()), (401, "session expired, please re-authenticate"));
    assert_eq!(put().await.error(), "no DPoP key matching proof thumbprint");
    assert_eq!(pds.reused(), 0);
}

async fn a_server_killed_during_a_renewal_renews_after_restart(world: World) {
    let mut world = world.with_notes().await;
    world.server.upload(procedure_lexicon(PUT), Some(NOTES)).await;
    let pds = pds(&world, &[ALICE]).await;
    let app = App::confidential(&world.server, "one").await;
    let device = app.device(&world.server, &pds, ALICE, json!({})).await;
    pds.expire_all();
    // The state after a kill during a renewal. On PostgreSQL the lease may be another host's, so it is expired here.
    world.server.kill();
    world.execute("UPDATE oauth_sessions SET lease_until = 1").await;
    if !world.is_postgres() {
        world.execute("UPDATE oauth_sessions SET lease_until = 9000000000000000").await;
    }
    world.server.start_again().await;
    let body = json!({ "text": "a" });
    let put = device.request(&world.server, Method::POST, &format!("/xrpc/{PUT}"), Some(&body)).await;
    assert_eq!((put.status.as_u16(), pds.refreshes()), (200, 1), "{}", put.text);
}

async fn an_unavailable_authorization_server_ends_no_session(world: World) {
    let world = world.with_notes().await;
    let server = &world.server;
    server.upload(procedure_lexicon(PUT), Some(NOTES)).await;
    let pds = pds(&world, &[ALICE]).await;
    let app = App::confidential(server, "one").await;
    let device = app.device(server, &pds, ALICE, json!({})).await;
    pds.expire_all();
    pds.respond_with("/oauth/token", 503, json!({ "error": "busy" }));
    let put = async || {
        device.request(server, Method::POST, &format!("/xrpc/{PUT}"), Some(&json!({ "text": "a" }))).await
    };
    let away = put().await;
    assert_eq!((away.status.as_u16(), away.error()), (502, "the session can't be renewed now"));
    let listed = device.request(server, Method::GET, &format!("/oauth/sessions/{ALICE}"), None).await;
    assert_eq!(listed.status, 200, "{}", listed.text);
}

/// The number of sessions, far more than are normally used at the same time.
const MANY: usize = 1000;

/// The number of sessions that are called at the same time. The calls of all of them would wait for a connection for longer than
/// a request may.
const AT_ONCE: usize = 100;

/// The number of concurrent calls for each session on each host.
const CALLS: usize = 3;

pub struct Host(pub Vault, pub Client);

pub fn host(db: &Db, plc: &str, clock: &Clock) -> Host {
    belvedere_web::net::install_tls_provider();
    let policy = OutboundPolicy { allow_loopback: true, ..OutboundPolicy::default() };
    let (net, clock, random) = (Client::new(policy).unwrap(), clock.clone(), Random::system());
    let dpop_client = DpopClient::new(net.clone(), clock.clone(), random.clone());
    let resolver = Resolver::new(net.clone(), plc.parse().unwrap(), clock.clone());
    let discovery = Discovery::new(net.clone(), resolver);
    let (sealing, tasks) = (SealingKey::new([7; 32]), TaskTracker::new());
    let own_keys = OwnKeys::new(db.clone(), sealing.clone(), random, clock);
    Host(Vault::new(db.clone(), sealing, dpop_client, discovery, own_keys, tasks), net)
}

pub async fn register(db: &Db, vault: &Vault, pds: &OauthPds, n: usize) -> String {
    register_as(db, vault, pds, ALICE, n).await
}

pub async fn register_as(db: &Db, vault: &Vault, pds: &OauthPds, did: &str, n: usize) -> String {
    let key = PrivateKey::generate(Algorithm::Es256, &Random::system());
    let row = DpopKeyRow {
        id: format!("key-{n}"),
        client_id: None,
        thumbprint: jwk::thumbprint(&key.public()).unwrap(),
        sealed: vault.seal_key(&format!("key-{n}"), &key),
        pkce_challenge: None,
        did: None,
        created_at: Timestamp(0),
    };
    dpop_keys::create(db, &row).await.unwrap();
    let (access, refresh) = pds.grant(did);
    pds.expire(&access);
    let registration = Registration {
        key_id: &row.id,
        client_id: None,
        did: &Did::try_from(did).unwrap(),
        pds: &pds.url(),
        issuer: &pds.url(),
        scopes: "atproto",
        access_token: &access,
        refresh_token: Some(&refresh),
        expires_at: None,
        oauth_client_id: "https://app.example/client.json",
        assertion_kid: None,
    };
    vault.register(&registration).await.unwrap().unwrap()
}

async fn renew_all(database: Database, hosts: usize) {
    let db = Db::open(&database.url, 4).await.unwrap();
    db.migrate().await.unwrap();
    let (pds, plc) = (OauthPds::start().await, Plc::start().await);
    plc.host(ALICE, &pds.url());
    // Each host has separate connections, like a separate process.
    let mut all = Vec::new();
    for _ in 0..hosts {
        all.push(host(&Db::open(&database.url, 8).await.unwrap(), &plc.url(), &Clock::system()));
    }
    let mut ids = Vec::new();
    for n in 0..MANY {
        ids.push(register(&db, &all[0].0, &pds, n).await);
    }
    let (pds, all) = (Arc::new(pds), Arc::new(all));
    for some in ids.chunks(AT_ONCE) {
        let mut calls = tokio::task::JoinSet::new();
        for (id, call) in some.iter().flat_map(|id| (0..CALLS * hosts).map(move |call| (id.clone(), call))) {
            let all = Arc::clone(&all);
            calls.spawn(async move {
                let Host(vault, net) = &all[call % all.len()];
                let session = vault.by_id(&id).await.unwrap().unwrap();
                // A new `PdsPools` each, since the calls exceed one tenant's limit.
                let (places, tenant) = (PdsPools::default(), Tenant::Instance);
                let agent = Agent::new(net, &session, &places, &tenant);
                agent.query("com.atproto.server.getSession").await.unwrap()
            });
        }
        while let Some(answer) = calls.join_next().await {
            answer.unwrap();
        }
    }
    assert_eq!((pds.refreshes() as usize, pds.reused()), (MANY, 0));
}

mod a_thousand_sessions_are_renewed_a_thousand_times {
    use super::{Database, renew_all};

    #[tokio::test]
    async fn sqlite() {
        renew_all(Database::sqlite(), 1).await;
    }

    #[tokio::test]
    async fn postgres() {
        renew_all(Database::postgres().await, 1).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hosts_renew_each_session_once() {
    renew_all(Database::postgres().await, 2).await;
}
