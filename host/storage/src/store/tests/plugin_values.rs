//! Values of plugins: scopes, expiry, and quotas that hold when several calls write at once; pauses.

use crate::store::external_accounts::{self, NewAccount};
use crate::store::plugin_values::{self, Expiry, Quota, Scope, ValueKey};
use crate::store::testing::TestDb;
use crate::store::{Db, plugin_pauses};
use belvedere_base::clock::Timestamp;
use belvedere_protocol::atproto::Did;

const QUOTA: Quota = Quota { bytes: 10, keys: 3 };
/// Longer than any test.
const LASTING: Expiry = Expiry { linked: None, unlinked: Timestamp(i64::MAX) };

fn at(until: i64) -> Expiry {
    Expiry { linked: Some(Timestamp(until)), unlinked: Timestamp(until) }
}

/// Links an account of the plugin.
async fn link(db: &Db, did: &str) {
    let account = NewAccount {
        id: "1",
        did: &Did::try_from(did).unwrap(),
        plugin: "steam",
        account_id: "7",
        display_name: None,
        profile_url: None,
        avatar_url: None,
        access_token: b"token",
        refresh_token: None,
        token_type: "Bearer",
        scope: None,
        expires_at: None,
        config: b"{}",
        collections: &[],
        oauth_session_id: "s",
        tenant: "client:a",
        replaces: None,
    };
    external_accounts::testing::add_plugin(db, "steam").await;
    let linked = external_accounts::link(db, &account, Timestamp(0), Timestamp(9)).await.unwrap();
    assert_eq!(linked, external_accounts::Linked::Stored);
}

fn key<'a>(owner: &'a str, key: &'a str) -> ValueKey<'a> {
    ValueKey { plugin: "steam", scope: Scope::Account, owner, key }
}

async fn set(db: &Db, owner: &str, name: &str, value: &[u8], until: Option<i64>) -> bool {
    let expiry = until.map_or(LASTING, at);
    plugin_values::set(db, &key(owner, name), value, expiry, QUOTA, Timestamp(0)).await.unwrap()
}

async fn get(db: &Db, owner: &str, name: &str, now: i64) -> Option<Vec<u8>> {
    plugin_values::get(db, &key(owner, name), Timestamp(now)).await.unwrap()
}

on_both!(
    values_are_stored_replaced_and_removed,
    expired_values_are_gone_and_take_no_room,
    values_of_owners_without_an_account_expire,
    an_owner_has_a_quota,
    writes_at_once_stay_within_the_quota,
    texts_with_nul_are_no_server_error,
    only_an_installed_and_active_plugin_is_paused
);

async fn values_are_stored_replaced_and_removed(db: TestDb) {
    assert!(set(&db, "a", "k", b"1", None).await && set(&db, "a", "k", b"\0\xff", None).await);
    assert_eq!(get(&db, "a", "k", 9).await.unwrap(), b"\0\xff");
    assert_eq!(get(&db, "b", "k", 9).await, None);
    let elsewhere = ValueKey { scope: Scope::Plugin, ..key("a", "k") };
    assert_eq!(plugin_values::get(&db, &elsewhere, Timestamp(9)).await.unwrap(), None);
    let delete = async || plugin_values::delete(&db, &key("a", "k"), Timestamp(9)).await.unwrap();
    assert!(delete().await && !delete().await);
}

async fn expired_values_are_gone_and_take_no_room(db: TestDb) {
    assert!(set(&db, "a", "k", b"123456789", Some(5)).await);
    assert!(get(&db, "a", "k", 4).await.is_some() && get(&db, "a", "k", 5).await.is_none());
    assert!(!plugin_values::delete(&db, &key("a", "k"), Timestamp(5)).await.unwrap());
    assert!(set(&db, "a", "k", b"123456789", Some(5)).await);
    assert!(!set(&db, "a", "l", b"1", None).await, "full");
    let later = plugin_values::set(&db, &key("a", "l"), b"1", LASTING, QUOTA, Timestamp(5)).await;
    assert!(later.unwrap());
    assert!(set(&db, "b", "k", b"1", Some(5)).await);
    assert_eq!(plugin_values::prune(&db, Timestamp(5)).await.unwrap(), 1);
}

async fn values_of_owners_without_an_account_expire(db: TestDb) {
    let (alice, bob) = ("did:plc:alice", "did:plc:bob");
    link(&db, alice).await;
    let expiry = Expiry { linked: Some(Timestamp(9)), unlinked: Timestamp(5) };
    let of_plugin = ValueKey { scope: Scope::Plugin, ..key("", "k") };
    for key in [key(alice, "k"), key(bob, "k"), of_plugin] {
        assert!(plugin_values::set(&db, &key, b"1", expiry, QUOTA, Timestamp(0)).await.unwrap());
    }
    assert!(get(&db, alice, "k", 8).await.is_some() && get(&db, alice, "k", 9).await.is_none());
    assert!(get(&db, bob, "k", 4).await.is_some() && get(&db, bob, "k", 5).await.is_none());
    assert!(plugin_values::get(&db, &of_plugin, Timestamp(8)).await.unwrap().is_some());
}

async fn an_owner_has_a_quota(db: TestDb) {
    assert!(!set(&db, "a", "k", b"1234567890", None).await, "the key counts");
    assert!(set(&db, "a", "é", b"12345678", None).await && !set(&db, "a", "l", b"", None).await);
    assert!(set(&db, "a", "é", b"", None).await && set(&db, "b", "k", b"123456789", None).await);
    assert!(set(&db, "a", "l", b"", None).await && set(&db, "a", "m", b"", None).await);
    assert!(!set(&db, "a", "n", b"", None).await && set(&db, "a", "m", b"1", None).await);
    let removed = plugin_values::remove_owner(&db, "steam", Scope::Account, "a").await.unwrap();
    assert_eq!((removed, get(&db, "b", "k", 0).await.is_some()), (3, true));
}

async fn writes_at_once_stay_within_the_quota(db: TestDb) {
    let names: Vec<String> = (0..20).map(|n| format!("k{n:02}")).collect();
    let writes = names.iter().map(|name| set(&db, "a", name, b"12", None));
    let stored = futures_util::future::join_all(writes).await;
    assert_eq!(stored.into_iter().filter(|stored| *stored).count(), 2, "of 5 bytes each");
}

async fn texts_with_nul_are_no_server_error(db: TestDb) {
    let stored = plugin_values::set(&db, &key("a", "a\0b"), b"", LASTING, QUOTA, Timestamp(0)).await;
    assert!(matches!(stored, Ok(true) | Err(crate::store::StoreError::BadValue(_))), "{stored:?}");
}

async fn only_an_installed_and_active_plugin_is_paused(db: TestDb) {
    assert!(!plugin_pauses::pause(&db, "steam", "hash", 3, "trap\0").await.unwrap());
}
