//! Counts on PostgreSQL, where several hosts write at the same time.
//!
//! A number of records is the sum of 64 rows: a connection has the one of its process id, so that transactions seldom wait for each
//! other's.
//!
//! A transaction that inserts a record and one that hides its account do not see each other's rows. Therefore the first shares a lock,
//! and the second has it alone, both until they end; so does the one that begins to count a target. Statements after the lock see
//! what the others have committed.

use std::collections::BTreeMap;

use sqlx::PgConnection;

use super::{AccountFlip, Changes, Counting, LinkKey};
use crate::store::change_notes;
use crate::store::partitions::{Partition, PerPartition, Tables};

/// The setting that the triggers of migration 0085 look at.
const ANNOUNCE: &str = "SELECT set_config('belvedere.counts', 'writer', TRUE)";
/// The same for a whole session, which ends with [`super::RECOUNT`].
pub(in crate::store) const ANNOUNCE_SESSION: &str = "SET belvedere.counts = 'writer'";
const BEGIN: &str = "SELECT set_config('belvedere.counts', 'writer', TRUE), \
     pg_advisory_xact_lock_shared(x'7265636f726473'::bigint)";
/// The lock, alone. It has been that of the triggers since migration 0049.
pub(in crate::store) const LOCK: &str = "SELECT pg_advisory_xact_lock(x'7265636f726473'::bigint)";

/// The subselects look each account up by its id; a join might read all that are hidden.
const COUNT_RECORDS: &str = "INSERT INTO record_counts AS c (collection_id, slot, records, hidden) \
     SELECT v.collection_id, pg_backend_pid() % 64, sum(v.n), \
         coalesce(sum(v.n * (SELECT 1 FROM dids d WHERE d.id = v.did_id AND d.status <> 0)), 0) \
     FROM UNNEST ($1::bigint[], $2::bigint[], $3::bigint[]) AS v (collection_id, did_id, n) \
     GROUP BY v.collection_id ORDER BY v.collection_id \
     ON CONFLICT (collection_id, slot) DO UPDATE SET records = c.records + excluded.records, \
         hidden = c.hidden + excluded.hidden";

/// Adds numbers of links, and forgets places without links, which need no row. The target's own row stays, because it says that the
/// target is counted.
static COUNT_LINKS: PerPartition<[String; 2]> = PerPartition::new(|Tables { link_counts, .. }| {
    [
        format!(
            "INSERT INTO {link_counts} AS c (target, collection_id, path, links, hidden) \
     SELECT v.target, v.collection_id, v.path, sum(v.n), coalesce(sum(CASE WHEN d.id IS NOT NULL THEN v.n END), 0) \
     FROM UNNEST ($1::text[], $2::bigint[], $3::text[], $4::bigint[], $5::bigint[]) \
             AS v (target, collection_id, path, did_id, n) \
         LEFT JOIN LATERAL (SELECT id FROM dids WHERE dids.id = v.did_id AND status <> 0 LIMIT 1) d ON TRUE \
     GROUP BY v.target, v.collection_id, v.path \
     ORDER BY v.target COLLATE \"C\", v.collection_id, v.path COLLATE \"C\" \
     ON CONFLICT (target, collection_id, path) DO UPDATE SET links = c.links + excluded.links, \
         hidden = c.hidden + excluded.hidden"
        ),
        format!(
            "DELETE FROM {link_counts} c \
     USING (SELECT * FROM UNNEST ($1::text[], $2::bigint[]) AS v (target, collection_id)) v \
     WHERE c.target = v.target AND c.collection_id = v.collection_id AND c.path <> '' AND c.links = 0"
        ),
    ]
});

/// The numbers of records of some accounts in each collection.
static RECORDS_OF_ACCOUNTS: PerPartition<String> = PerPartition::new(|Tables { records, .. }| {
    format!(
        "SELECT k.id, a.id, n.records FROM UNNEST ($1::bigint[]) AS a (id) CROSS JOIN collections k CROSS JOIN LATERAL \
             (SELECT count(*) AS records FROM {records} r WHERE r.collection_id = k.id AND r.did_id = a.id) n \
         WHERE n.records > 0"
    )
});

const HIDE_RECORDS: &str = "INSERT INTO record_counts AS c (collection_id, slot, records, hidden) \
     SELECT v.collection_id, pg_backend_pid() % 64, 0, v.n FROM UNNEST ($1::bigint[], $2::bigint[]) AS v (collection_id, n) \
     ORDER BY v.collection_id ON CONFLICT (collection_id, slot) DO UPDATE SET hidden = c.hidden + excluded.hidden";

static COUNT_LINKS_OF_ACCOUNTS: PerPartition<String> = PerPartition::new(|tables| {
    let Tables { records, record_refs, link_counts, .. } = tables;
    format!(
        "UPDATE {link_counts} c SET hidden = c.hidden + v.n \
     FROM (SELECT f.target, f.collection_id, p.path, sum(a.sign) AS n \
         FROM UNNEST ($1::bigint[], $2::bigint[]) AS a (id, sign) CROSS JOIN collections k \
         CROSS JOIN LATERAL (SELECT r.id FROM {records} r WHERE r.collection_id = k.id AND r.did_id = a.id) r \
         CROSS JOIN LATERAL \
             (SELECT * FROM {record_refs} f WHERE f.collection_id = k.id AND f.record_id = r.id AND f.did_id = a.id) f \
         JOIN {link_counts} t ON t.target = f.target AND t.collection_id = f.collection_id AND t.path = '' \
         CROSS JOIN LATERAL unnest(array_append(string_to_array(nullif(f.paths, ''), ' '), '')) AS p (path) \
         GROUP BY f.target, f.collection_id, p.path) v \
     WHERE c.target = v.target AND c.collection_id = v.collection_id AND c.path = v.path"
    )
});

impl Counting for PgConnection {
    async fn announce_counting(&mut self) -> Result<(), sqlx::Error> {
        sqlx::query(ANNOUNCE).execute(self).await.map(drop)
    }

    async fn begin_counting(&mut self) -> Result<(), sqlx::Error> {
        sqlx::query(BEGIN).execute(self).await.map(drop)
    }

    async fn count_accounts(
        &mut self,
        flips: &[AccountFlip],
        parts: &[Partition],
    ) -> Result<(), sqlx::Error> {
        if flips.is_empty() {
            return Ok(());
        }
        sqlx::query(LOCK).execute(&mut *self).await?;
        let signs: BTreeMap<i64, i64> = flips.iter().map(|flip| (flip.id, flip.sign())).collect();
        let (ids, by_id): (Vec<i64>, Vec<i64>) = signs.iter().unzip();
        let mut hidden: BTreeMap<i64, i64> = BTreeMap::new();
        for part in parts {
            let query = sqlx::query_as(*RECORDS_OF_ACCOUNTS.of(*part)).bind(&ids);
            let found: Vec<(i64, i64, i64)> = query.fetch_all(&mut *self).await?;
            for (collection, account, records) in found {
                let sign = signs.get(&account).copied().unwrap_or_default();
                *hidden.entry(collection).or_default() += sign * records;
            }
            let query = sqlx::query(*COUNT_LINKS_OF_ACCOUNTS.of(*part)).bind(&ids).bind(&by_id);
            query.execute(&mut *self).await?;
        }
        let (collections, numbers): (Vec<i64>, Vec<i64>) = hidden.into_iter().unzip();
        sqlx::query(HIDE_RECORDS).bind(collections).bind(numbers).execute(self).await.map(drop)
    }

    async fn count(&mut self, changes: Changes) -> Result<(), sqlx::Error> {
        let changes = changes.without_zeros();
        let Changes { records, links, notes } = &changes;
        if !records.is_empty() {
            let (collections, dids): (Vec<i64>, Vec<i64>) = records.keys().copied().unzip();
            let numbers: Vec<i64> = records.values().copied().collect();
            let query = sqlx::query(COUNT_RECORDS).bind(collections).bind(dids).bind(numbers);
            query.execute(&mut *self).await?;
        }
        let links: Vec<(&LinkKey, i64)> = links.iter().map(|(key, number)| (key, *number)).collect();
        for links in links.chunk_by(|((a, ..), _), ((b, ..), _)| a == b) {
            count_links(self, links).await?;
        }
        change_notes::store(self, notes).await
    }
}

/// Adds numbers of links of one part.
async fn count_links(conn: &mut PgConnection, links: &[(&LinkKey, i64)]) -> Result<(), sqlx::Error> {
    let Some(((part, ..), _)) = links.first() else { return Ok(()) };
    let [count, drop_empty] = COUNT_LINKS.of(*part);
    let targets: Vec<&str> = links.iter().map(|((_, target, ..), _)| target.as_str()).collect();
    let collections: Vec<i64> = links.iter().map(|((_, _, collection_id, ..), _)| *collection_id).collect();
    sqlx::query(*count)
        .bind(&targets)
        .bind(&collections)
        .bind(links.iter().map(|((.., path, _), _)| path.as_str()).collect::<Vec<_>>())
        .bind(links.iter().map(|((.., did_id), _)| *did_id).collect::<Vec<_>>())
        .bind(links.iter().map(|(_, number)| *number).collect::<Vec<_>>())
        .execute(&mut *conn)
        .await?;
    if links.iter().any(|(_, number)| *number < 0) {
        sqlx::query(*drop_empty).bind(targets).bind(collections).execute(conn).await?;
    }
    Ok(())
}
