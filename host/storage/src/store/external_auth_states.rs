//! Stores sign-ins at other services that have begun, by the hash of their state. Each can be completed once, by the
//! browser in which the user consented.

use belvedere_base::clock::Timestamp;

use super::types::{JsonText, to_json_text};
use super::{Db, StoreError, on, only_row};

/// A sign-in that has begun.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct FlowRow {
    /// SHA-256 hex of the state.
    pub state: String,
    pub did: String,
    pub plugin_id: String,
    pub redirect_uri: String,
    /// The collections that the user consents to.
    #[sqlx(try_from = "JsonText<Vec<String>>")]
    pub collections: Vec<String>,
    /// The session with the user's PDS.
    pub oauth_session_id: String,
    /// The text of the tenant whose share the calls take.
    pub tenant: String,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
}

/// The columns of a [`FlowRow`].
macro_rules! columns {
    () => {
        "state, did, plugin_id, redirect_uri, collections, oauth_session_id, tenant, created_at, expires_at"
    };
}

/// Most sign-ins that one new one removes. More than one exceed the bound only when several hosts wrote at the same time.
const MAX_REMOVED: i64 = 100;

/// Stores a sign-in. Beyond `max` of the same user and plugin, the oldest are removed.
pub async fn put(db: &Db, flow: &FlowRow, max: u32) -> Result<(), StoreError> {
    let insert = "INSERT INTO external_auth_states (state, did, plugin_id, redirect_uri, collections, oauth_session_id, \
                      tenant, created_at, expires_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)";
    let surplus = "DELETE FROM external_auth_states WHERE state IN (SELECT state FROM external_auth_states \
                       WHERE did = $1 AND plugin_id = $2 ORDER BY created_at DESC, state LIMIT $3 OFFSET $4)";
    on!(db, writer, |pool| {
        let mut tx = pool.begin().await?;
        sqlx::query(insert)
            .bind(&flow.state)
            .bind(&flow.did)
            .bind(&flow.plugin_id)
            .bind(&flow.redirect_uri)
            .bind(to_json_text(&flow.collections))
            .bind(&flow.oauth_session_id)
            .bind(&flow.tenant)
            .bind(flow.created_at)
            .bind(flow.expires_at)
            .execute(&mut *tx)
            .await?;
        let surplus = sqlx::query(surplus).bind(&flow.did).bind(&flow.plugin_id);
        surplus.bind(MAX_REMOVED).bind(i64::from(max)).execute(&mut *tx).await?;
        tx.commit().await?;
        Ok(())
    })
}

/// A sign-in that has not expired.
pub async fn get(db: &Db, state: &str, plugin: &str, now: Timestamp) -> Result<Option<FlowRow>, StoreError> {
    let sql = concat!(
        "SELECT ",
        columns!(),
        " FROM external_auth_states WHERE state = $1 AND plugin_id = $2 AND expires_at > $3"
    );
    Ok(on!(db, reader, |pool| {
        sqlx::query_as(sql).bind(state).bind(plugin).bind(now).fetch_optional(pool).await
    })?)
}

/// Binds a sign-in to a browser, by the hash of its cookie. `false` when it does not exist, has expired, or is bound to
/// another browser.
pub async fn bind(
    db: &Db,
    state: &str,
    plugin: &str,
    browser: &str,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let sql = "UPDATE external_auth_states SET browser = $3 \
               WHERE state = $1 AND plugin_id = $2 AND expires_at > $4 AND (browser IS NULL OR browser = $3)";
    let bound = on!(db, writer, |pool| {
        sqlx::query(sql).bind(state).bind(plugin).bind(browser).bind(now).execute(pool).await?.rows_affected()
    });
    Ok(bound > 0)
}

/// Removes a sign-in and returns it. `None`, and nothing is removed, when it does not exist, is another plugin's, has
/// expired, or is not bound to this browser.
pub async fn take(
    db: &Db,
    state: &str,
    plugin: &str,
    browser: &str,
    now: Timestamp,
) -> Result<Option<FlowRow>, StoreError> {
    let sql = concat!(
        "DELETE FROM external_auth_states WHERE state = $1 AND plugin_id = $2 AND browser = $3 AND expires_at > $4 RETURNING ",
        columns!()
    );
    let rows = on!(db, writer, |pool| {
        let query = sqlx::query_as(sql).bind(state).bind(plugin).bind(browser).bind(now);
        query.fetch_all(pool).await?
    });
    Ok(only_row(rows))
}

/// Removes expired sign-ins, and lets what plugins keep for sign-ins expire at `latest` at the latest. Returns the number
/// of sign-ins.
pub async fn prune(db: &Db, now: Timestamp, latest: Timestamp) -> Result<u64, StoreError> {
    let states = "DELETE FROM external_auth_states WHERE expires_at <= $1";
    let values = "UPDATE plugin_values SET expires_at = $1 WHERE scope = 'flow' AND (expires_at IS NULL OR expires_at > $1)";
    on!(db, writer, |pool| {
        let removed = sqlx::query(states).bind(now).execute(pool).await?.rows_affected();
        sqlx::query(values).bind(latest).execute(pool).await?;
        Ok(removed)
    })
}
