//! How the admin API shows a domain.

use serde::Serialize;

use crate::clock::Timestamp;
use crate::store::domains::DomainRow;

#[derive(Debug, Serialize)]
pub(super) struct DomainView {
    id: String,
    url: String,
    is_primary: bool,
    created_at: Timestamp,
    updated_at: Timestamp,
}

impl From<DomainRow> for DomainView {
    fn from(row: DomainRow) -> Self {
        let DomainRow { id, url, is_primary, created_at, updated_at } = row;
        Self { id, url, is_primary, created_at, updated_at }
    }
}
