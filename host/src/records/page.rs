//! Pages of records: limits clamped, one row more read than shown, a cursor only when more rows exist.

use crate::atproto::{Did, Nsid};
use crate::store::records::{FullRecordRow, RecordRow};
use crate::store::{Db, StoreError};

use super::cursor::InvalidCursor;
use super::filter::Filter;
use super::sort::Sort;

/// Page size when none is asked for (service.md, Limits).
pub const DEFAULT_LIMIT: u32 = 20;
/// Largest page (service.md, Limits).
pub const MAX_LIMIT: u32 = 100;

/// What a caller asks for.
#[derive(Clone, Debug)]
pub struct Query {
    pub collection: Nsid,
    pub did: Option<Did>,
    /// Already clamped, see [`clamp_limit`].
    pub limit: u32,
    pub cursor: Option<String>,
    pub filter: Option<Filter>,
    pub sort: Option<Sort>,
}

#[derive(Clone, Debug)]
pub struct Page<R = RecordRow> {
    pub rows: Vec<R>,
    /// Only when more rows exist.
    pub cursor: Option<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error(transparent)]
    Cursor(#[from] InvalidCursor),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Query {
    /// A plain list: the first page of a collection, newest first.
    pub fn of(collection: Nsid) -> Self {
        Self { collection, did: None, limit: DEFAULT_LIMIT, cursor: None, filter: None, sort: None }
    }
}

/// 1..=100, 20 when absent.
pub fn clamp_limit(limit: Option<i64>) -> u32 {
    limit.map_or(DEFAULT_LIMIT, |n| n.clamp(1, i64::from(MAX_LIMIT)) as u32)
}

pub async fn read(_db: &Db, _query: &Query) -> Result<Page, ReadError> {
    todo!()
}

/// As [`read`] for the admin API: with CID and times. Filter and sort are ignored.
pub async fn read_full(_db: &Db, _query: &Query) -> Result<Page<FullRecordRow>, ReadError> {
    todo!()
}
