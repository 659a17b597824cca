//! Reads many records by their AT URIs in one query, and the latest rev of a record.

use std::collections::HashMap;

use sqlx::Row as _;

use super::super::intern::{self, Collection};
use super::super::partitions::{Partition, PerPartition, Tables};
use super::super::reads::Reads;
use super::super::select::{Columns, Dialect, PostgresDialect, SqliteDialect, full};
use super::super::{Db, StoreError};
use super::{FullRecordRow, Page, PartialRow, RawRow, RecordRow, Room, complete, unjoined};
use belvedere_protocol::atproto::{Nsid, RecordUri, Tid};

static SQLITE: PerPartition<String> = PerPartition::new(|tables @ Tables { records, .. }| {
    format!(
        "SELECT {}, {}, r.collection_id FROM json_each($1) v CROSS JOIN dids d CROSS JOIN {records} r \
         WHERE d.did = v.value ->> 1 AND d.status = 0 AND r.collection_id = v.value ->> 0 AND r.did_id = d.id \
             AND r.rkey = v.value ->> 2",
        SqliteDialect::columns(Columns::Full),
        full(tables)
    )
});

/// For records of collections in one partition.
pub(in crate::store) static POSTGRES: PerPartition<String> = PerPartition::new(
    |tables @ Tables { records, .. }| {
        format!(
            "SELECT {}, {}, r.collection_id FROM unnest($1::bigint[], $2::text[], $3::text[]) AS v (collection_id, did, rkey) \
         CROSS JOIN LATERAL (SELECT id FROM dids WHERE dids.did = v.did AND status = 0 LIMIT 1) d \
         CROSS JOIN LATERAL (SELECT * FROM {records} o WHERE o.collection_id = v.collection_id \
             AND o.did_id = d.id AND o.rkey = v.rkey LIMIT 1) r",
            PostgresDialect::columns(Columns::Full),
            full(tables)
        )
    },
);

/// The position of the collection's id, after the columns of a full row.
const COLLECTION_COLUMN: usize = 10;

/// The existing records among `uris` for which there is room, unordered. A record may be returned twice if
/// its URI is in `uris` twice.
pub async fn get_many_full(
    db: &Db,
    uris: &[RecordUri],
    room: Room,
) -> Result<Page<FullRecordRow>, StoreError> {
    let mut known: HashMap<&Nsid, Option<Collection>> = HashMap::new();
    let mut collections: HashMap<i64, &Nsid> = HashMap::new();
    let mut keys = Vec::with_capacity(uris.len());
    for uri in uris {
        let collection = if let Some(collection) = known.get(&uri.collection) {
            *collection
        } else {
            let collection = intern::collection(db, &uri.collection).await?;
            known.insert(&uri.collection, collection);
            collection
        };
        let Some(Collection { id, partition }) = collection else { continue };
        collections.insert(id, &uri.collection);
        keys.push((partition, (id, uri.did.as_str(), uri.rkey.as_str())));
    }
    if keys.is_empty() {
        return Ok(Page::empty());
    }
    let found: Result<Vec<_>, StoreError> = match db {
        Db::Sqlite(db) => {
            let keys: Vec<_> = keys.into_iter().map(|(_, key)| key).collect();
            let keys = serde_json::to_string(&keys).map_err(|e| StoreError::Corrupt(e.to_string()))?;
            let rows =
                sqlx::query(*SQLITE.of(Partition::Whole)).bind(keys).fetch_all(db.read_pool.reads()).await?;
            rows.into_iter().map(|row| row_of(&collections, row.try_get(COLLECTION_COLUMN)?, row)).collect()
        }
        Db::Postgres(db) => {
            keys.sort_unstable();
            let mut rows = Vec::with_capacity(keys.len());
            for part in keys.chunk_by(|(a, _), (b, _)| a == b) {
                let ids: Vec<i64> = part.iter().map(|(_, key)| key.0).collect();
                let dids: Vec<&str> = part.iter().map(|(_, key)| key.1).collect();
                let rkeys: Vec<&str> = part.iter().map(|(_, key)| key.2).collect();
                let query = sqlx::query(*POSTGRES.of(part[0].0)).bind(ids).bind(dids).bind(rkeys);
                rows.extend(query.fetch_all(db.pool_of(part[0].0, Reads::Hot).reads()).await?);
            }
            let named = unjoined::with_dids(db, rows).await?.into_iter();
            named.map(|row| row_of(&collections, row.columns.try_get(COLLECTION_COLUMN)?, row)).collect()
        }
    };
    complete(db, found?, u32::MAX, room).await
}

/// The same records, in the same order, with all columns. One that was deleted meanwhile is left out.
pub(in crate::store) async fn with_all_columns(
    db: &Db,
    rows: Vec<RecordRow>,
) -> Result<Vec<FullRecordRow>, StoreError> {
    let uris: Result<Vec<_>, _> = rows.iter().map(|row| RecordUri::parse(&row.uri())).collect();
    let uris = uris.map_err(|error| StoreError::Corrupt(error.to_string()))?;
    // The rows are one page, which is bounded.
    let found = get_many_full(db, &uris, Room::of(usize::MAX)).await?;
    let mut by_id: HashMap<i64, FullRecordRow> =
        found.rows.into_iter().map(|full| (full.row.id, full)).collect();
    Ok(rows.iter().filter_map(|row| by_id.remove(&row.id)).collect())
}

fn row_of<R: RawRow>(
    collections: &HashMap<i64, &Nsid>,
    id: i64,
    row: R,
) -> Result<PartialRow<FullRecordRow>, StoreError> {
    let unknown = || StoreError::Corrupt("a record of a collection that was not requested".into());
    row.raw_full((*collections.get(&id).ok_or_else(unknown)?).clone())
}

pub(in crate::store) static LATEST_REV: PerPartition<String> = PerPartition::new(
    |Tables { records, tombstones, .. }| {
        let of = "WHERE collection_id = $1 AND did_id = (SELECT id FROM dids WHERE did = $2) AND rkey = $3";
        format!(
            "SELECT max(rev) FROM (SELECT rev FROM {records} {of} UNION ALL SELECT rev FROM {tombstones} {of} \
             UNION ALL SELECT rev FROM hidden_records {of}) AS revs"
        )
    },
);

/// The greatest `rev` of a record in the index, visible or not, or of its tombstone.
pub async fn latest_rev(db: &Db, uri: &RecordUri) -> Result<Option<u64>, StoreError> {
    let Some(collection) = intern::collection(db, &uri.collection).await? else { return Ok(None) };
    let rev: Option<i64> = super::super::on!(db, reader, |pool| {
        sqlx::query_scalar(*LATEST_REV.of(collection.partition))
            .bind(collection.id)
            .bind(uri.did.as_str())
            .bind(uri.rkey.as_str())
            .fetch_one(pool)
            .await
    })?;
    Ok(rev.map(|rev| rev as u64))
}

/// The TID that a stored `rev` is.
///
/// # Errors
/// When it is none.
pub fn tid_of_rev(rev: u64) -> Result<Tid, StoreError> {
    Tid::new(rev >> 10, (rev & 0x3ff) as u16).map_err(|error| StoreError::Corrupt(error.to_string()))
}
