//! Reads and writes the rows of a repo in a transaction that holds its space.

use std::collections::BTreeMap;

use belvedere_protocol::spaces::RecordPath;

use super::super::super::types::{json_rows, to_json_text};
use super::super::super::{Db, StoreError};
use super::super::columns;
use super::super::repos::{RawState, RepoState};
use super::NewRecord;
use super::plan::{Before, Key, key};

/// Rows of one statement. With ten columns it stays below SQLite's limit of 32,766 parameters.
pub(super) const MAX_ROWS: usize = 1_000;
/// The texts of the records of one statement, which is in memory as a whole.
const MAX_TEXT_BYTES: usize = 4 << 20;

/// SQL: columns of the records `r` of an author (`$2`) in a space (`$1`) that are in a list (`$3`, of [`keys_of`]).
macro_rules! of_paths {
    ($backend:ident, $columns:literal) => {
        concat!(
            "SELECT ",
            $columns,
            " FROM ",
            json_rows!($backend, "$3"),
            " CROSS JOIN space_records r WHERE r.space_id = $1 AND r.author = $2 \
                 AND r.collection = v.value ->> 0 AND r.rkey = v.value ->> 1"
        )
    };
}
pub(in crate::store::spaces) use of_paths;

macro_rules! delete {
    ($backend:ident, $table:literal) => {
        concat!(
            "DELETE FROM ",
            $table,
            " WHERE space_id = $1 AND author = $2 AND (collection, rkey) IN (SELECT v.value ->> 0, v.value ->> 1 FROM ",
            json_rows!($backend, "$3"),
            ")"
        )
    };
}

/// The statements with lists of records in a parameter.
pub(super) struct Statements {
    pub find: &'static str,
    pub delete_records: &'static str,
    pub delete_blobs: &'static str,
}

pub(super) fn statements(db: &Db) -> Statements {
    match db {
        Db::Sqlite(_) => Statements {
            find: of_paths!(sqlite, "r.collection, r.rkey, r.cid"),
            delete_records: delete!(sqlite, "space_records"),
            delete_blobs: delete!(sqlite, "space_blobs"),
        },
        Db::Postgres(_) => Statements {
            find: of_paths!(postgres, "r.collection, r.rkey, r.cid"),
            delete_records: delete!(postgres, "space_records"),
            delete_blobs: delete!(postgres, "space_blobs"),
        },
    }
}

/// The list of records for [`Statements`] and [`of_paths`].
pub(in crate::store::spaces) fn keys_of<'a>(paths: impl Iterator<Item = &'a RecordPath>) -> String {
    to_json_text(&paths.map(key).collect::<Vec<_>>())
}

pub(super) fn before(
    state: Option<RawState>,
    rows: Vec<(String, String, Vec<u8>)>,
) -> Result<Before, StoreError> {
    let record = |(collection, rkey, cid): (_, _, Vec<u8>)| -> Result<(Key, _), StoreError> {
        Ok(((collection, rkey), columns::cid("space_records.cid", &cid)?))
    };
    let records = rows.into_iter().map(record).collect::<Result<BTreeMap<_, _>, _>>()?;
    Ok(Before { state: state.map(RepoState::read).transpose()?, records })
}

/// Evaluates to the state of a repo and of some records.
macro_rules! load {
    ($db:expr, $tx:ident, $space:expr, $author:expr, $paths:expr) => {{
        use $crate::store::spaces::{repos::SELECT_STATE, writes::rows};
        let query = sqlx::query_as(SELECT_STATE).bind($space).bind($author.as_str());
        let state = query.fetch_optional(&mut *$tx).await?;
        let query = sqlx::query_as(rows::statements($db).find).bind($space).bind($author.as_str());
        let records = query.bind(rows::keys_of($paths)).fetch_all(&mut *$tx).await?;
        rows::before(state, records)?
    }};
}
pub(super) use load;

/// Writes the changes of a plan: records, blobs, log and state.
macro_rules! store {
    ($db:expr, $tx:ident, $space:expr, $author:expr, $plan:expr, $ops:expr, $rev:expr, $copied:expr, $now:expr) => {{
        use $crate::store::spaces::writes::rows::{self, MAX_ROWS};
        use $crate::store::types::to_json_text;
        let (space, author, plan) = ($space, $author.as_str(), &$plan);
        let (ops, rev, statements) = ($ops, $rev.to_string(), rows::statements($db));
        for (sql, keys) in
            [(statements.delete_blobs, plan.changed()), (statements.delete_records, plan.gone())]
        {
            let query = sqlx::query(sql).bind(space).bind(author).bind(to_json_text(&keys));
            query.execute(&mut *$tx).await?;
        }
        for rows in rows::chunks(&plan.stored()) {
            let mut sql = sqlx::QueryBuilder::new(rows::INSERT_RECORDS);
            sql.push_values(rows, |mut row, ((collection, rkey), record)| {
                row.push_bind(space).push_bind(author).push_bind(collection).push_bind(rkey);
                row.push_bind(record.cid.to_bytes().to_vec()).push_bind(&record.text);
                row.push_bind(&rev).push_bind($now);
            });
            sql.push(rows::REPLACE_RECORDS);
            sql.build().persistent(rows.len() == 1).execute(&mut *$tx).await?;
        }
        for rows in rows::blobs(&plan.stored()).chunks(MAX_ROWS) {
            let mut sql = sqlx::QueryBuilder::new(rows::INSERT_BLOBS);
            sql.push_values(rows, |mut row, ((collection, rkey), cid)| {
                row.push_bind(space).push_bind(author).push_bind(*cid);
                row.push_bind(collection).push_bind(rkey);
            });
            sql.push(" ON CONFLICT DO NOTHING");
            sql.build().persistent(rows.len() == 1).execute(&mut *$tx).await?;
        }
        for rows in ops.chunks(MAX_ROWS) {
            let mut sql = sqlx::QueryBuilder::new(rows::INSERT_OPS);
            sql.push_values(rows, |mut row, op| {
                let bytes =
                    |cid: Option<belvedere_protocol::atproto::Cid>| cid.map(|cid| cid.to_bytes().to_vec());
                row.push_bind(space).push_bind(author).push_bind(op.position.rev.to_string());
                row.push_bind(i64::from(op.position.index));
                row.push_bind(op.path.collection.to_string()).push_bind(op.path.rkey.to_string());
                row.push_bind(bytes(op.change.cid())).push_bind(bytes(op.change.prev()));
            });
            sql.build().persistent(rows.len() == 1).execute(&mut *$tx).await?;
        }
        let state = plan.state($rev, $copied);
        sqlx::query(rows::UPSERT_STATE)
            .bind(space)
            .bind(author)
            .bind(&rev)
            .bind(&state.hash.to_bytes()[..])
            .bind(state.records as i64)
            .bind($now)
            .bind(state.copied_bytes.map(|bytes| bytes as i64))
            .execute(&mut *$tx)
            .await?;
    }};
}
pub(super) use store;

pub(super) const INSERT_RECORDS: &str =
    "INSERT INTO space_records (space_id, author, collection, rkey, cid, record, rev, indexed_at) ";
/// An update keeps the time at which the record was first seen.
pub(super) const REPLACE_RECORDS: &str = " ON CONFLICT (space_id, author, collection, rkey) \
     DO UPDATE SET cid = excluded.cid, record = excluded.record, rev = excluded.rev";
pub(super) const INSERT_BLOBS: &str = "INSERT INTO space_blobs (space_id, author, cid, collection, rkey) ";
pub(super) const INSERT_OPS: &str =
    "INSERT INTO space_ops (space_id, author, rev, idx, collection, rkey, cid, prev) ";
pub(super) const UPSERT_STATE: &str = "INSERT INTO space_repos (space_id, author, rev, set_hash, records, updated_at, copied_bytes) \
     VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (space_id, author) DO UPDATE SET rev = excluded.rev, \
         set_hash = excluded.set_hash, records = excluded.records, updated_at = excluded.updated_at, \
         copied_bytes = excluded.copied_bytes";

/// Records to store, divided into those of one statement each.
pub(super) fn chunks<'r, 'a>(
    stored: &'r [(&'a Key, &'a NewRecord)],
) -> impl Iterator<Item = &'r [(&'a Key, &'a NewRecord)]> {
    let (mut rows, mut bytes) = (0, 0);
    stored.chunk_by(move |(_, last), (_, next)| {
        (rows, bytes) = (rows + 1, bytes + last.text.len());
        let fits = rows < MAX_ROWS && bytes + next.text.len() <= MAX_TEXT_BYTES;
        if !fits {
            (rows, bytes) = (0, 0);
        }
        fits
    })
}

/// The blobs of records, each with its record.
pub(super) fn blobs<'a>(stored: &[(&'a Key, &'a NewRecord)]) -> Vec<(&'a Key, &'a str)> {
    let of = |(key, record): &(&'a Key, &'a NewRecord)| {
        let key = *key;
        record.blobs.iter().map(move |cid| (key, cid.as_str())).collect::<Vec<_>>()
    };
    stored.iter().flat_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_have_limited_rows_and_bytes() {
        let key = (String::new(), String::new());
        let cid = belvedere_protocol::atproto::record::inspect(b"{}").unwrap().cid.unwrap();
        let lengths = |bytes: &[usize]| -> Vec<usize> {
            let record = |&length: &usize| NewRecord { cid, text: "x".repeat(length), blobs: Vec::new() };
            let records: Vec<_> = bytes.iter().map(record).collect();
            let stored: Vec<_> = records.iter().map(|record| (&key, record)).collect();
            chunks(&stored).map(<[_]>::len).collect()
        };
        assert_eq!(lengths(&[]), [0; 0]);
        assert_eq!(lengths(&[1; 2 * MAX_ROWS + 1]), [MAX_ROWS, MAX_ROWS, 1]);
        let half = MAX_TEXT_BYTES / 2;
        assert_eq!(lengths(&[half, half, 1, half, half, 2 * half, 3 * half, 1]), [2, 2, 1, 1, 1, 1]);
    }
}
