//! `db.query`: filters and sorts on record fields, compiled to SQL for each dialect.

use crate::atproto::{Did, Nsid};
use crate::records::filter::Filter;
use crate::records::sort::{Sort, SortKeyset};

use super::records::{Keyset, RecordRow};
use super::{Db, StoreError};

#[derive(Clone, Debug)]
pub struct QueryArgs<'a> {
    pub collection: &'a Nsid,
    pub did: Option<&'a Did>,
    pub filter: Option<&'a Filter>,
    pub order: Order<'a>,
    pub limit: u32,
}

#[derive(Clone, Debug)]
pub enum Order<'a> {
    /// Newest first.
    Newest {
        after: Option<Keyset>,
    },
    By {
        sort: &'a Sort,
        after: Option<&'a SortKeyset>,
    },
}

/// A row with its place in the order asked for.
#[derive(Clone, Debug)]
pub struct QueryRow {
    pub row: RecordRow,
    /// `Some` for [`Order::By`].
    pub place: Option<SortKeyset>,
}

pub async fn query(_db: &Db, _args: &QueryArgs<'_>) -> Result<Vec<QueryRow>, StoreError> {
    todo!()
}
