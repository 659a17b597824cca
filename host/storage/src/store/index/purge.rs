//! Deletes what the index has of deleted accounts, and tombstones that are no longer needed.
//!
//! Gone with an account are its records with their references and search rows, the tombstones of records, the labels on
//! its records and on addresses in its spaces, its dead letters, and its handle. Labels on the account itself stay: they are the
//! labeler's, and apply again if the account returns.

use std::collections::HashMap;

use sqlx::{AssertSqlSafe, PgConnection, SqliteConnection};

use super::AccountStatus;
use super::remove::{self, FoundRow, RemovedRow, report_postgres};
use super::take_out::without_text;
use crate::store::counts::{Changes, Counting as _};
use crate::store::intern::{self, Collection, Interner};
use crate::store::partitions::{PerPartition, Tables, partition_number};
use crate::store::types::to_json_text;
use crate::store::{Db, StoreError, on};
use belvedere_base::clock::Timestamp;

/// Writes the tombstones of repos, deletes what is older, and forgets that the repos were to be read again. `pairs` is a JSON list of `[did, rev]`. A repo that has
/// the tombstone already is left alone: the event was delivered before. Returns the number of deleted records.
pub(super) async fn sqlite(
    conn: &mut SqliteConnection,
    pairs: &str,
    now: Timestamp,
    changes: &mut Changes,
) -> Result<u64, StoreError> {
    let forget = "DELETE FROM repo_repairs WHERE did_id IN \
                  (SELECT d.id FROM json_each($1) AS v CROSS JOIN dids d WHERE d.did = v.value ->> 0)";
    let identity = "DELETE FROM account_identities WHERE did_id IN \
                    (SELECT d.id FROM json_each($1) AS v CROSS JOIN dids d WHERE d.did = v.value ->> 0)";
    for sql in [forget, identity] {
        sqlx::query(sql).bind(pairs).execute(&mut *conn).await?;
    }
    let mark = "INSERT INTO repo_tombstones (did_id, rev, deleted_at) \
                SELECT d.id, v.value ->> 1, $2 FROM json_each($1) AS v CROSS JOIN dids d WHERE d.did = v.value ->> 0 \
                ON CONFLICT (did_id) DO UPDATE SET rev = excluded.rev, deleted_at = excluded.deleted_at \
                    WHERE repo_tombstones.rev < excluded.rev RETURNING did_id";
    let marked: Vec<i64> = sqlx::query_scalar(mark).bind(pairs).bind(now).fetch_all(&mut *conn).await?;
    if marked.is_empty() {
        return Ok(0);
    }
    let marked = to_json_text(&marked);
    // Finds all records of these accounts through the unique index, whose first column is the collection.
    let rows = "SELECT r.id, r.collection_id, r.did_id FROM json_each($1) AS v \
                    CROSS JOIN repo_tombstones t ON t.did_id = v.value CROSS JOIN collections c \
                    CROSS JOIN records r ON r.collection_id = c.id AND r.did_id = t.did_id AND r.rev <= t.rev LIMIT $2";
    let tombstones = "DELETE FROM tombstones WHERE (collection_id, did_id, rkey) IN \
                    (SELECT o.collection_id, o.did_id, o.rkey FROM json_each($1) AS v \
                    CROSS JOIN repo_tombstones t ON t.did_id = v.value CROSS JOIN collections c \
                    CROSS JOIN tombstones o ON o.collection_id = c.id AND o.did_id = t.did_id AND o.rev <= t.rev)";
    // The character after the slash ends the range of the account's URIs.
    let labels = "DELETE FROM labels WHERE (uri, src, val) IN (SELECT l.uri, l.src, l.val FROM json_each($1) AS v \
                    CROSS JOIN dids d ON d.id = v.value \
                    CROSS JOIN labels l ON l.uri > 'at://' || d.did || '/' AND l.uri < 'at://' || d.did || '0')";
    let letters = "DELETE FROM dead_letters WHERE did IN \
                    (SELECT d.did FROM json_each($1) AS v CROSS JOIN dids d ON d.id = v.value)";
    let moderated = concat!(
        "UPDATE hidden_records SET ",
        without_text!(),
        ", rev = t.rev FROM repo_tombstones t WHERE hidden_records.did_id IN (SELECT value FROM json_each($1)) \
             AND t.did_id = hidden_records.did_id AND hidden_records.rev <= t.rev"
    );
    for sql in [tombstones, labels, letters, moderated] {
        sqlx::query(sql).bind(&marked).execute(&mut *conn).await?;
    }
    let mut purged = 0;
    loop {
        let query = sqlx::query_as(rows).bind(&marked).bind(ROWS_AT_ONCE);
        let found: Vec<FoundRow> = query.fetch_all(&mut *conn).await?;
        if found.is_empty() {
            return Ok(purged);
        }
        purged += remove::sqlite(conn, &found, changes).await?;
    }
}

/// Like [`sqlite`].
pub(super) async fn postgres(
    conn: &mut PgConnection,
    interner: &Interner,
    dids: &[&str],
    revs: &[i64],
    now: Timestamp,
    changes: &mut Changes,
) -> Result<u64, StoreError> {
    let forget = "DELETE FROM repo_repairs WHERE did_id IN (SELECT id FROM dids WHERE did = ANY($1))";
    let identity = "DELETE FROM account_identities WHERE did_id IN (SELECT id FROM dids WHERE did = ANY($1))";
    for sql in [forget, identity] {
        sqlx::query(sql).bind(dids).execute(&mut *conn).await?;
    }
    let mark = "INSERT INTO repo_tombstones (did_id, rev, deleted_at) \
                SELECT d.id, v.rev, $3 FROM UNNEST ($1::text[], $2::bigint[]) AS v (did, rev) \
                JOIN dids d ON d.did = v.did \
                ON CONFLICT (did_id) DO UPDATE SET rev = excluded.rev, deleted_at = excluded.deleted_at \
                    WHERE repo_tombstones.rev < excluded.rev RETURNING did_id";
    let query = sqlx::query_scalar(mark).bind(dids).bind(revs).bind(now);
    let marked: Vec<i64> = query.fetch_all(&mut *conn).await?;
    if marked.is_empty() {
        return Ok(0);
    }
    // The character after the slash ends the range of the account's URIs.
    let labels = "DELETE FROM labels l USING dids d WHERE d.id = ANY($1) \
                  AND l.uri > 'at://' || d.did || '/' AND l.uri < 'at://' || d.did || '0'";
    let letters =
        "DELETE FROM dead_letters l USING dids d WHERE d.id = ANY($1) AND l.did = d.did COLLATE \"default\"";
    let moderated = concat!(
        "UPDATE hidden_records h SET ",
        without_text!(),
        ", rev = t.rev FROM repo_tombstones t WHERE h.did_id = ANY($1) AND t.did_id = h.did_id AND h.rev <= t.rev"
    );
    for sql in [labels, letters, moderated] {
        sqlx::query(sql).bind(&marked).execute(&mut *conn).await?;
    }
    for part in interner.parts().iter().copied() {
        sqlx::query(*TOMBSTONES.of(part)).bind(&marked).execute(&mut *conn).await?;
    }
    let collections: Vec<(i32, i64)> = sqlx::query_as(COLLECTIONS).fetch_all(&mut *conn).await?;
    let mut purged = 0;
    for part in collections.chunk_by(|(a, _), (b, _)| a == b) {
        let (number, id) = part[0];
        let partition = interner.collection(id, Some(number))?.partition;
        let ids: Vec<i64> = part.iter().map(|(_, id)| *id).collect();
        let query = sqlx::query_as(*RECORDS.of(partition)).bind(&marked).bind(ids);
        let removed: Vec<RemovedRow> = query.fetch_all(&mut *conn).await?;
        purged += remove::note(partition, removed, changes);
    }
    Ok(purged)
}

/// The collections of each partition.
const COLLECTIONS: &str = concat!(
    "SELECT ",
    partition_number!("c.id"),
    " AS partition, c.id FROM collections c ORDER BY partition, c.id"
);

/// Deletes the records of accounts in collections of one partition, up to the rev of their tombstone. Finds them through
/// the unique index, whose first column is the collection.
pub(in crate::store) static RECORDS: PerPartition<String> = PerPartition::new(|tables| {
    let of_accounts = "USING collections c, repo_tombstones t WHERE t.did_id = ANY($1) AND c.id = ANY($2) \
             AND r.collection_id = c.id AND r.did_id = t.did_id AND r.rev <= t.rev";
    format!("WITH {} {}", remove::postgres(tables, of_accounts), report_postgres(tables))
});

/// Deletes the tombstones of records of accounts, up to the rev of the account's.
static TOMBSTONES: PerPartition<String> = PerPartition::new(|Tables { tombstones, .. }| {
    format!(
        "DELETE FROM {tombstones} o USING collections c, repo_tombstones t WHERE t.did_id = ANY($1) \
         AND o.collection_id = c.id AND o.did_id = t.did_id AND o.rev <= t.rev"
    )
});

/// Records of deleted accounts that are in memory at a time.
const ROWS_AT_ONCE: i64 = 10_000;

/// Accounts whose leftovers are looked for at a time.
const ACCOUNTS_PER_STEP: i64 = 500;
/// Records that are deleted in one transaction.
const ROWS_PER_STEP: i64 = 1_000;

/// Deletes the records of accounts that have been deleted since before `before`, whatever their rev: those of a PDS
/// whose clock is ahead have later revs than the deletion. Looks at the accounts whose tombstone is still there, so it must
/// be called before [`prune_tombstones`] removes them. Returns how many.
pub async fn purge_leftovers(db: &Db, before: Timestamp) -> Result<u64, StoreError> {
    let find = "SELECT t.deleted_at, t.did_id FROM repo_tombstones t JOIN dids d ON d.id = t.did_id \
                WHERE coalesce(d.network_status, d.status) = $1 AND t.deleted_at < $2 AND (t.deleted_at, t.did_id) > ($3, $4) \
                ORDER BY t.deleted_at, t.did_id LIMIT $5";
    let (mut purged, mut after) = (0, (i64::MIN, 0));
    loop {
        let accounts: Vec<(i64, i64)> = on!(db, reader, |pool| {
            sqlx::query_as(find)
                .bind(AccountStatus::Deleted as i16)
                .bind(before)
                .bind(after.0)
                .bind(after.1)
                .bind(ACCOUNTS_PER_STEP)
                .fetch_all(pool)
                .await
        })?;
        let Some(last) = accounts.last() else { return Ok(purged) };
        after = *last;
        let ids: Vec<i64> = accounts.into_iter().map(|(_, id)| id).collect();
        purged += purge_all(db, &to_json_text(&ids)).await?;
    }
}

/// Deletes all records of accounts, given as a JSON list of their ids.
async fn purge_all(db: &Db, accounts: &str) -> Result<u64, StoreError> {
    macro_rules! find {
        ($ids:literal) => {
            concat!(
                "SELECT r.collection_id, r.id FROM ",
                $ids,
                " a CROSS JOIN (SELECT collection_id FROM record_counts GROUP BY collection_id HAVING sum(hidden) > 0) c \
                 CROSS JOIN records r WHERE r.collection_id = c.collection_id AND r.did_id = a.id LIMIT $2"
            )
        };
    }
    let find = match db {
        Db::Sqlite(_) => find!("(SELECT value AS id FROM json_each($1))"),
        Db::Postgres(_) => find!("(SELECT CAST(json_array_elements_text($1::json) AS BIGINT) AS id)"),
    };
    let moderated = match db {
        Db::Sqlite(_) => "(SELECT value FROM json_each($1))",
        Db::Postgres(_) => "(SELECT CAST(json_array_elements_text($1::json) AS BIGINT))",
    };
    let moderated = format!(
        concat!("UPDATE hidden_records SET ", without_text!(), " WHERE record IS NOT NULL AND did_id IN {}"),
        moderated
    );
    let moderated = on!(db, writer, |pool| {
        sqlx::query(AssertSqlSafe(moderated)).bind(accounts).execute(pool).await?.rows_affected()
    });
    let mut purged = moderated;
    loop {
        let found: Vec<(i64, i64)> = on!(db, reader, |pool| {
            sqlx::query_as(find).bind(accounts).bind(ROWS_PER_STEP).fetch_all(pool).await
        })?;
        let is_last = (found.len() as i64) < ROWS_PER_STEP;
        let mut by_collection: HashMap<i64, Vec<i64>> = HashMap::new();
        for (collection, id) in found {
            by_collection.entry(collection).or_default().push(id);
        }
        if !by_collection.is_empty() {
            for (_, collection) in intern::all_collections(db).await? {
                if let Some(ids) = by_collection.get(&collection.id) {
                    purged += delete_by_ids(db, collection, ids).await?;
                }
            }
        }
        if is_last {
            return Ok(purged);
        }
    }
}

/// Deletes those records of a collection with these ids that are still there.
async fn delete_by_ids(db: &Db, collection: Collection, ids: &[i64]) -> Result<u64, StoreError> {
    const FIND_SQLITE: &str = "SELECT r.id, r.collection_id, r.did_id FROM json_each($1) v CROSS JOIN records r \
        WHERE r.id = v.value AND r.collection_id = $2";
    static LOCK_POSTGRES: PerPartition<String> = PerPartition::new(|tables| {
        let records = &tables.records;
        format!("SELECT id FROM {records} WHERE collection_id = $2 AND id = ANY($1) ORDER BY id FOR UPDATE")
    });
    let mut changes = Changes::default();
    match db {
        Db::Sqlite(db) => {
            let mut tx = db.writer.begin_with("BEGIN IMMEDIATE").await?;
            tx.begin_counting().await?;
            let query = sqlx::query_as(FIND_SQLITE).bind(to_json_text(ids)).bind(collection.id);
            let found: Vec<FoundRow> = query.fetch_all(&mut *tx).await?;
            let purged = remove::sqlite(&mut tx, &found, &mut changes).await?;
            tx.count(changes).await?;
            tx.commit().await?;
            Ok(purged)
        }
        Db::Postgres(db) => {
            let mut tx = db.writer().begin().await?;
            tx.begin_counting().await?;
            let query =
                sqlx::query_scalar(*LOCK_POSTGRES.of(collection.partition)).bind(ids).bind(collection.id);
            let locked: Vec<i64> = query.fetch_all(&mut *tx).await?;
            let purged = remove::locked_postgres(&mut tx, collection, &locked, &mut changes).await?;
            tx.count(changes).await?;
            tx.commit().await?;
            Ok(purged)
        }
    }
}

/// Removes tombstones older than `before`, of records and of repos, at most `max` of each per call. Returns how many.
pub async fn prune_tombstones(db: &Db, before: Timestamp, max: u32) -> Result<u64, StoreError> {
    static RECORDS: PerPartition<String> = PerPartition::new(|Tables { tombstones, .. }| {
        format!(
            "DELETE FROM {tombstones} WHERE (collection_id, did_id, rkey) IN \
             (SELECT collection_id, did_id, rkey FROM {tombstones} WHERE deleted_at < $1 LIMIT $2)"
        )
    });
    let repos = "DELETE FROM repo_tombstones WHERE did_id IN \
                 (SELECT did_id FROM repo_tombstones WHERE deleted_at < $1 LIMIT $2)";
    let mut pruned = 0;
    let parts = db.ids().parts();
    let records = parts.iter().map(|part| *RECORDS.of(*part));
    for sql in std::iter::once(repos).chain(records) {
        pruned += on!(db, writer, |pool| {
            sqlx::query(sql).bind(before).bind(i64::from(max)).execute(pool).await?.rows_affected()
        });
    }
    Ok(pruned)
}
