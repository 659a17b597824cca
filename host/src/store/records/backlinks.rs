//! Back links. The primary key of `record_refs` ends in the id of the source, so the newest sources of a target are
//! walked along it without sorting, however many there are. Ids grow with each record that is created.

use crate::atproto::{Did, Nsid};

use super::super::lane::read;
use super::super::{Db, StoreError, intern};
use super::{RawRow, RecordRow, columns};

#[derive(Clone, Debug)]
pub struct BacklinksArgs<'a> {
    pub collection: &'a Nsid,
    pub target: &'a str,
    pub did: Option<&'a Did>,
    /// Rows to read: ask for one more than the page to know whether another page follows.
    pub limit: u32,
    /// Rows after the one with this id.
    pub after: Option<i64>,
}

macro_rules! sql {
    (sqlite, $where:literal) => {
        concat!(
            "SELECT ",
            columns!(sqlite),
            " FROM record_refs f CROSS JOIN records r CROSS JOIN dids d \
              WHERE f.target = $1 AND f.collection_id = $2 AND r.id = f.record_id AND d.id = r.did_id AND d.status = 0",
            $where,
            " ORDER BY f.record_id DESC LIMIT $3"
        )
    };
    (postgres, $where:literal) => {
        concat!(
            "SELECT ",
            columns!(postgres),
            " FROM record_refs f \
              CROSS JOIN LATERAL (SELECT * FROM records WHERE records.id = f.record_id LIMIT 1) r \
              CROSS JOIN LATERAL (SELECT did, status FROM dids WHERE dids.id = r.did_id LIMIT 1) d \
              WHERE f.target = $1 AND f.collection_id = $2 AND d.status = 0",
            $where,
            " ORDER BY f.record_id DESC LIMIT $3"
        )
    };
}

/// By account or not. `$4` is the id that the page ended with, or the largest there is.
macro_rules! statements {
    ($dialect:ident) => {
        [
            sql!($dialect, " AND f.record_id < $4"),
            sql!($dialect, " AND f.record_id < $4 AND r.did_id = (SELECT id FROM dids WHERE did = $5)"),
        ]
    };
}
const SQLITE: [&str; 2] = statements!(sqlite);
const POSTGRES: [&str; 2] = statements!(postgres);

macro_rules! fetch {
    ($lane:expr, $statements:expr, $collection:expr, $args:expr) => {{
        let args: &BacklinksArgs<'_> = $args;
        let mut query = sqlx::query($statements[usize::from(args.did.is_some())])
            .bind(args.target)
            .bind($collection)
            .bind(i64::from(args.limit))
            .bind(args.after.unwrap_or(i64::MAX));
        if let Some(did) = args.did {
            query = query.bind(did.as_str());
        }
        let rows = read!($lane, |conn| query.fetch_all(conn).await);
        rows.into_iter().map(|row| Ok(row.raw(args.collection.clone())?)).collect()
    }};
}

/// Visible records that name the target, last created first.
pub async fn list(db: &Db, args: &BacklinksArgs<'_>) -> Result<Vec<RecordRow>, StoreError> {
    let Some(id) = intern::collection_id(db, args.collection).await? else { return Ok(Vec::new()) };
    match db {
        Db::Sqlite(db) => fetch!(db.lane, SQLITE, id, args),
        Db::Postgres(db) => fetch!(db.lane, POSTGRES, id, args),
    }
}
