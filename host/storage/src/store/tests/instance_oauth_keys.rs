//! The keys with which the instance authenticates to authorization servers.

use crate::store::dpop_keys::{self, DpopKeyRow};
use crate::store::instance_oauth_keys::{self as keys, CURRENT, REVOKED};
use crate::store::oauth_sessions::{self, NewSession};
use crate::store::revocations::{self, Window};
use crate::store::testing::TestDb;
use crate::store::{Db, StoreError};
use belvedere_base::clock::Timestamp;

/// A session of `did:plc:a`.
pub(super) async fn session(db: &Db, id: &str, kid: &str) {
    let key = DpopKeyRow {
        id: format!("key-{id}"),
        client_id: None,
        thumbprint: id.to_owned(),
        sealed: vec![1],
        pkce_challenge: None,
        did: None,
        created_at: Timestamp(0),
    };
    dpop_keys::create(db, &key).await.unwrap();
    let session = NewSession {
        id,
        key_id: &key.id,
        client_id: None,
        did: "did:plc:a",
        scopes: "atproto",
        token_hash: "",
        pds: "https://pds.example",
        issuer: "https://pds.example",
        oauth_client_id: "https://own.example/client.json",
        assertion_kid: Some(kid),
        sealed: &[1],
        refreshable: true,
        expires_at: None,
    };
    oauth_sessions::register(db, &session, Timestamp(1)).await.unwrap();
}

async fn shown(db: &Db) -> Vec<(String, String, i64)> {
    let rows = keys::list(db).await.unwrap();
    rows.into_iter().map(|row| (row.kid, row.status, row.session_count)).collect()
}

fn row(kid: &str, status: &str, sessions: i64) -> (String, String, i64) {
    (kid.to_owned(), status.to_owned(), sessions)
}

on_both!(one_key_is_current_and_older_ones_stay_while_they_are_used);

async fn one_key_is_current_and_older_ones_stay_while_they_are_used(db: TestDb) {
    for kid in ["a", "other"] {
        // The second has no effect: another host was first.
        keys::create_first(&db, (kid, &[7], "{}"), Timestamp(1)).await.unwrap();
    }
    session(&db, "s1", "a").await;
    session(&db, "s2", "lost").await;
    assert_eq!(shown(&db).await, [row("a", CURRENT, 1)]);
    assert_eq!(keys::count_orphaned(&db).await.unwrap(), 1);
    keys::rotate(&db, ("b", &[8], "{}"), Timestamp(10)).await.unwrap();
    keys::rotate(&db, ("c", &[9], "{}"), Timestamp(20)).await.unwrap();
    assert!(matches!(
        keys::rotate(&db, ("c", &[9], "{}"), Timestamp(30)).await,
        Err(StoreError::Conflict(_))
    ));
    assert_eq!(shown(&db).await, [row("c", CURRENT, 0), row("b", "retiring", 0), row("a", "retiring", 1)]);
    let b = keys::get(&db, "b").await.unwrap().unwrap();
    assert_eq!((b.sealed, b.retired_at), (vec![8], Some(Timestamp(20))));

    // Retired long enough ago, and unused.
    assert_eq!(keys::delete_unused(&db, Timestamp(20)).await.unwrap(), 0);
    assert_eq!(keys::delete_unused(&db, Timestamp(21)).await.unwrap(), 1);
    assert_eq!(shown(&db).await, [row("c", CURRENT, 0), row("a", "retiring", 1)]);

    assert!(!keys::revoke(&db, "c").await.unwrap() && !keys::revoke(&db, "b").await.unwrap());
    keys::delete_revoked(&db, "a").await.unwrap();
    assert!(keys::revoke(&db, "a").await.unwrap());
    assert_eq!(shown(&db).await, [row("c", CURRENT, 0), row("a", REVOKED, 1)]);
    assert_eq!(oauth_sessions::of_own_key(&db, "a").await.unwrap().len(), 1);
    // It stays until its sessions are ended and revoked.
    keys::delete_revoked(&db, "a").await.unwrap();
    let window = Window { due_at: Timestamp(30), give_up_at: Timestamp(40) };
    assert!(oauth_sessions::end(&db, "s1", window).await.unwrap());
    keys::delete_revoked(&db, "a").await.unwrap();
    assert_eq!(keys::delete_unused(&db, Timestamp(50)).await.unwrap(), 0);
    assert_eq!(shown(&db).await, [row("c", CURRENT, 0), row("a", REVOKED, 0)]);
    revocations::delete(&db, "s1").await.unwrap();
    keys::delete_revoked(&db, "a").await.unwrap();
    assert_eq!(keys::get(&db, "a").await.unwrap(), None);
    assert_eq!(keys::count_orphaned(&db).await.unwrap(), 1);
}
