//! Links an account: inserts it, or replaces the tokens of the same account.

use belvedere_base::clock::Timestamp;
use belvedere_protocol::atproto::Did;

use super::super::types::to_json_text;
use super::super::{Db, StoreError, intern, on};
use super::DELETE_VALUES;

/// An account that a user has just proved to have.
#[derive(Clone, Copy, Debug)]
pub struct NewAccount<'a> {
    /// The id of the row: that of `replaces` if it is the same account.
    pub id: &'a str,
    pub did: &'a Did,
    pub plugin: &'a str,
    pub account_id: &'a str,
    pub display_name: Option<&'a str>,
    pub profile_url: Option<&'a str>,
    pub avatar_url: Option<&'a str>,
    pub access_token: &'a [u8],
    pub refresh_token: Option<&'a [u8]>,
    pub token_type: &'a str,
    pub scope: Option<&'a str>,
    pub expires_at: Option<Timestamp>,
    pub config: &'a [u8],
    pub collections: &'a [String],
    pub oauth_session_id: &'a str,
    pub tenant: &'a str,
    /// The row that the user has linked until now.
    pub replaces: Option<&'a str>,
}

/// The result of storing an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Linked {
    Stored,
    /// The user has meanwhile linked or unlinked an account.
    Raced,
    /// The plugin is not installed any more, or is being removed.
    NoPlugin,
}

/// Stores an account. A row of another account that it replaces is unlinked, and what the plugin kept for it is removed;
/// its tokens are revoked until `give_up_at`. A turn of a sync that runs of the same account ends, because the user may have
/// consented to less.
pub async fn link(
    db: &Db,
    account: &NewAccount<'_>,
    now: Timestamp,
    give_up_at: Timestamp,
) -> Result<Linked, StoreError> {
    // So that the stream reports when the user's own account is deleted.
    intern::did_ids(db, std::iter::once(account.did)).await?;
    // The row stays locked, so that a removal that begins now unlinks this account too. SQLite has one writer anyway.
    let installed = match db {
        Db::Sqlite(_) => "SELECT 1 FROM plugins WHERE id = $1 AND status IN ('active', 'paused')",
        Db::Postgres(_) => "SELECT 1 FROM plugins WHERE id = $1 AND status IN ('active', 'paused') FOR SHARE",
    };
    let unlink = "UPDATE external_accounts SET status = 'unlinking', attempts = 0, due_at = $2, give_up_at = $3, \
                      sync_status = 'idle', sync_holder = NULL, sync_until = NULL, updated_at = $2 \
                  WHERE id = $1 AND status <> 'unlinking'";
    let update = "UPDATE external_accounts SET display_name = $2, profile_url = $3, avatar_url = $4, access_token = $5, \
                      refresh_token = $6, token_type = $7, scope = $8, expires_at = $9, config = $10, collections = $11, \
                      oauth_session_id = $12, tenant = $13, status = 'linked', version = version + 1, \
                      refresh_until = NULL, sync_session_id = $12, sync_holder = NULL, sync_until = NULL, \
                      sync_attempts = 0, updated_at = $14 \
                  WHERE id = $1 AND status <> 'unlinking' AND account_id = $15 AND did = $16 AND plugin_id = $17";
    let insert = "INSERT INTO external_accounts (id, display_name, profile_url, avatar_url, access_token, refresh_token, \
                      token_type, scope, expires_at, config, collections, oauth_session_id, tenant, created_at, updated_at, \
                      account_id, did, plugin_id, status, version, attempts, sync_status, sync_run, sync_reached, sync_pages, \
                      sync_processed, sync_written, sync_skipped, sync_attempts) \
                  VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $14, $15, $16, $17, \
                      'linked', 1, 0, 'idle', 0, 0, 0, 0, 0, 0, 0)";
    let is_same = account.replaces == Some(account.id);
    let stored: Result<Linked, StoreError> = async {
        on!(db, writer, |pool| {
            let mut tx = pool.begin().await?;
            if sqlx::query(installed).bind(account.plugin).fetch_optional(&mut *tx).await?.is_none() {
                return Ok(Linked::NoPlugin);
            }
            if let Some(old) = account.replaces.filter(|_| !is_same) {
                let ended =
                    sqlx::query(unlink).bind(old).bind(now).bind(give_up_at).execute(&mut *tx).await?;
                if ended.rows_affected() == 0 {
                    return Ok(Linked::Raced);
                }
                let values = sqlx::query(DELETE_VALUES).bind(account.plugin).bind(account.did.as_str());
                values.execute(&mut *tx).await?;
            }
            let stored = sqlx::query(if is_same { update } else { insert })
                .bind(account.id)
                .bind(account.display_name)
                .bind(account.profile_url)
                .bind(account.avatar_url)
                .bind(account.access_token)
                .bind(account.refresh_token)
                .bind(account.token_type)
                .bind(account.scope)
                .bind(account.expires_at)
                .bind(account.config)
                .bind(to_json_text(account.collections))
                .bind(account.oauth_session_id)
                .bind(account.tenant)
                .bind(now)
                .bind(account.account_id)
                .bind(account.did.as_str())
                .bind(account.plugin)
                .execute(&mut *tx)
                .await?;
            tx.commit().await?;
            Ok(if stored.rows_affected() > 0 { Linked::Stored } else { Linked::Raced })
        })
    }
    .await;
    match stored {
        // Another request has linked an account in the meantime.
        Err(StoreError::Conflict(_)) => Ok(Linked::Raced),
        stored => stored,
    }
}
