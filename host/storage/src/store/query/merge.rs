//! Reads a page in the order of time from several lists, each of which is in that order: those of the values of a filter's
//! `IN`, or of accounts ([`super::timeline`]).
//!
//! The lists are read one after the other, and only the rows of the page are kept. A list costs a page at most, however
//! many records it has.

use std::time::Instant;

use crate::query::{Direction, PageSize, Query};
use crate::store::intern::Collection;
use crate::store::records::{PartialRow, RecordRow};
use crate::store::scans::SCAN_TIME_LIMIT;
use crate::store::select::{Bounds, By, Select};
use crate::store::{Db, StoreError};
use belvedere_base::clock::Timestamp;

/// The first rows of the lists that were added.
pub(super) struct Merged {
    rows: Vec<PartialRow<RecordRow>>,
    direction: Direction,
    max: usize,
}

impl Merged {
    pub(super) fn of(query: &Query) -> Self {
        let max = PageSize::rows_read(query.limit.min(PageSize::RECORDS.max)) as usize;
        Self { rows: Vec::new(), direction: query.direction(), max }
    }

    pub(super) fn add(&mut self, rows: Vec<PartialRow<RecordRow>>) {
        self.rows.extend(rows);
        self.rows.sort_unstable_by_key(|found| (found.row.indexed_at, found.row.id));
        if self.direction == Direction::Desc {
            self.rows.reverse();
        }
        // Long texts may have the same key, and 5 and 5.0 are the same number: then two lists are the same.
        self.rows.dedup_by_key(|found| found.row.id);
        self.rows.truncate(self.max);
    }

    /// Whether the page is full of rows that come before this one.
    pub(super) fn is_before(&self, at: (Timestamp, i64)) -> bool {
        let Some(last) = self.rows.get(self.max - 1).map(|found| (found.row.indexed_at, found.row.id)) else {
            return false;
        };
        match self.direction {
            Direction::Asc => last < at,
            Direction::Desc => last > at,
        }
    }

    pub(super) fn into_rows(self) -> Vec<PartialRow<RecordRow>> {
        self.rows
    }
}

/// Reads the rows within the bounds of each value of a list.
pub(super) async fn rows(
    db: &Db,
    scans: bool,
    query: &Query,
    collection: Collection,
    bounds: &Bounds<'_>,
) -> Result<Vec<PartialRow<RecordRow>>, StoreError> {
    let (mut merged, started) = (Merged::of(query), Instant::now());
    for one in bounds.split() {
        if started.elapsed() > SCAN_TIME_LIMIT {
            return Err(StoreError::TooSlow);
        }
        merged.add(Select::of(query, collection, By::Field(&one)).rows(db, scans).await?);
    }
    Ok(merged.into_rows())
}
