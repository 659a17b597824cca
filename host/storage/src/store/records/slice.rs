//! Limits the bytes that one read takes from the database.
//!
//! Statements that return several rows leave out records larger than [`INLINE_BYTES`] and return their size instead.
//! The few large records of a page are fetched afterwards by id. So a page of ordinary records takes one statement, and
//! a page of large records reads at most a few records beyond the limit.

use std::collections::HashMap;

use bytes::Bytes;

use super::super::partitions::PerPartition;
use super::super::{Db, StoreError, intern};
use super::{FullRecordRow, RecordRow, whole_text};
use crate::query::PageSize;

/// Largest size of all records of a page, in bytes: some thousand ordinary records, or one of the largest.
pub const PAGE_BYTES: usize = 1 << 20;

/// Most rows of a page of a list; see [`page_rows`].
pub(super) const MAX_ROWS: u32 = PageSize::RECORDS.max;

/// Rows of a page, and the one after it, as a literal for statements.
macro_rules! most_rows {
    () => {
        101
    };
}
pub(in crate::store) use most_rows;
const _: () = assert!(most_rows!() == MAX_ROWS + 1, "statements return a page and the row after it");

/// [`INLINE_BYTES`] as a literal for statements.
macro_rules! inline_bytes {
    () => {
        10240
    };
}
pub(in crate::store) use inline_bytes;

/// Largest size of a record that is returned with its row, in bytes. A page and the row after it stay within
/// [`PAGE_BYTES`].
pub(in crate::store) const INLINE_BYTES: usize = inline_bytes!();
const _: () =
    assert!(most_rows!() * INLINE_BYTES <= PAGE_BYTES, "a page of small records takes one statement");

/// Number of large records fetched by one statement. PostgreSQL reports the compressed size of a record without its text
/// (ADR 84), so up to this many may be read in vain.
const FETCH_BATCH: usize = 4;

/// The rows that a read returns.
#[derive(Clone, Debug)]
pub struct Slice<R> {
    /// A record is empty if it was deleted during the read; only the row's position is meaningful then.
    pub rows: Vec<R>,
    /// Whether rows follow: there are more than the limit, or more than fit into the size limit.
    pub more: bool,
}

/// A row as a statement returns it: without its record if that is large.
#[derive(Clone, Debug)]
pub(in crate::store) struct PartialRow<R> {
    pub(in crate::store) row: R,
    /// Bytes of the record, exact unless PostgreSQL has no text of it: then compressed.
    pub(in crate::store) size: i64,
}

/// A type that is or contains a [`RecordRow`].
pub(in crate::store) trait HasRecord {
    fn record_row(&mut self) -> &mut RecordRow;
}

impl HasRecord for RecordRow {
    fn record_row(&mut self) -> &mut RecordRow {
        self
    }
}

impl HasRecord for FullRecordRow {
    fn record_row(&mut self) -> &mut RecordRow {
        &mut self.row
    }
}

impl<R> Slice<R> {
    pub(in crate::store) fn empty() -> Self {
        Self { rows: Vec::new(), more: false }
    }
}

impl<R> PartialRow<R> {
    pub(in crate::store) fn map<T>(self, make: impl FnOnce(R) -> T) -> PartialRow<T> {
        PartialRow { row: make(self.row), size: self.size }
    }
}

/// The rows of a page of a list: `limit`, at most [`MAX_ROWS`].
pub(in crate::store) fn page_rows(limit: u32) -> u32 {
    limit.min(MAX_ROWS)
}

/// Rows to read for a page of a list: one more, which shows whether another page follows.
pub(in crate::store) fn rows_to_read(limit: u32) -> i64 {
    i64::from(page_rows(limit)) + 1
}

/// The first `limit` rows, as long as their records take at most `bytes` together. The first row is always returned,
/// whatever its size.
pub(in crate::store) async fn complete<R: HasRecord>(
    db: &Db,
    mut found: Vec<PartialRow<R>>,
    limit: u32,
    bytes: usize,
) -> Result<Slice<R>, StoreError> {
    let limit = limit as usize;
    let more = found.len() > limit;
    found.truncate(limit);
    // Rows before `fetched` have their record, unless it was deleted meanwhile.
    let (mut taken, mut at, mut fetched) = (0, 0, 0);
    while at < found.len() {
        if at >= fetched && found[at].is_large() {
            let fitting = fitting(&mut found[at..], bytes.saturating_sub(taken));
            if fitting == 0 && taken > 0 {
                break;
            }
            fetched = at + fitting.max(1);
            fetch(db, &mut found[at..fetched]).await?;
        }
        let size = found[at].row.record_row().record.len();
        if taken > 0 && taken + size > bytes {
            break;
        }
        taken += size;
        at += 1;
    }
    let more = more || at < found.len();
    found.truncate(at);
    Ok(Slice { rows: found.into_iter().map(|found| found.row).collect(), more })
}

impl<R: HasRecord> PartialRow<R> {
    /// Whether the row was returned without its record.
    fn is_large(&mut self) -> bool {
        self.row.record_row().record.is_empty()
    }
}

/// How many rows from the start can fit into `bytes`, with at most [`FETCH_BATCH`] large ones among them.
fn fitting<R: HasRecord>(found: &mut [PartialRow<R>], bytes: usize) -> usize {
    let (mut taken, mut large) = (0, 0);
    for (n, row) in found.iter_mut().enumerate() {
        let is_large = row.is_large();
        large += usize::from(is_large);
        taken += if is_large { row.size.max(0) as usize } else { row.row.record_row().record.len() };
        if taken > bytes || large > FETCH_BATCH {
            return n;
        }
    }
    found.len()
}

/// `$1` to `$4` are ids, of which some may be equal. The id of the newest record may be that of another one by now, if it
/// was deleted meanwhile.
const FETCH_SQLITE: &str = "SELECT r.id, r.record, c.nsid, d.did, r.rkey FROM records r \
     CROSS JOIN collections c CROSS JOIN dids d \
     WHERE r.id IN ($1, $2, $3, $4) AND c.id = r.collection_id AND d.id = r.did_id";
/// `$5` is their collection.
pub(in crate::store) static FETCH_POSTGRES: PerPartition<&str> = PerPartition::new(concat!(
    "SELECT r.id, ",
    whole_text!(),
    " FROM {records} r WHERE r.collection_id = $5 AND r.id IN ($1, $2, $3, $4)",
));

/// Fetches the records of the large rows, at most [`FETCH_BATCH`].
async fn fetch<R: HasRecord>(db: &Db, rows: &mut [PartialRow<R>]) -> Result<(), StoreError> {
    let mut large: Vec<&mut RecordRow> = Vec::with_capacity(FETCH_BATCH);
    for found in rows {
        if found.is_large() {
            large.push(found.row.record_row());
        }
    }
    let records: Vec<(i64, String)> = match db {
        Db::Sqlite(db) => {
            let mut query = sqlx::query_as(FETCH_SQLITE);
            for id in padded(large.iter().map(|row| row.id)) {
                query = query.bind(id);
            }
            let found: Vec<(i64, String, String, String, String)> =
                query.fetch_all(db.read_pool.reads()).await?;
            let is_wanted = |id, collection: &str, did: &str, rkey: &str| {
                large.iter().any(|row| {
                    (row.id, row.collection.as_str(), row.did.as_str(), row.rkey.as_str())
                        == (id, collection, did, rkey)
                })
            };
            found
                .into_iter()
                .filter(|(id, _, collection, did, rkey)| is_wanted(*id, collection, did, rkey))
                .map(|(id, record, ..)| (id, record))
                .collect()
        }
        Db::Postgres(postgres) => {
            let mut records = Vec::with_capacity(large.len());
            large.sort_unstable_by(|a, b| a.collection.cmp(&b.collection));
            for rows in large.chunk_by(|a, b| a.collection == b.collection) {
                let Some(collection) = intern::collection(db, &rows[0].collection).await? else { continue };
                let mut query = sqlx::query_as(*FETCH_POSTGRES.of(collection.partition));
                for id in padded(rows.iter().map(|row| row.id)) {
                    query = query.bind(id);
                }
                // Not on a replica: the rows may come from the primary, and records that are missing count as deleted.
                let primary = postgres.read_pool.primary().reads();
                records.extend(query.bind(collection.id).fetch_all(primary).await?);
            }
            records
        }
    };
    let records: HashMap<i64, Bytes> =
        records.into_iter().map(|(id, record)| (id, Bytes::from(record))).collect();
    for row in large {
        row.record = records.get(&row.id).cloned().unwrap_or_default();
    }
    Ok(())
}

/// The ids, filled up to [`FETCH_BATCH`] with the first of them.
fn padded(ids: impl Iterator<Item = i64> + Clone) -> [Option<i64>; FETCH_BATCH] {
    let mut padded = ids.clone().chain(std::iter::repeat_n(ids.clone().next(), FETCH_BATCH).flatten());
    std::array::from_fn(|_| padded.next())
}

#[cfg(test)]
mod tests {
    use super::*;
    use belvedere_base::clock::Timestamp;
    use belvedere_protocol::atproto::Nsid;

    fn found(size: usize, is_large: bool) -> PartialRow<RecordRow> {
        let row = RecordRow {
            id: 1,
            did: "did:plc:a".into(),
            collection: Nsid::try_from("com.example.note").unwrap(),
            rkey: "a".into(),
            indexed_at: Timestamp(0),
            record: if is_large { Bytes::new() } else { vec![b'x'; size].into() },
        };
        PartialRow { row, size: size as i64 }
    }

    #[test]
    fn only_records_that_may_fit_are_fetched() {
        let rows = |sizes: &[(usize, bool)]| -> Vec<_> { sizes.iter().map(|(s, l)| found(*s, *l)).collect() };
        let large = [(100, true); 6];
        assert_eq!(fitting(&mut rows(&large), 99), 0);
        assert_eq!(fitting(&mut rows(&large), 250), 2);
        assert_eq!(fitting(&mut rows(&large), 10_000), FETCH_BATCH);
        let mixed = [(100, true), (50, false), (100, true), (50, false)];
        assert_eq!(fitting(&mut rows(&mixed), 249), 2);
        assert_eq!(fitting(&mut rows(&mixed), 300), 4);
    }
}
