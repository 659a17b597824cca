//! Counts on SQLite, where one connection writes.

use sqlx::SqliteConnection;

use super::{AccountFlip, Changes, Counting};
use crate::store::partitions::Partition;
use crate::store::types::to_json_text;

/// The row that the triggers of migration 0085 look at. It is in the table of the numbers, whose page each of these transactions writes
/// anyway, and is 1 only within a transaction.
pub(in crate::store) const ANNOUNCE: &str = "INSERT INTO record_counts (collection_id, slot, records, hidden) VALUES (0, -1, 1, 0) \
     ON CONFLICT (collection_id, slot) DO UPDATE SET records = 1";

/// Takes the announcement back.
const END: (i64, i64, i64, i64) = (0, -1, 0, -1);

/// Collection, slot, account and number of each.
const COUNT_RECORDS: &str = "INSERT INTO record_counts (collection_id, slot, records, hidden) \
     SELECT value ->> 0, value ->> 1, sum(value ->> 3), \
         sum((value ->> 3) * EXISTS (SELECT 1 FROM dids WHERE id = value ->> 2 AND status <> 0)) \
     FROM json_each($1) WHERE true GROUP BY 1, 2 \
     ON CONFLICT (collection_id, slot) DO UPDATE SET records = records + excluded.records, \
         hidden = hidden + excluded.hidden";

/// Target, collection, path, account and number of each.
const COUNT_LINKS: &str = "INSERT INTO link_counts (target, collection_id, path, links, hidden) \
     SELECT value ->> 0, value ->> 1, value ->> 2, sum(value ->> 4), \
         sum((value ->> 4) * EXISTS (SELECT 1 FROM dids WHERE id = value ->> 3 AND status <> 0)) \
     FROM json_each($1) WHERE true GROUP BY 1, 2, 3 \
     ON CONFLICT (target, collection_id, path) DO UPDATE SET links = links + excluded.links, \
         hidden = hidden + excluded.hidden";

/// A place without links needs no row. The target's own row stays, because it says that the target is counted.
const DROP_EMPTY_LINKS: &str = "DELETE FROM link_counts WHERE links = 0 AND path <> '' \
     AND (target, collection_id) IN (SELECT value ->> 0, value ->> 1 FROM json_each($1))";

const COUNT_RECORDS_OF_ACCOUNTS: &str = "UPDATE record_counts SET hidden = hidden + v.n \
     FROM (SELECT k.collection_id, sum((a.value ->> 1) * \
             (SELECT count(*) FROM records r WHERE r.collection_id = k.collection_id AND r.did_id = a.value ->> 0)) AS n \
         FROM json_each($1) a CROSS JOIN record_counts k WHERE k.slot = 0 GROUP BY k.collection_id) v \
     WHERE record_counts.collection_id = v.collection_id AND record_counts.slot = 0 AND v.n <> 0";

const COUNT_LINKS_OF_ACCOUNTS: &str = "UPDATE link_counts SET hidden = hidden + v.n \
     FROM (SELECT f.target, f.collection_id, p.value AS path, sum(a.value ->> 1) AS n \
         FROM json_each($1) a CROSS JOIN collections k CROSS JOIN records r CROSS JOIN record_refs f CROSS JOIN link_counts c \
             CROSS JOIN \
             json_each('[\"\"' || iif(f.paths <> '', ',\"' || replace(f.paths, ' ', '\",\"') || '\"', '') || ']') p \
         WHERE r.collection_id = k.id AND r.did_id = a.value ->> 0 AND f.record_id = r.id AND f.did_id = r.did_id \
             AND c.target = f.target AND c.collection_id = f.collection_id AND c.path = '' \
         GROUP BY 1, 2, 3) v \
     WHERE link_counts.target = v.target AND link_counts.collection_id = v.collection_id AND link_counts.path = v.path";

impl Counting for SqliteConnection {
    async fn announce_counting(&mut self) -> Result<(), sqlx::Error> {
        sqlx::query(ANNOUNCE).execute(self).await.map(drop)
    }

    async fn begin_counting(&mut self) -> Result<(), sqlx::Error> {
        self.announce_counting().await
    }

    async fn count_accounts(
        &mut self,
        flips: &[AccountFlip],
        _parts: &[Partition],
    ) -> Result<(), sqlx::Error> {
        if flips.is_empty() {
            return Ok(());
        }
        let flips: Vec<_> = flips.iter().map(|flip| (flip.id, flip.sign())).collect();
        let flips = to_json_text(&flips);
        for sql in [COUNT_RECORDS_OF_ACCOUNTS, COUNT_LINKS_OF_ACCOUNTS] {
            sqlx::query(sql).bind(&flips).execute(&mut *self).await?;
        }
        Ok(())
    }

    async fn count(&mut self, changes: Changes) -> Result<(), sqlx::Error> {
        let changes = changes.without_zeros();
        let Changes { records, links, .. } = &changes;
        let records =
            records.iter().map(|((collection_id, did_id), number)| (*collection_id, 0, *did_id, *number));
        let records: Vec<(i64, i64, i64, i64)> = records.chain([END]).collect();
        sqlx::query(COUNT_RECORDS).bind(to_json_text(&records)).execute(&mut *self).await?;
        if links.is_empty() {
            return Ok(());
        }
        let rows = links.iter().map(|((_, target, collection_id, path, did_id), number)| {
            (target, collection_id, path, did_id, number)
        });
        let rows = to_json_text(&rows.collect::<Vec<_>>());
        sqlx::query(COUNT_LINKS).bind(&rows).execute(&mut *self).await?;
        if links.values().any(|number| *number < 0) {
            sqlx::query(DROP_EMPTY_LINKS).bind(&rows).execute(self).await?;
        }
        Ok(())
    }
}
