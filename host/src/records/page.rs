//! Pages of records: limits clamped, one row more read than shown, a cursor only when more rows exist.

use crate::atproto::{Did, Nsid};
use crate::store::query::{self, Order, QueryArgs};
use crate::store::records::{self, FullRecordRow, Keyset, ListArgs, RecordRow};
use crate::store::{Db, StoreError};

use super::cursor::{self, InvalidCursor};
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

    fn after(&self) -> Result<Option<Keyset>, InvalidCursor> {
        self.cursor.as_deref().map(cursor::decode).transpose()
    }

    fn list_args(&self) -> Result<ListArgs<'_>, InvalidCursor> {
        Ok(ListArgs {
            collection: &self.collection,
            did: self.did.as_ref(),
            limit: self.limit + 1,
            after: self.after()?,
        })
    }
}

/// 1..=100, 20 when absent.
pub fn clamp_limit(limit: Option<i64>) -> u32 {
    limit.map_or(DEFAULT_LIMIT, |n| n.clamp(1, i64::from(MAX_LIMIT)) as u32)
}

/// # Errors
/// [`ReadError::Cursor`] for a cursor that no page of such a query handed out.
pub async fn read(db: &Db, query: &Query) -> Result<Page, ReadError> {
    if let Some(sort) = &query.sort {
        return read_sorted(db, query, sort).await;
    }
    let rows = if let Some(filter) = &query.filter {
        let args = QueryArgs {
            collection: &query.collection,
            did: query.did.as_ref(),
            filter: Some(filter),
            order: Order::Newest { after: query.after()? },
            limit: query.limit + 1,
        };
        query::query(db, &args).await?.into_iter().map(|row| row.row).collect()
    } else {
        records::list(db, &query.list_args()?).await?
    };
    Ok(page(rows, query.limit, |row| cursor::encode(Keyset { indexed_at: row.indexed_at, id: row.id })))
}

async fn read_sorted(db: &Db, query: &Query, sort: &Sort) -> Result<Page, ReadError> {
    let after = query.cursor.as_deref().map(cursor::decode_sorted).transpose()?;
    if after.as_ref().is_some_and(|after| !sort.accepts(&after.value)) {
        return Err(InvalidCursor.into());
    }
    let args = QueryArgs {
        collection: &query.collection,
        did: query.did.as_ref(),
        filter: query.filter.as_ref(),
        order: Order::By { sort, after: after.as_ref() },
        limit: query.limit + 1,
    };
    let rows = query::query(db, &args).await?;
    let page =
        page(rows, query.limit, |row| row.place.as_ref().map(cursor::encode_sorted).unwrap_or_default());
    Ok(Page { rows: page.rows.into_iter().map(|row| row.row).collect(), cursor: page.cursor })
}

/// As [`read`] for the admin API: with CID and times. Filter and sort are ignored.
///
/// # Errors
/// As [`read`].
pub async fn read_full(db: &Db, query: &Query) -> Result<Page<FullRecordRow>, ReadError> {
    let rows = records::list_full(db, &query.list_args()?).await?;
    Ok(page(rows, query.limit, |full| {
        cursor::encode(Keyset { indexed_at: full.row.indexed_at, id: full.row.id })
    }))
}

/// Cuts off the row that only said that there is more.
pub(super) fn page<R>(mut rows: Vec<R>, limit: u32, cursor: impl Fn(&R) -> String) -> Page<R> {
    let limit = limit as usize;
    let more = rows.len() > limit;
    rows.truncate(limit);
    let cursor = if more { rows.last().map(cursor) } else { None };
    Page { rows, cursor }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_clamped() {
        for (asked, given) in [
            (None, 20),
            (Some(0), 1),
            (Some(-5), 1),
            (Some(i64::MIN), 1),
            (Some(1), 1),
            (Some(100), 100),
            (Some(101), 100),
            (Some(i64::MAX), 100),
        ] {
            assert_eq!(clamp_limit(asked), given);
        }
    }

    #[test]
    fn a_cursor_comes_only_with_more_rows() {
        let of = |rows: Vec<u8>| page(rows, 2, ToString::to_string);
        let full = of(vec![1, 2]);
        assert_eq!((full.rows, full.cursor), (vec![1, 2], None));
        let more = of(vec![1, 2, 3]);
        assert_eq!((more.rows, more.cursor), (vec![1, 2], Some("2".to_owned())));
        assert_eq!(of(vec![]).cursor, None);
    }
}
