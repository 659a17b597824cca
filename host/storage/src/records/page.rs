//! Reads pages of records. Limits are clamped; a page has at most 1 MiB of records, and a cursor only if more rows
//! exist.

use crate::query::{Filter, InvalidCursor, Keyset, PageSize, Sort, cursor};
use crate::store::query::{self, Narrow, Order, QueryArgs, QueryRow};
use crate::store::records::{self, FullRecordRow, ListArgs, RecordRow, Slice};
use crate::store::{Db, StoreError};
use belvedere_protocol::atproto::{Did, Nsid};
use belvedere_web::fair_share::Tenant;
use belvedere_web::http::Error;

/// The arguments of a query for a page of records.
#[derive(Clone, Debug)]
pub struct Query {
    pub collection: Nsid,
    pub did: Option<Did>,
    /// Clamped, see [`PageSize::clamp`].
    pub limit: u32,
    pub cursor: Option<String>,
    pub filter: Option<Filter>,
    pub sort: Option<Sort>,
    /// Only records that their lexicon accepts, or only those that it rejects.
    pub valid: Option<bool>,
    /// Further conditions, which only lists of the admin API have.
    pub narrow: Narrow,
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

/// A malformed cursor is the caller's error: 400.
impl From<ReadError> for Error {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Cursor(invalid) => Self::bad_request(invalid.to_string()),
            ReadError::Store(error) => error.into(),
        }
    }
}

impl Query {
    /// The first page of a collection, newest first.
    pub fn of(collection: Nsid) -> Self {
        Self {
            collection,
            did: None,
            limit: PageSize::RECORDS.default,
            cursor: None,
            filter: None,
            sort: None,
            valid: None,
            narrow: Narrow::default(),
        }
    }

    /// Whether it has conditions beyond an account and the validity.
    fn has_conditions(&self) -> bool {
        self.filter.is_some() || self.narrow != *Narrow::ALL
    }

    fn after(&self) -> Result<Option<Keyset>, InvalidCursor> {
        cursor::given(self.cursor.as_deref()).map(cursor::decode).transpose()
    }

    fn list_args<'a>(&'a self, tenant: &'a Tenant) -> Result<ListArgs<'a>, InvalidCursor> {
        Ok(ListArgs {
            collection: &self.collection,
            did: self.did.as_ref(),
            limit: self.limit,
            after: self.after()?,
            tenant,
        })
    }
}

/// Reads a page, at the expense of `tenant`.
///
/// # Errors
/// [`ReadError::Cursor`] for a cursor that is not of such a query.
pub async fn read(db: &Db, query: &Query, tenant: &Tenant) -> Result<Page, ReadError> {
    if let Some(sort) = &query.sort {
        return read_sorted(db, query, sort, tenant).await;
    }
    if query.valid.is_none() && !query.has_conditions() {
        return Ok(page(records::list(db, &query.list_args(tenant)?).await?, plain_cursor));
    }
    let args = QueryArgs {
        collection: &query.collection,
        did: query.did.as_ref(),
        filter: query.filter.as_ref(),
        narrow: &query.narrow,
        valid: query.valid,
        order: Order::Newest { after: query.after()? },
        limit: query.limit,
        tenant,
    };
    let Slice { rows, more } = query::query(db, &args).await?;
    Ok(page(Slice { rows: rows.into_iter().map(|row| row.row).collect(), more }, plain_cursor))
}

fn plain_cursor(row: &RecordRow) -> String {
    cursor::encode(Keyset { indexed_at: row.indexed_at, id: row.id })
}

async fn read_sorted(db: &Db, query: &Query, sort: &Sort, tenant: &Tenant) -> Result<Page, ReadError> {
    let after = cursor::given(query.cursor.as_deref()).map(cursor::decode_sorted).transpose()?;
    if after.as_ref().is_some_and(|after| !sort.accepts(&after.value)) {
        return Err(InvalidCursor.into());
    }
    let args = QueryArgs {
        collection: &query.collection,
        did: query.did.as_ref(),
        filter: query.filter.as_ref(),
        narrow: &query.narrow,
        valid: query.valid,
        order: Order::By { sort, after: after.as_ref() },
        limit: query.limit,
        tenant,
    };
    let slice = query::query(db, &args).await?;
    let page = page(slice, |row| row.place.as_ref().map(cursor::encode_sorted).unwrap_or_default());
    Ok(Page { rows: page.rows.into_iter().map(|row| row.row).collect(), cursor: page.cursor })
}

/// As [`read`], for the admin API: rows have CID and times. Newest first, whatever the sort.
///
/// # Errors
/// As [`read`].
pub async fn read_full(db: &Db, query: &Query) -> Result<Page<FullRecordRow>, ReadError> {
    let tenant = Tenant::Instance;
    if !query.has_conditions() {
        let slice = records::list_full(db, &query.list_args(&tenant)?, query.valid).await?;
        return Ok(page(slice, |full| plain_cursor(&full.row)));
    }
    let Page { rows, cursor } = read(db, &Query { sort: None, ..query.clone() }, &tenant).await?;
    let rows = records::with_all_columns(db, rows).await?;
    Ok(Page { rows, cursor })
}

/// A row that a page can contain.
pub(super) trait PageRow {
    /// Whether the record was deleted while it was read.
    fn is_deleted(&self) -> bool;
}

impl PageRow for RecordRow {
    fn is_deleted(&self) -> bool {
        self.record.is_empty()
    }
}

impl PageRow for FullRecordRow {
    fn is_deleted(&self) -> bool {
        self.row.is_deleted()
    }
}

impl PageRow for QueryRow {
    fn is_deleted(&self) -> bool {
        self.row.is_deleted()
    }
}

/// Builds a page. The cursor names the last row, even if its record was deleted meanwhile.
pub(super) fn page<R: PageRow>(slice: Slice<R>, cursor: impl Fn(&R) -> String) -> Page<R> {
    let Slice { mut rows, more } = slice;
    let cursor = if more { rows.last().map(cursor) } else { None };
    rows.retain(|row| !row.is_deleted());
    Page { rows, cursor }
}

#[cfg(test)]
mod tests {
    use super::*;
    use belvedere_base::clock::Timestamp;

    #[test]
    fn limits_are_clamped() {
        for (limit, expected) in [
            (None, 20),
            (Some(0), 1),
            (Some(-5), 1),
            (Some(i64::MIN), 1),
            (Some(1), 1),
            (Some(100), 100),
            (Some(101), 100),
            (Some(i64::MAX), 100),
        ] {
            assert_eq!(PageSize::RECORDS.clamp(limit), expected);
        }
    }

    #[test]
    fn a_page_has_a_cursor_only_if_more_rows_exist() {
        let row = |id, record: &'static str| RecordRow {
            id,
            did: String::new(),
            collection: Nsid::try_from("com.example.note").unwrap(),
            rkey: String::new(),
            indexed_at: Timestamp(0),
            record: record.into(),
        };
        let of = |rows: &[(i64, &'static str)], more| {
            let rows = rows.iter().map(|(id, record)| row(*id, record)).collect();
            let page = page(Slice { rows, more }, |row| row.id.to_string());
            (page.rows.iter().map(|row| row.id).collect::<Vec<_>>(), page.cursor)
        };
        assert_eq!(of(&[(1, "{}"), (2, "{}")], false), (vec![1, 2], None));
        assert_eq!(of(&[(1, "{}"), (2, "{}")], true), (vec![1, 2], Some("2".to_owned())));
        assert_eq!(of(&[], false), (vec![], None));
        // A record that was deleted during the read is left out, and the next page continues after it.
        assert_eq!(of(&[(1, "{}"), (2, "")], true), (vec![1], Some("2".to_owned())));
    }
}
