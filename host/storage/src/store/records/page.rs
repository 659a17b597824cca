//! Limits the bytes that one read takes from the database.
//!
//! Statements that return several rows leave out records larger than [`INLINE_BYTES`] and return their size instead.
//! The few large records of a page are fetched afterwards by id. So a page of ordinary records takes one statement, and
//! a page of large records reads at most a few records beyond the limit.

use std::collections::HashMap;

use bytes::Bytes;

use super::super::partitions::{PerPartition, Tables};
use super::super::select::{INLINE_BYTES, Select, WHOLE_TEXT};
use super::super::{Db, StoreError, intern};
use super::{FullRecordRow, RecordRow};
use crate::query::sort::{SortKeyset, SortValue};
use crate::query::{Keyset, PageSize, Position};

/// Largest size of all records of a page, in bytes: some thousand ordinary records, or one of the largest.
pub const PAGE_BYTES: usize = 1 << 20;

const _: () = assert!(
    PageSize::rows_read(PageSize::RECORDS.max) as usize * INLINE_BYTES <= PAGE_BYTES,
    "a page of small records takes one statement"
);

/// Number of large records fetched by one statement. PostgreSQL reports the compressed size of a record without its text
/// (ADR 84), so up to this many may be read in vain.
const FETCH_BATCH: usize = 4;

/// A page of records.
#[derive(Clone, Debug)]
pub struct Page<R = RecordRow> {
    /// Without those that were deleted during the read.
    pub rows: Vec<R>,
    /// The position of the last row, if rows follow: there are more than the limit, or more than fit into the size limit.
    pub next: Option<Position>,
    /// The position of the first row. A page of a query has it only if rows are before it.
    pub previous: Option<Position>,
}

/// A row as a statement returns it: without its record if that is large.
#[derive(Clone, Debug)]
pub(in crate::store) struct PartialRow<R> {
    pub(in crate::store) row: R,
    /// Bytes of the record, exact unless PostgreSQL has no text of it: then compressed.
    pub(in crate::store) size: i64,
    /// The values by which the query is sorted, none if that is the time.
    pub(in crate::store) values: Vec<SortValue>,
}

impl AsMut<Self> for RecordRow {
    fn as_mut(&mut self) -> &mut Self {
        self
    }
}

impl AsMut<RecordRow> for FullRecordRow {
    fn as_mut(&mut self) -> &mut RecordRow {
        &mut self.row
    }
}

impl<R> Page<R> {
    pub fn empty() -> Self {
        Self { rows: Vec::new(), next: None, previous: None }
    }
}

impl<R> PartialRow<R> {
    pub(in crate::store) fn map<T>(self, make: impl FnOnce(R) -> T) -> PartialRow<T> {
        PartialRow { row: make(self.row), size: self.size, values: self.values }
    }
}

/// The room for the records of a read, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    /// A larger record is left out.
    pub each: usize,
    /// The rows end before the record that exceeds this, unless it is the first.
    pub all: usize,
}

impl Room {
    /// Room for records of any size.
    pub const fn of(all: usize) -> Self {
        Self { each: usize::MAX, all }
    }

    fn has(self, size: usize) -> bool {
        size <= self.each
    }
}

impl Select<'_> {
    /// The page of the statement's rows.
    pub(in crate::store) async fn complete<R: AsMut<RecordRow>>(
        &self,
        db: &Db,
        found: Vec<PartialRow<R>>,
    ) -> Result<Page<R>, StoreError> {
        complete(db, found, self.limit, Room::of(PAGE_BYTES)).await
    }
}

/// The first `limit` rows for whose records there is room.
pub(in crate::store) async fn complete<R: AsMut<RecordRow>>(
    db: &Db,
    mut found: Vec<PartialRow<R>>,
    limit: u32,
    room: Room,
) -> Result<Page<R>, StoreError> {
    let limit = limit as usize;
    let more = found.len() > limit;
    found.truncate(limit);
    found.retain(|row| room.has(usize::try_from(row.size).unwrap_or_default()));
    // Rows before `fetched` have their record, unless it was deleted meanwhile.
    let (mut taken, mut at, mut fetched) = (0, 0, 0);
    while at < found.len() {
        if at >= fetched && found[at].is_large() {
            let fitting = fitting(&mut found[at..], room.all.saturating_sub(taken));
            if fitting == 0 && taken > 0 {
                break;
            }
            fetched = at + fitting.max(1);
            fetch(db, &mut found[at..fetched]).await?;
        }
        let record = &mut found[at].row.as_mut().record;
        // PostgreSQL may have known the compressed size only.
        if !room.has(record.len()) {
            *record = Bytes::new();
        }
        let size = record.len();
        if taken > 0 && taken + size > room.all {
            break;
        }
        taken += size;
        at += 1;
    }
    let more = more || at < found.len();
    found.truncate(at);
    Ok(page(found, more))
}

/// The page with these rows, of which those that were deleted during the read have no record. It ends at the last row, even
/// if that was deleted.
fn page<R: AsMut<RecordRow>>(mut found: Vec<PartialRow<R>>, more: bool) -> Page<R> {
    let previous = found.first_mut().map(PartialRow::position);
    let next = if more { found.last_mut().map(PartialRow::position) } else { None };
    let mut rows: Vec<R> = found.into_iter().map(|found| found.row).collect();
    rows.retain_mut(|row| !row.as_mut().record.is_empty());
    Page { rows, next, previous }
}

impl<R: AsMut<RecordRow>> PartialRow<R> {
    fn position(&mut self) -> Position {
        let RecordRow { indexed_at, id, .. } = *self.row.as_mut();
        let mut values = self.values.iter().cloned();
        match values.next() {
            Some(value) => Position::Sorted(SortKeyset { value, then: values.collect(), id }),
            None => Position::Time(Keyset { indexed_at, id }),
        }
    }

    /// Whether the row was returned without its record.
    fn is_large(&mut self) -> bool {
        self.row.as_mut().record.is_empty()
    }
}

/// The number of rows from the start that can fit into `bytes`, with at most [`FETCH_BATCH`] large ones among them.
fn fitting<R: AsMut<RecordRow>>(found: &mut [PartialRow<R>], bytes: usize) -> usize {
    let (mut taken, mut large) = (0, 0);
    for (n, row) in found.iter_mut().enumerate() {
        let is_large = row.is_large();
        large += usize::from(is_large);
        taken += if is_large { row.size.max(0) as usize } else { row.row.as_mut().record.len() };
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
pub(in crate::store) static FETCH_POSTGRES: PerPartition<String> = PerPartition::new(
    |Tables { records, .. }| {
        format!(
            "SELECT r.id, {WHOLE_TEXT} FROM {records} r WHERE r.collection_id = $5 AND r.id IN ($1, $2, $3, $4)"
        )
    },
);

/// Fetches the records of the large rows, at most [`FETCH_BATCH`].
async fn fetch<R: AsMut<RecordRow>>(db: &Db, rows: &mut [PartialRow<R>]) -> Result<(), StoreError> {
    let mut large: Vec<&mut RecordRow> = Vec::with_capacity(FETCH_BATCH);
    for found in rows {
        if found.is_large() {
            large.push(found.row.as_mut());
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
                let primary = postgres.read_pools.hot.primary().reads();
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
            cid: None,
            record: if is_large { Bytes::new() } else { vec![b'x'; size].into() },
        };
        PartialRow { row, size: size as i64, values: Vec::new() }
    }

    #[test]
    fn a_page_has_a_position_only_if_more_rows_exist() {
        let of = |rows: &[(i64, usize)], more| {
            let rows = rows
                .iter()
                .map(|(id, size)| found(*size, *size == 0).map(|row| RecordRow { id: *id, ..row }));
            let Page { rows, next, .. } = page(rows.collect(), more);
            (rows.iter().map(|row| row.id).collect::<Vec<_>>(), next)
        };
        let at = |id| Some(Position::Time(Keyset { indexed_at: Timestamp(0), id }));
        assert_eq!(of(&[(1, 2), (2, 2)], false), (vec![1, 2], None));
        assert_eq!(of(&[(1, 2), (2, 2)], true), (vec![1, 2], at(2)));
        assert_eq!(of(&[], false), (vec![], None));
        // A record that was deleted during the read is left out, and the next page continues after it.
        assert_eq!(of(&[(1, 2), (2, 0)], true), (vec![1], at(2)));
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
