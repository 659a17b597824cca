//! Counts on PostgreSQL, where several hosts write at the same time.
//!
//! A number of records is the sum of 64 rows: a connection has the one of its process id, so that transactions seldom wait for each
//! other's.
//!
//! A transaction that inserts a record and one that hides its account do not see each other's rows. Therefore the first shares a lock,
//! and the second has it alone, both until they end; so does the one that begins to count a target. Statements after the lock see
//! what the others have committed.

use sqlx::PgConnection;

use super::{AccountFlip, Changes, Counting};

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

const COUNT_LINKS: &str = "INSERT INTO link_counts AS c (target, collection_id, path, links, hidden) \
     SELECT v.target, v.collection_id, v.path, sum(v.n), \
         coalesce(sum(v.n * (SELECT 1 FROM dids d WHERE d.id = v.did_id AND d.status <> 0)), 0) \
     FROM UNNEST ($1::text[], $2::bigint[], $3::text[], $4::bigint[], $5::bigint[]) \
         AS v (target, collection_id, path, did_id, n) \
     GROUP BY v.target, v.collection_id, v.path \
     ORDER BY v.target COLLATE \"C\", v.collection_id, v.path COLLATE \"C\" \
     ON CONFLICT (target, collection_id, path) DO UPDATE SET links = c.links + excluded.links, \
         hidden = c.hidden + excluded.hidden";

/// A place without links needs no row. The target's own row stays, because it says that the target is counted.
const DROP_EMPTY_LINKS: &str = "DELETE FROM link_counts c \
     USING (SELECT * FROM UNNEST ($1::text[], $2::bigint[]) AS v (target, collection_id)) v \
     WHERE c.target = v.target AND c.collection_id = v.collection_id AND c.path <> '' AND c.links = 0";

const COUNT_RECORDS_OF_ACCOUNTS: &str = "INSERT INTO record_counts AS c (collection_id, slot, records, hidden) \
     SELECT k.collection_id, pg_backend_pid() % 64, 0, sum(a.sign * n.records) \
     FROM (SELECT DISTINCT collection_id FROM record_counts) k \
         CROSS JOIN UNNEST ($1::bigint[], $2::bigint[]) AS a (id, sign) \
         CROSS JOIN LATERAL \
             (SELECT count(*) AS records FROM records r WHERE r.collection_id = k.collection_id AND r.did_id = a.id) n \
     WHERE n.records > 0 GROUP BY k.collection_id ORDER BY k.collection_id \
     ON CONFLICT (collection_id, slot) DO UPDATE SET hidden = c.hidden + excluded.hidden";

const COUNT_LINKS_OF_ACCOUNTS: &str = "UPDATE link_counts c SET hidden = c.hidden + v.n \
     FROM (SELECT f.target, f.collection_id, p.path, sum(a.sign) AS n \
         FROM UNNEST ($1::bigint[], $2::bigint[]) AS a (id, sign) CROSS JOIN collections k \
         CROSS JOIN LATERAL (SELECT r.id FROM records r WHERE r.collection_id = k.id AND r.did_id = a.id) r \
         CROSS JOIN LATERAL \
             (SELECT * FROM record_refs f WHERE f.collection_id = k.id AND f.record_id = r.id AND f.did_id = a.id) f \
         JOIN link_counts t ON t.target = f.target AND t.collection_id = f.collection_id AND t.path = '' \
         CROSS JOIN LATERAL unnest(array_append(string_to_array(nullif(f.paths, ''), ' '), '')) AS p (path) \
         GROUP BY f.target, f.collection_id, p.path) v \
     WHERE c.target = v.target AND c.collection_id = v.collection_id AND c.path = v.path";

impl Counting for PgConnection {
    async fn announce_counting(&mut self) -> Result<(), sqlx::Error> {
        sqlx::query(ANNOUNCE).execute(self).await.map(drop)
    }

    async fn begin_counting(&mut self) -> Result<(), sqlx::Error> {
        sqlx::query(BEGIN).execute(self).await.map(drop)
    }

    async fn count_accounts(&mut self, flips: &[AccountFlip]) -> Result<(), sqlx::Error> {
        if flips.is_empty() {
            return Ok(());
        }
        sqlx::query(LOCK).execute(&mut *self).await?;
        let (ids, signs): (Vec<i64>, Vec<i64>) = flips.iter().map(|flip| (flip.id, flip.sign())).unzip();
        for sql in [COUNT_RECORDS_OF_ACCOUNTS, COUNT_LINKS_OF_ACCOUNTS] {
            sqlx::query(sql).bind(&ids).bind(&signs).execute(&mut *self).await?;
        }
        Ok(())
    }

    async fn count(&mut self, changes: Changes) -> Result<(), sqlx::Error> {
        let changes = changes.without_zeros();
        let Changes { records, links } = &changes;
        if !records.is_empty() {
            let (collections, dids): (Vec<i64>, Vec<i64>) = records.keys().copied().unzip();
            let numbers: Vec<i64> = records.values().copied().collect();
            let query = sqlx::query(COUNT_RECORDS).bind(collections).bind(dids).bind(numbers);
            query.execute(&mut *self).await?;
        }
        if links.is_empty() {
            return Ok(());
        }
        let column = |of: fn(&super::LinkKey) -> &str| links.keys().map(of).collect::<Vec<_>>();
        sqlx::query(COUNT_LINKS)
            .bind(column(|(target, ..)| target))
            .bind(links.keys().map(|(_, collection_id, ..)| *collection_id).collect::<Vec<_>>())
            .bind(column(|(_, _, path, _)| path))
            .bind(links.keys().map(|(.., did_id)| *did_id).collect::<Vec<_>>())
            .bind(links.values().copied().collect::<Vec<_>>())
            .execute(&mut *self)
            .await?;
        if links.values().any(|number| *number < 0) {
            let (targets, collections): (Vec<&str>, Vec<i64>) =
                links.keys().map(|(target, collection_id, ..)| (target.as_str(), *collection_id)).unzip();
            sqlx::query(DROP_EMPTY_LINKS).bind(targets).bind(collections).execute(self).await?;
        }
        Ok(())
    }
}
