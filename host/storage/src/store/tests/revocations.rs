//! Ended sessions wait for their revocation, whatever ended them.

use super::api_clients::family;
use crate::store::api_client_keys::{self, ClientKeyRow};
use crate::store::api_clients;
use crate::store::dpop_keys::{self, DpopKeyRow};
use crate::store::oauth_sessions::{self, NewSession};
use crate::store::revocations::{self, RevocationRow, Window};
use crate::store::testing::TestDb;
use crate::store::{Db, linked_repos, on};
use belvedere_base::clock::Timestamp;

const WINDOW: Window = Window { due_at: Timestamp(10), give_up_at: Timestamp(1_000) };

/// Stores a session with its key.
async fn session(db: &Db, id: &str, client_id: Option<&str>, kid: Option<&str>, issuer: &str) {
    let key = DpopKeyRow {
        id: format!("key-{id}"),
        client_id: client_id.map(str::to_owned),
        thumbprint: format!("thumbprint-{id}"),
        sealed: format!("sealed-key-{id}").into_bytes(),
        pkce_challenge: None,
        did: None,
        created_at: Timestamp(1),
    };
    dpop_keys::create(db, &key).await.unwrap();
    let sealed = format!("sealed-{id}");
    let session = NewSession {
        id,
        key_id: &key.id,
        client_id,
        did: "did:plc:a",
        scopes: "atproto",
        token_hash: "",
        pds: "https://pds.example",
        issuer,
        oauth_client_id: "https://app.example/client.json",
        assertion_kid: kid,
        sealed: sealed.as_bytes(),
        refreshable: true,
        expires_at: None,
    };
    assert_eq!(oauth_sessions::register(db, &session, Timestamp(1)).await.unwrap().as_deref(), Some(id));
}

async fn client_key(db: &Db, client_id: &str, kid: &str) {
    let key = ClientKeyRow {
        kid: kid.to_owned(),
        client_id: client_id.to_owned(),
        sealed: format!("sealed-{kid}").into_bytes(),
        public_jwk: format!("{{\"kid\":\"{kid}\"}}"),
        status: "current".to_owned(),
        created_at: Timestamp(1),
    };
    assert!(api_client_keys::create(db, &key).await.unwrap());
}

async fn due(db: &Db, now: i64) -> Vec<RevocationRow> {
    revocations::due(db, Timestamp(now), 100, 100).await.unwrap()
}

async fn due_ids(db: &Db, now: i64) -> Vec<String> {
    due(db, now).await.into_iter().map(|row| row.id).collect()
}

on_both!(
    an_ended_session_is_queued_with_its_keys,
    a_new_login_with_the_same_key_is_not_ended_for_the_old_one,
    a_login_at_the_instance_has_no_clients_key,
    deleting_a_client_queues_the_sessions_of_the_family,
    deleting_a_key_queues_its_sessions,
    one_host_tries_a_revocation_at_a_time,
    over_the_limit_those_that_failed_most_are_removed,
    many_sessions_of_one_server_leave_permits_to_others
);

async fn an_ended_session_is_queued_with_its_keys(db: TestDb) {
    family(&db).await;
    client_key(&db, "c1", "kid").await;
    session(&db, "s", Some("c1"), Some("kid"), "https://as.example").await;
    assert!(oauth_sessions::end(&db, "s", WINDOW).await.unwrap());
    assert!(!oauth_sessions::end(&db, "s", WINDOW).await.unwrap(), "it is gone");
    assert_eq!(due_ids(&db, 9).await, Vec::<String>::new());
    let row = RevocationRow {
        id: "s".to_owned(),
        issuer: "https://as.example".to_owned(),
        oauth_client_id: "https://app.example/client.json".to_owned(),
        assertion_kid: Some("kid".to_owned()),
        key_id: "key-s".to_owned(),
        sealed: b"sealed-s".to_vec(),
        sealed_key: b"sealed-key-s".to_vec(),
        sealed_client_key: Some(b"sealed-kid".to_vec()),
        attempts: 0,
        due_at: WINDOW.due_at,
        give_up_at: WINDOW.give_up_at,
    };
    assert_eq!(due(&db, 10).await, [row]);
}

/// The account has moved, and the user logs in again with the same key before the old session is ended.
async fn a_new_login_with_the_same_key_is_not_ended_for_the_old_one(db: TestDb) {
    session(&db, "s", None, Some("own"), "https://as.example").await;
    let grant = "INSERT INTO linked_repos (id, did, scopes, scripts, status, session_id, created_by, created_at) \
                 VALUES ('g', 'did:plc:a', 'atproto', '[]', 'active', 's', 'did:plc:x', 1)";
    on!(&*db, writer, |pool| sqlx::query(grant).execute(pool).await.map(drop)).unwrap();
    let end_at =
        async |pds: &str| oauth_sessions::end_at(&db, "s", pds, "it has moved", WINDOW).await.unwrap();
    let status = async || linked_repos::get(&db, "g").await.unwrap().unwrap().status;
    assert!(!end_at("https://old.example").await);
    assert!(oauth_sessions::get(&db, "s").await.unwrap().is_some() && due(&db, 10).await.is_empty());
    assert_eq!(status().await, "active");
    assert!(end_at("https://pds.example").await);
    assert!(oauth_sessions::get(&db, "s").await.unwrap().is_none());
    assert_eq!((due_ids(&db, 10).await, status().await), (vec!["s".to_owned()], "needs_reauth".to_owned()));
    assert!(!end_at("https://pds.example").await, "it is gone");
}

async fn a_login_at_the_instance_has_no_clients_key(db: TestDb) {
    session(&db, "s", None, Some("own"), "https://as.example").await;
    assert!(oauth_sessions::end(&db, "s", WINDOW).await.unwrap());
    let rows = due(&db, 10).await;
    assert_eq!((rows[0].assertion_kid.as_deref(), &rows[0].sealed_client_key), (Some("own"), &None));
}

async fn deleting_a_client_queues_the_sessions_of_the_family(db: TestDb) {
    family(&db).await;
    client_key(&db, "c1", "one").await;
    client_key(&db, "c2", "two").await;
    for (id, client, kid) in [("a", "c1", "one"), ("b", "c2", "two"), ("d", "c4", "none")] {
        session(&db, id, Some(client), Some(kid), "https://as.example").await;
    }
    assert_eq!(api_clients::delete(&db, "c1", WINDOW).await.unwrap().len(), 3);
    assert_eq!(due_ids(&db, 10).await, ["a", "b"]);
    assert!(oauth_sessions::get(&db, "d").await.unwrap().is_some(), "of another client");
    // The keys of the deleted clients are published until the end.
    let keys = async |client: &str, now| revocations::public_keys(&db, client, Timestamp(now)).await.unwrap();
    assert_eq!(keys("c1", 999).await, [r#"{"kid":"one"}"#]);
    assert_eq!(keys("c2", 999).await, [r#"{"kid":"two"}"#]);
    assert!(keys("c1", 1_000).await.is_empty());
    revocations::delete(&db, "a").await.unwrap();
    assert!(keys("c1", 10).await.is_empty());
}

async fn deleting_a_key_queues_its_sessions(db: TestDb) {
    family(&db).await;
    client_key(&db, "c1", "one").await;
    for (id, client, kid) in [("a", "c1", Some("one")), ("b", "c1", None), ("c", "c2", Some("one"))] {
        session(&db, id, Some(client), kid, "https://as.example").await;
    }
    let revoke = async |kid| api_client_keys::revoke(&db, "c1", kid, WINDOW).await.unwrap();
    assert_eq!(revoke(Some("other")).await, (0, 0));
    assert_eq!(due_ids(&db, 10).await, Vec::<String>::new());
    assert_eq!(revoke(Some("one")).await, (1, 1));
    assert_eq!(due_ids(&db, 10).await, ["a"]);
    client_key(&db, "c1", "two").await;
    session(&db, "d", Some("c1"), Some("two"), "https://as.example").await;
    assert_eq!(revoke(None).await, (1, 1));
    assert_eq!(due_ids(&db, 10).await, ["a", "d"]);
}

async fn one_host_tries_a_revocation_at_a_time(db: TestDb) {
    session(&db, "s", None, None, "https://as.example").await;
    oauth_sessions::end(&db, "s", WINDOW).await.unwrap();
    let row = due(&db, 10).await.remove(0);
    assert!(revocations::begin(&db, &row, Timestamp(50)).await.unwrap());
    assert!(!revocations::begin(&db, &row, Timestamp(60)).await.unwrap(), "another host has begun");
    assert!(due(&db, 49).await.is_empty());
    let again = due(&db, 50).await.remove(0);
    assert_eq!(again.attempts, 1, "its host was killed");
    revocations::postpone(&db, "s", Timestamp(70)).await.unwrap();
    assert!(due(&db, 69).await.is_empty());
    assert_eq!(due_ids(&db, 70).await, ["s"]);
    revocations::delete(&db, "s").await.unwrap();
    assert!(due(&db, 1_000).await.is_empty());
}

async fn over_the_limit_those_that_failed_most_are_removed(db: TestDb) {
    for id in ["a", "b", "c"] {
        session(&db, id, None, None, "https://as.example").await;
        oauth_sessions::end(&db, id, WINDOW).await.unwrap();
    }
    assert_eq!(revocations::prune(&db, 3).await.unwrap(), 0);
    let row = due(&db, 10).await.remove(1);
    assert!(revocations::begin(&db, &row, Timestamp(10)).await.unwrap());
    assert_eq!(revocations::prune(&db, 2).await.unwrap(), 1);
    assert_eq!(due_ids(&db, 10).await, ["a", "c"]);
}

async fn many_sessions_of_one_server_leave_permits_to_others(db: TestDb) {
    for n in 0..5 {
        session(&db, &format!("a{n}"), None, None, "https://slow.example").await;
        oauth_sessions::end(&db, &format!("a{n}"), Window { due_at: Timestamp(n), ..WINDOW }).await.unwrap();
    }
    session(&db, "b", None, None, "https://other.example").await;
    oauth_sessions::end(&db, "b", WINDOW).await.unwrap();
    let ids = async |max, of_issuer| {
        let rows = revocations::due(&db, Timestamp(10), max, of_issuer).await.unwrap();
        rows.into_iter().map(|row| row.id).collect::<Vec<_>>()
    };
    assert_eq!(ids(10, 2).await, ["a0", "a1", "b"]);
    assert_eq!(ids(2, 5).await, ["a0", "a1"]);
}
