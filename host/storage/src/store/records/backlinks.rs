//! Lists backlinks: the records that refer to an AT URI. The primary key of `record_refs` ends in the id of the
//! referring record, and ids rise with each record that is created, so the newest backlinks are read in order without a
//! sort.

use belvedere_protocol::atproto::{Did, Nsid};
use belvedere_web::fair_share::Tenant;

use super::super::partitions::PerPartition;
use super::super::{Db, StoreError, intern};
use super::unjoined::named;
use super::{
    PAGE_BYTES, RecordRow, Slice, columns, complete, is_visible, limited, page_rows, rows, rows_to_read,
};

#[derive(Clone, Debug)]
pub struct BacklinksArgs<'a> {
    pub collection: &'a Nsid,
    pub target: &'a str,
    pub did: Option<&'a Did>,
    /// Rows per page.
    pub limit: u32,
    /// Rows after the one with this id.
    pub after: Option<i64>,
    /// The tenant whose share of scans a list of one account's backlinks uses: it filters all backlinks of the target.
    pub tenant: &'a Tenant,
}

macro_rules! sql {
    (sqlite, $where:literal) => {
        limited!(
            sqlite,
            "$3",
            "SELECT ",
            columns!(sqlite),
            " FROM record_refs f CROSS JOIN records r CROSS JOIN dids d \
              WHERE f.target = $1 AND f.collection_id = $2 AND r.id = f.record_id AND d.id = r.did_id AND d.status = 0",
            $where,
            " ORDER BY f.record_id DESC",
        )
    };
    (postgres, $where:literal) => {
        limited!(
            postgres,
            "$3",
            "SELECT ",
            columns!(postgres),
            " FROM {record_refs} f CROSS JOIN LATERAL \
              (SELECT * FROM {records} o WHERE o.collection_id = $2 AND o.id = f.record_id LIMIT 1) r \
              WHERE f.target = $1 AND f.collection_id = $2 AND ",
            is_visible!(),
            $where,
            " ORDER BY f.record_id DESC",
        )
    };
}

/// Without and with an account. `$4` is the last id of the previous page, or the largest possible id.
macro_rules! statements {
    ($dialect:ident) => {
        [
            sql!($dialect, " AND f.record_id < $4"),
            sql!($dialect, " AND f.record_id < $4 AND r.did_id = (SELECT id FROM dids WHERE did = $5)"),
        ]
    };
}
const SQLITE: [&str; 2] = statements!(sqlite);
pub(in crate::store) static POSTGRES: PerPartition<[&str; 2]> = PerPartition::new(statements!(postgres));

macro_rules! fetch {
    ($pool:expr, $statements:expr, $collection:expr, $args:expr) => {{
        let args: &BacklinksArgs<'_> = $args;
        let mut query = sqlx::query($statements[usize::from(args.did.is_some())])
            .bind(args.target)
            .bind($collection)
            .bind(rows_to_read(args.limit))
            .bind(args.after.unwrap_or(i64::MAX));
        if let Some(did) = args.did {
            query = query.bind(did.as_str());
        }
        query.fetch_all($pool.reads()).await?
    }};
}

/// Visible records that refer to the target, newest first, at most [`PAGE_BYTES`] of records.
///
/// # Errors
/// [`StoreError::Busy`], and [`StoreError::TooSlow`] when the list is limited to one account.
pub async fn list(db: &Db, args: &BacklinksArgs<'_>) -> Result<Slice<RecordRow>, StoreError> {
    let Some(collection) = intern::collection(db, args.collection).await? else { return Ok(Slice::empty()) };
    let id = collection.id;
    let scans = args.did.is_some();
    let place = if scans { db.scan_place(args.tenant).await? } else { db.read_place(args.tenant).await? };
    let found = match db {
        Db::Sqlite(db) => {
            let pool = if scans { &db.scan_pool } else { &db.read_pool };
            rows(fetch!(pool, SQLITE, id, args), args.collection)?
        }
        Db::Postgres(db) => {
            let pool = if scans { &db.scan_pool } else { &db.read_pool };
            let found = fetch!(pool, POSTGRES.of(collection.partition), id, args);
            rows(named(db, found).await?, args.collection)?
        }
    };
    drop(place);
    complete(db, found, page_rows(args.limit), PAGE_BYTES).await
}
