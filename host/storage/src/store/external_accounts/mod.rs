//! Stores the accounts at other services that users have linked. Tokens are sealed; this module never handles a plain one.

mod linking;
mod revoking;
mod syncing;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod tokens;

pub use linking::{Linked, NewAccount, link};
pub use revoking::{
    begin_revocation, due_revocations, postpone_revocation, remove, unlink, unlink_of_deleted_users,
    unlink_of_plugin, without_plugin,
};
pub use syncing::{
    DueSync, Progress, checkpoint, due_syncs, extend_sync, fail_sync, finish_sync, interrupt_sync,
    postpone_sync, release_sync, start_sync, take_sync,
};
pub use tokens::{NewTokens, expire, lease_refresh, refreshed, release_refresh};

use belvedere_base::clock::Timestamp;

use super::text_enum::text_enum;
use super::types::JsonText;
use super::{Db, StoreError, on};

/// A linked account, or a former one whose tokens are being revoked.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct AccountRow {
    pub id: String,
    pub did: String,
    pub plugin_id: String,
    /// The account's id at the service.
    pub account_id: String,
    pub display_name: Option<String>,
    pub profile_url: Option<String>,
    pub avatar_url: Option<String>,
    pub access_token: Vec<u8>,
    pub refresh_token: Option<Vec<u8>>,
    pub token_type: String,
    pub scope: Option<String>,
    /// `None`: the access token does not expire.
    pub expires_at: Option<Timestamp>,
    pub config: Vec<u8>,
    /// The collections that the user consented to.
    #[sqlx(try_from = "JsonText<Vec<String>>")]
    pub collections: Vec<String>,
    /// The session with the user's PDS that linked the account.
    pub oauth_session_id: Option<String>,
    /// The text of the tenant whose share the account's calls take.
    pub tenant: String,
    pub status: AccountStatus,
    /// Incremented with every change of the tokens.
    pub version: i64,
    /// The number of attempts to revoke.
    pub attempts: i64,
    pub due_at: Option<Timestamp>,
    pub give_up_at: Option<Timestamp>,
    pub sync_status: SyncStatus,
    /// The number of the last sync, from 1.
    pub sync_run: i64,
    /// The time at which that sync began.
    pub sync_run_started_at: Option<Timestamp>,
    /// The session with the user's PDS through which it writes.
    pub sync_session_id: Option<String>,
    /// The time at which the first page was read: before the last sync, if that went on at a checkpoint.
    pub sync_started_at: Option<Timestamp>,
    /// The time at which the next page is read.
    pub sync_due_at: Option<Timestamp>,
    pub sync_cursor: Option<String>,
    /// Items of the next page that a turn has written before its time was over.
    pub sync_reached: i64,
    pub sync_pages: i64,
    pub sync_processed: i64,
    pub sync_written: i64,
    pub sync_skipped: i64,
    /// Attempts of the next page that have begun, without those that count for nothing.
    pub sync_attempts: i64,
    /// Code and text of the last error, separated by `: `.
    pub sync_error: Option<String>,
    /// The reason why the first item was skipped.
    pub sync_note: Option<String>,
    pub synced_at: Option<Timestamp>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

text_enum! {
    pub enum AccountStatus {
        Linked = "linked",
        /// The service no longer accepts the tokens: the user must link the account again.
        Expired = "expired",
        /// Its tokens are being revoked, and then its row is removed. Not shown any more.
        Unlinking = "unlinking",
    }
}

text_enum! {
    pub enum SyncStatus {
        Idle = "idle",
        Running = "running",
    }
}

/// The columns of an [`AccountRow`].
macro_rules! columns {
    () => {
        "id, did, plugin_id, account_id, display_name, profile_url, avatar_url, access_token, refresh_token, token_type, \
         scope, expires_at, config, collections, oauth_session_id, tenant, status, version, attempts, due_at, give_up_at, \
         sync_status, sync_run, sync_run_started_at, sync_session_id, sync_started_at, sync_due_at, sync_cursor, sync_reached, \
         sync_pages, sync_processed, sync_written, sync_skipped, \
         sync_attempts, sync_error, sync_note, synced_at, created_at, updated_at"
    };
}
use columns;

/// Deletes the values that a plugin keeps for the account of a user. `$1`: the plugin, `$2`: the user.
const DELETE_VALUES: &str =
    "DELETE FROM plugin_values WHERE plugin_id = $1 AND scope = 'account' AND owner = $2";

/// The account of a plugin that a user has linked.
pub async fn get(db: &Db, did: &str, plugin: &str) -> Result<Option<AccountRow>, StoreError> {
    let sql = concat!(
        "SELECT ",
        columns!(),
        " FROM external_accounts WHERE did = $1 AND plugin_id = $2 AND status <> 'unlinking'"
    );
    Ok(on!(db, reader, |pool| sqlx::query_as(sql).bind(did).bind(plugin).fetch_optional(pool).await)?)
}

/// An account in any state.
pub async fn by_id(db: &Db, id: &str) -> Result<Option<AccountRow>, StoreError> {
    let sql = concat!("SELECT ", columns!(), " FROM external_accounts WHERE id = $1");
    Ok(on!(db, reader, |pool| sqlx::query_as(sql).bind(id).fetch_optional(pool).await)?)
}

/// The accounts that a user has linked, newest first.
pub async fn list(db: &Db, did: &str) -> Result<Vec<AccountRow>, StoreError> {
    let sql = concat!(
        "SELECT ",
        columns!(),
        " FROM external_accounts WHERE did = $1 AND status <> 'unlinking' ORDER BY created_at DESC, id DESC"
    );
    Ok(on!(db, reader, |pool| sqlx::query_as(sql).bind(did).fetch_all(pool).await)?)
}

/// The accounts that all users have linked with a plugin, in the order of their ids: at most `limit` after an id.
pub async fn of_plugin(
    db: &Db,
    plugin: &str,
    after: &str,
    limit: u32,
) -> Result<Vec<AccountRow>, StoreError> {
    let sql = concat!(
        "SELECT ",
        columns!(),
        " FROM external_accounts WHERE plugin_id = $1 AND id > $2 AND status <> 'unlinking' ORDER BY id LIMIT $3"
    );
    Ok(on!(db, reader, |pool| {
        sqlx::query_as(sql).bind(plugin).bind(after).bind(i64::from(limit)).fetch_all(pool).await
    })?)
}

/// Releases what a killed server still holds. Only on SQLite, which has one server: on PostgreSQL another host may be at
/// work, and the rights expire.
pub async fn release_all(db: &Db) -> Result<(), StoreError> {
    if let Db::Sqlite(db) = db {
        let sql = "UPDATE external_accounts SET refresh_until = NULL, sync_holder = NULL, sync_until = NULL \
                   WHERE refresh_until IS NOT NULL OR sync_holder IS NOT NULL";
        sqlx::query(sql).execute(&db.writer).await?;
    }
    Ok(())
}
