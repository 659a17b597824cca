//! Keeps the rows of moderated records up to date: they are in the table `hidden_records`, so that no read has to leave them out
//! (ADR 127).

use std::collections::HashSet;

use sqlx::{PgConnection, SqliteConnection};

use super::future::{LAST_COMMIT, RevLimit};
use super::plan::{DeleteRow, Key, Plan, Row};
use super::{ApplyReport, StoreError, take_out};
use crate::store::counts::Changes;
use crate::store::cursors;
use crate::store::partitions::{Partition, PerPartition, Tables};
use crate::store::types::to_json_text;

/// Whether any record is moderated: if none is, a batch pays for nothing more.
const ANY: &str = "SELECT EXISTS (SELECT 1 FROM hidden_records)";

/// The keys among those of a batch that are of moderated records.
const FIND_SQLITE: &str = "SELECT h.collection_id, h.did_id, h.rkey FROM json_each($1) v CROSS JOIN hidden_records h \
     WHERE h.collection_id = v.value ->> 0 AND h.did_id = v.value ->> 1 AND h.rkey = v.value ->> 2";
const FIND_POSTGRES: &str = "SELECT h.collection_id, h.did_id, h.rkey FROM json_array_elements($1::json) v \
     JOIN hidden_records h ON h.collection_id = (v ->> 0)::bigint AND h.did_id = (v ->> 1)::bigint AND h.rkey = v ->> 2";

/// Stores the newer record, or that there is none. A rev of the future loses, as in [`super::future`].
const UPDATE: &str = "UPDATE hidden_records SET cid = $4, cid_verified = $5, rev = $6, \
         indexed_at = CASE WHEN record IS NULL THEN $7 ELSE indexed_at END, updated_at = $7, record = $8, \
         invalid_reason = $9 \
     WHERE collection_id = $1 AND did_id = $2 AND rkey = $3 AND (rev < $6 OR rev > $10)";

/// Whether a record of this rev was deleted later.
static IS_DELETED: PerPartition<String> = PerPartition::new(|Tables { tombstones, .. }| {
    format!(
        "SELECT EXISTS (SELECT 1 FROM {tombstones} t WHERE t.collection_id = $1 AND t.did_id = $2 AND t.rkey = $3 \
             AND t.rev >= $4) OR EXISTS (SELECT 1 FROM repo_tombstones t WHERE t.did_id = $2 AND t.rev >= $4)"
    )
});

/// A change of a moderated record.
enum Diverted<'a> {
    Row(Row<'a>),
    Delete(DeleteRow<'a>),
}

impl Diverted<'_> {
    fn partition(&self) -> Partition {
        match self {
            Self::Row(row) => row.partition,
            Self::Delete(row) => row.partition,
        }
    }

    fn key(&self) -> Key<'_> {
        match self {
            Self::Row(row) => row.key(),
            Self::Delete(row) => row.key(),
        }
    }
}

impl Plan<'_> {
    /// The keys of all rows and deletions, as a JSON list.
    fn keys(&self) -> String {
        let keys = self.rows.iter().map(Row::key).chain(self.deletes.iter().map(DeleteRow::key));
        to_json_text(&keys.collect::<Vec<_>>())
    }
}

/// Stores the changes of moderated records. Returns the rows that remain to be indexed; `None`: all of the plan. The plan's
/// deletions remain too, because they leave tombstones.
macro_rules! divert {
    ($name:ident, $connection:ty, $find:expr, $take_out:path) => {
        pub(super) async fn $name<'a>(
            conn: &mut $connection,
            plan: &Plan<'a>,
            changes: &mut Changes,
            applied: &mut ApplyReport,
        ) -> Result<Option<Vec<Row<'a>>>, StoreError> {
            if plan.rows.is_empty() && plan.deletes.is_empty() {
                return Ok(None);
            }
            let any: bool = sqlx::query_scalar(ANY).fetch_one(&mut *conn).await?;
            if !any {
                return Ok(None);
            }
            let query = sqlx::query_as($find).bind(plan.keys());
            let found: Vec<(i64, i64, String)> = query.fetch_all(&mut *conn).await?;
            if found.is_empty() {
                return Ok(None);
            }
            let query = sqlx::query_scalar(LAST_COMMIT).bind(cursors::STREAM);
            let limit = RevLimit::at(plan.now, query.fetch_optional(&mut *conn).await?);
            let limit = limit.as_number().unwrap_or(i64::MAX);
            let (diverted, rest) = split(plan, &found);
            for change in diverted {
                // A host of a version before may have indexed it, and would otherwise show it for ever.
                $take_out(&mut *conn, change.partition(), change.key(), changes).await?;
                if let Diverted::Row(row) = &change {
                    let query = sqlx::query_scalar(*IS_DELETED.of(row.partition)).bind(row.collection_id);
                    let query = query.bind(row.did_id).bind(row.uri.rkey.as_str()).bind(row.rev);
                    if query.fetch_one(&mut *conn).await? {
                        applied.stale += 1;
                        continue;
                    }
                }
                let query = match &change {
                    Diverted::Row(row) => sqlx::query(UPDATE)
                        .bind(row.collection_id)
                        .bind(row.did_id)
                        .bind(row.uri.rkey.as_str())
                        .bind(row.record.cid.map(|cid| cid.to_bytes().to_vec()))
                        .bind(row.record.cid_verified)
                        .bind(row.rev)
                        .bind(plan.now)
                        .bind(Some(row.text))
                        .bind(row.record.validity.reason())
                        .bind(limit),
                    Diverted::Delete(row) => sqlx::query(UPDATE)
                        .bind(row.collection_id)
                        .bind(row.did_id)
                        .bind(row.rkey)
                        .bind(None::<Vec<u8>>)
                        .bind(false)
                        .bind(row.rev)
                        .bind(plan.now)
                        .bind(None::<&str>)
                        .bind(None::<&str>)
                        .bind(limit),
                };
                let stored = query.execute(&mut *conn).await?.rows_affected();
                match change {
                    Diverted::Row(_) if stored == 0 => applied.stale += 1,
                    Diverted::Row(_) => applied.updated += 1,
                    // Its tombstone is counted.
                    Diverted::Delete(_) => {}
                }
            }
            Ok(Some(rest))
        }
    };
}
divert!(divert_sqlite, SqliteConnection, FIND_SQLITE, take_out::sqlite);
divert!(divert_postgres, PgConnection, FIND_POSTGRES, take_out::postgres);

/// The changes of the records with these keys, and the rows of the others.
fn split<'a>(plan: &Plan<'a>, moderated: &[(i64, i64, String)]) -> (Vec<Diverted<'a>>, Vec<Row<'a>>) {
    let moderated: HashSet<Key<'_>> =
        moderated.iter().map(|(collection, did, rkey)| (*collection, *did, rkey.as_str())).collect();
    let (mut diverted, mut rest) = (Vec::new(), Vec::with_capacity(plan.rows.len()));
    for row in &plan.rows {
        if moderated.contains(&row.key()) {
            diverted.push(Diverted::Row(*row));
        } else {
            rest.push(*row);
        }
    }
    let deletes = plan.deletes.iter().filter(|row| moderated.contains(&row.key()));
    diverted.extend(deletes.map(|row| Diverted::Delete(*row)));
    (diverted, rest)
}
