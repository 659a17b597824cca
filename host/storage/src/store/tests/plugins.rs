//! Installed plugins: each change is whole, and modules live as long as a plugin uses them.

use crate::store::plugin_secrets::{self, NewSecret};
use crate::store::plugins::{self, NewPlugin, PluginRow, PluginSource, PluginState, Replaces};
use crate::store::testing::TestDb;
use crate::store::{Db, on};
use belvedere_base::clock::Timestamp;

/// A version of a plugin whose module and manifest are `version`.
async fn put(db: &Db, id: &str, version: &str, replaces: Replaces<'_>) -> Option<PluginRow> {
    let new = NewPlugin {
        id,
        source: PluginSource::Url,
        url: Some("https://x.test/"),
        module: version.as_bytes(),
        module_sha256: version,
        manifest_sha256: version,
        pinned: false,
        manifest: "{}",
        requested: &["kv:use".to_owned(), "attest:sign".to_owned()],
        granted: &["kv:use".to_owned()],
        installed_by: Some("did:plc:admin"),
    };
    plugins::install(db, &new, replaces, Timestamp(7)).await.unwrap()
}

async fn has_module(db: &Db, sha256: &str) -> bool {
    plugins::module(db, sha256).await.unwrap().is_some()
}

async fn execute(db: &Db, sql: &'static str) {
    on!(db, writer, |pool| sqlx::raw_sql(sql).execute(pool).await.map(drop)).unwrap();
}

async fn set_secrets(db: &Db, secrets: &[NewSecret]) -> Option<String> {
    plugin_secrets::replace(db, "a", secrets, Timestamp(1)).await.unwrap()
}

fn set(key: &str, sealed: &[u8]) -> NewSecret {
    NewSecret::Set { key: key.to_owned(), sealed: sealed.to_vec() }
}

on_both!(
    a_version_replaces_the_one_before_and_its_module_goes,
    a_version_that_was_replaced_meanwhile_is_left_alone,
    grants_and_status_change,
    a_removed_plugin_goes_with_the_last_of_its_accounts,
    values_of_unknown_plugins_are_removed,
    many_installations_at_once_leave_one_whole_version,
    a_set_of_secrets_replaces_the_stored_one
);

async fn a_version_replaces_the_one_before_and_its_module_goes(db: TestDb) {
    let row = put(&db, "a", "one", Replaces::Any).await.unwrap();
    assert_eq!((row.status, row.traps, row.installed_at), (PluginState::Active, 0, Timestamp(7)));
    assert_eq!(row.granted, ["kv:use"]);
    assert_eq!(plugins::get(&db, "a").await.unwrap().unwrap(), row);
    assert_eq!(plugins::module(&db, "one").await.unwrap().unwrap(), b"one");
    // Another plugin uses the same module.
    put(&db, "b", "one", Replaces::Any).await.unwrap();
    put(&db, "a", "two", Replaces::Version(&row)).await.unwrap();
    assert!(has_module(&db, "one").await && has_module(&db, "two").await);
    put(&db, "b", "two", Replaces::Any).await.unwrap();
    assert!(!has_module(&db, "one").await && has_module(&db, "two").await);
    let ids: Vec<String> = plugins::list(&db).await.unwrap().into_iter().map(|row| row.id).collect();
    assert_eq!(ids, ["a", "b"]);
}

async fn a_version_that_was_replaced_meanwhile_is_left_alone(db: TestDb) {
    let row = put(&db, "a", "one", Replaces::Any).await.unwrap();
    put(&db, "a", "two", Replaces::Any).await.unwrap();
    assert_eq!(put(&db, "a", "three", Replaces::Version(&row)).await, None);
    assert!(!has_module(&db, "three").await, "nothing is stored");
    assert_eq!(plugins::get(&db, "a").await.unwrap().unwrap().module_sha256, "two");
    assert_eq!(put(&db, "gone", "three", Replaces::Version(&row)).await, None);
    assert_eq!(plugins::get(&db, "gone").await.unwrap(), None);
}

async fn grants_and_status_change(db: TestDb) {
    let row = put(&db, "a", "one", Replaces::Any).await.unwrap();
    let granted = ["attest:sign".to_owned()];
    let changed = plugins::set_granted(&db, "a", &row.requested, &granted).await.unwrap().unwrap();
    assert_eq!(changed.granted, granted);
    assert_eq!(plugins::set_granted(&db, "a", &granted, &granted).await.unwrap(), None, "it asks for more");
    execute(&db, "UPDATE plugins SET status = 'paused', traps = 3, last_error = 'trap'").await;
    let resumed = plugins::resume(&db, "a").await.unwrap().unwrap();
    assert_eq!((resumed.status, resumed.traps, resumed.last_error), (PluginState::Active, 0, None));
    assert_eq!(plugins::resume(&db, "b").await.unwrap(), None);
}

async fn a_removed_plugin_goes_with_the_last_of_its_accounts(db: TestDb) {
    put(&db, "a", "one", Replaces::Any).await.unwrap();
    set_secrets(&db, &[set("KEY", b"x")]).await;
    let value =
        "INSERT INTO plugin_values (plugin_id, scope, owner, key, value) VALUES ('a', 'plugin', '', 'k', $1)";
    let account = "INSERT INTO external_accounts (id, did, plugin_id, account_id, access_token, token_type, config, \
        collections, tenant, status, version, attempts, sync_status, sync_run, sync_pages, sync_processed, \
        sync_written, sync_skipped, sync_attempts, created_at, updated_at) \
        VALUES ('1', 'did:plc:a', 'a', '1', $1, '', $1, '[]', '', 'linked', 1, 0, 'idle', 0, 0, 0, 0, 0, 0, 0, 0)";
    for sql in [value, account] {
        on!(&*db, writer, |pool| sqlx::query(sql).bind(&b"x"[..]).execute(pool).await.map(drop)).unwrap();
    }
    assert!(!plugins::finish_removal(&db, "a").await.unwrap(), "it is not marked");
    assert!(plugins::begin_removal(&db, "a").await.unwrap().is_some());
    assert!(plugins::begin_removal(&db, "a").await.unwrap().is_none(), "already marked");
    assert_eq!(put(&db, "a", "two", Replaces::Any).await, None, "not while it is being removed");
    assert_eq!(plugins::resume(&db, "a").await.unwrap(), None);
    assert!(!plugins::finish_removal(&db, "a").await.unwrap(), "it has an account");
    assert_eq!(plugins::removing(&db).await.unwrap(), ["a"]);
    execute(&db, "DELETE FROM external_accounts").await;
    assert!(plugins::finish_removal(&db, "a").await.unwrap());
    assert_eq!(plugins::get(&db, "a").await.unwrap(), None);
    assert!(!has_module(&db, "one").await);
    let values: i64 = on!(&*db, reader, |pool| {
        sqlx::query_scalar("SELECT count(*) FROM plugin_values").fetch_one(pool).await.unwrap()
    });
    assert_eq!(values, 0);
    assert_eq!(plugin_secrets::list(&db, "a").await.unwrap().len(), 1, "kept for a reinstall");
}

async fn values_of_unknown_plugins_are_removed(db: TestDb) {
    put(&db, "a", "one", Replaces::Any).await.unwrap();
    for id in ["a", "b", "c"] {
        let value = "INSERT INTO plugin_values (plugin_id, scope, owner, key, value) VALUES ($1, 'account', 'did:plc:a', 'k', $2)";
        let insert = on!(&*db, writer, |pool| sqlx::query(value)
            .bind(id)
            .bind(&b"x"[..])
            .execute(pool)
            .await
            .map(drop));
        insert.unwrap();
    }
    assert_eq!(plugins::remove_stray_values(&db).await.unwrap(), 2);
    assert_eq!(plugins::remove_stray_values(&db).await.unwrap(), 0);
    let left: String = on!(&*db, reader, |pool| {
        sqlx::query_scalar("SELECT plugin_id FROM plugin_values").fetch_one(pool).await.unwrap()
    });
    assert_eq!(left, "a");
}

async fn many_installations_at_once_leave_one_whole_version(db: TestDb) {
    let versions: Vec<String> = (0..8).map(|n| format!("v{n}")).collect();
    let all = versions.iter().map(|version| put(&db, "a", version, Replaces::Any));
    let rows = futures_util::future::join_all(all).await;
    assert!(rows.iter().all(Option::is_some));
    let row = plugins::get(&db, "a").await.unwrap().unwrap();
    assert_eq!(row.module_sha256, row.manifest_sha256);
    for version in &versions {
        assert_eq!(has_module(&db, version).await, *version == row.module_sha256, "{version}");
    }
}

async fn a_set_of_secrets_replaces_the_stored_one(db: TestDb) {
    assert_eq!(set_secrets(&db, &[set("A", b"1"), set("B", b"2"), set("C", b"3")]).await, None);
    let keep = NewSecret::Keep("A".to_owned());
    assert_eq!(set_secrets(&db, &[keep.clone(), set("B", b"4")]).await, None);
    let stored = async || {
        let rows = plugin_secrets::list(&db, "a").await.unwrap();
        rows.into_iter().map(|row| (row.key, row.sealed)).collect::<Vec<_>>()
    };
    let expected = [("A".to_owned(), b"1".to_vec()), ("B".to_owned(), b"4".to_vec())];
    assert_eq!(stored().await, expected);
    // A secret that is not stored can't be kept; then nothing changes.
    let missing = [set("B", b"5"), NewSecret::Keep("C".to_owned())];
    assert_eq!(set_secrets(&db, &missing).await.as_deref(), Some("C"));
    assert_eq!(stored().await, expected);
    assert_eq!(plugin_secrets::all(&db).await.unwrap().len(), 2);
    assert_eq!(set_secrets(&db, &[]).await, None);
    assert_eq!(stored().await, []);
}
