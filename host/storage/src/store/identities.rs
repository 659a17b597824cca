//! Handles and PDSs of accounts, as they were looked up.
//!
//! Identity events and look-ups happen on different hosts at the same time. Each row has the time of its DID document, or of
//! the event that cleared it, and the later one wins: a host with an old document in memory can't bring back the old handle.

use std::collections::HashMap;

use sqlx::AssertSqlSafe;

use super::types::to_json_text;
use super::{Db, StoreError};
use belvedere_base::clock::Timestamp;
use belvedere_protocol::atproto::Did;

/// An account.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account {
    pub is_hidden: bool,
    /// Verified both ways when it was looked up.
    pub handle: Option<String>,
    pub pds: Option<String>,
    /// The time at which the DID document was fetched; `None` when it never was.
    pub known_at: Option<Timestamp>,
}

/// The result of a look-up.
#[derive(Clone, Debug)]
pub struct Learned {
    pub did: Did,
    /// Verified both ways.
    pub handle: Option<String>,
    pub pds: Option<String>,
    /// The time at which the DID document was fetched.
    pub known_at: Timestamp,
}

/// The accounts among `dids` of which a record is or was indexed.
pub async fn accounts(db: &Db, dids: &[Did]) -> Result<HashMap<String, Account>, StoreError> {
    type Row = (String, i16, Option<String>, Option<String>, Option<Timestamp>);
    let names: Vec<&str> = dids.iter().map(Did::as_str).collect();
    let rows: Vec<Row> = match db {
        Db::Sqlite(db) => {
            let sql = "SELECT d.did, d.status, i.handle, i.pds, i.known_at FROM json_each($1) v CROSS JOIN dids d \
                       LEFT JOIN account_identities i ON i.did_id = d.id WHERE d.did = v.value";
            sqlx::query_as(sql).bind(to_json_text(&names)).fetch_all(db.read_pool.reads()).await?
        }
        Db::Postgres(db) => {
            let sql = "SELECT d.did, d.status, i.handle, i.pds, i.known_at FROM dids d \
                       LEFT JOIN account_identities i ON i.did_id = d.id WHERE d.did = ANY($1)";
            sqlx::query_as(sql).bind(names).fetch_all(db.read_pools.hot.reads()).await?
        }
    };
    let account = |(did, status, handle, pds, known_at): Row| {
        (did, Account { is_hidden: status != 0, handle, pds, known_at })
    };
    Ok(rows.into_iter().map(account).collect())
}

/// Stores results of look-ups of accounts of which a record is or was indexed, unless something later is known. A handle
/// belongs to one account: another one that had it loses it.
pub async fn learn(db: &Db, learned: &[Learned]) -> Result<(), StoreError> {
    if learned.is_empty() {
        return Ok(());
    }
    match db {
        Db::Sqlite(db) => {
            let rows: Vec<_> =
                learned.iter().map(|l| (l.did.as_str(), &l.handle, &l.pds, l.known_at.0)).collect();
            let rows = to_json_text(&rows);
            let take = "UPDATE account_identities SET handle = NULL WHERE did_id IN \
                        (SELECT i.did_id FROM json_each($1) v CROSS JOIN account_identities i \
                             CROSS JOIN dids d ON d.id = i.did_id \
                         WHERE i.handle = v.value ->> 1 AND d.did <> v.value ->> 0 AND i.known_at < v.value ->> 3)";
            let store = "INSERT INTO account_identities (did_id, handle, pds, known_at) \
                         SELECT d.id, v.value ->> 1, v.value ->> 2, v.value ->> 3 FROM json_each($1) v CROSS JOIN dids d \
                         WHERE d.did = v.value ->> 0 AND coalesce(d.network_status, d.status) <> 4 \
                         ON CONFLICT (did_id) DO UPDATE SET handle = excluded.handle, pds = excluded.pds, \
                             known_at = excluded.known_at WHERE account_identities.known_at < excluded.known_at";
            let mut tx = db.writer.begin().await?;
            for sql in [take, store] {
                sqlx::query(sql).bind(&rows).execute(&mut *tx).await?;
            }
            tx.commit().await?;
        }
        Db::Postgres(db) => {
            // All hosts lock rows in this order, so that two of them can't deadlock.
            let mut learned: Vec<&Learned> = learned.iter().collect();
            learned.sort_unstable_by(|a, b| a.did.cmp(&b.did));
            let dids: Vec<&str> = learned.iter().map(|l| l.did.as_str()).collect();
            let handles: Vec<Option<&str>> = learned.iter().map(|l| l.handle.as_deref()).collect();
            let pdss: Vec<Option<&str>> = learned.iter().map(|l| l.pds.as_deref()).collect();
            let times: Vec<i64> = learned.iter().map(|l| l.known_at.0).collect();
            let lock = "SELECT 1 FROM account_identities i JOIN dids d ON d.id = i.did_id WHERE i.did_id IN \
                            (SELECT did_id FROM account_identities WHERE handle IS NOT NULL AND handle = ANY($1) \
                             UNION SELECT id FROM dids WHERE did = ANY($2)) \
                        ORDER BY d.did FOR UPDATE OF i";
            let take = "UPDATE account_identities i SET handle = NULL \
                        FROM unnest($1::text[], $2::text[], $3::bigint[]) AS v (did, handle, known_at), dids d \
                        WHERE i.handle = v.handle AND d.id = i.did_id AND d.did <> v.did AND i.known_at < v.known_at";
            let store = "INSERT INTO account_identities (did_id, handle, pds, known_at) \
                         SELECT d.id, v.handle, v.pds, v.known_at \
                         FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[]) AS v (did, handle, pds, known_at) \
                             JOIN dids d ON d.did = v.did AND coalesce(d.network_status, d.status) <> 4 ORDER BY d.did \
                         ON CONFLICT (did_id) DO UPDATE SET handle = excluded.handle, pds = excluded.pds, \
                             known_at = excluded.known_at WHERE account_identities.known_at < excluded.known_at";
            let mut tx = db.writer().begin().await?;
            sqlx::query(lock).bind(&handles).bind(&dids).execute(&mut *tx).await?;
            sqlx::query(take).bind(&dids).bind(&handles).bind(&times).execute(&mut *tx).await?;
            let query = sqlx::query(store).bind(&dids).bind(&handles).bind(&pdss).bind(&times);
            query.execute(&mut *tx).await?;
            tx.commit().await?;
        }
    }
    Ok(())
}

/// Clears what is known of these accounts, whose identity changed before `now`. Returns those that had a handle.
pub async fn forget(db: &Db, dids: &[Did], now: Timestamp) -> Result<Vec<Did>, StoreError> {
    let known = accounts(db, dids).await?;
    let has_handle = |did: &&Did| known.get(did.as_str()).is_some_and(|account| account.handle.is_some());
    // Most events are of accounts of which nothing is indexed. All hosts write in this order, so that two of them can't
    // deadlock.
    let mut names: Vec<&str> = known.keys().map(String::as_str).collect();
    names.sort_unstable();
    if names.is_empty() {
        return Ok(Vec::new());
    }
    // A row without a handle keeps hosts that have an older document from storing that.
    let conflict = "ON CONFLICT (did_id) DO UPDATE SET handle = NULL, pds = NULL, known_at = excluded.known_at \
                    WHERE account_identities.known_at < excluded.known_at";
    match db {
        Db::Sqlite(db) => {
            let sql = format!(
                "INSERT INTO account_identities (did_id, known_at) SELECT d.id, $2 FROM json_each($1) v CROSS JOIN dids d \
                 WHERE d.did = v.value AND coalesce(d.network_status, d.status) <> 4 {conflict}"
            );
            let query = sqlx::query(AssertSqlSafe(sql)).bind(to_json_text(&names)).bind(now);
            query.execute(&db.writer).await?;
        }
        Db::Postgres(db) => {
            let sql = format!(
                "INSERT INTO account_identities (did_id, known_at) SELECT id, $2 FROM dids WHERE did = ANY($1) \
                     AND coalesce(network_status, status) <> 4 \
                 ORDER BY did {conflict}"
            );
            sqlx::query(AssertSqlSafe(sql)).bind(names).bind(now).execute(db.writer()).await?;
        }
    }
    Ok(dids.iter().filter(has_handle).cloned().collect())
}
