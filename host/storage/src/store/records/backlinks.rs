//! Lists backlinks: the records that refer to an AT URI or a DID. The primary key of `record_refs` ends in the id of the
//! referring record, and ids rise with each record that is created, so the newest backlinks are read in order without a
//! sort.

use belvedere_web::fair_share::Tenant;

use super::super::select::{By, Select};
use super::super::{Db, StoreError, intern};
use super::Page;
use crate::query::{Backlinks, Position};

/// Visible records that refer to the target, last created first, at most [`PAGE_BYTES`](super::PAGE_BYTES) of records. A
/// list of one account filters all backlinks of the target, so it takes from the tenant's share of scans.
///
/// # Errors
/// [`StoreError::Busy`], and [`StoreError::TooSlow`] when the list is limited to one account.
pub async fn read(db: &Db, links: &Backlinks, tenant: &Tenant) -> Result<Page, StoreError> {
    let nsid = &links.links.collection;
    let Some(collection) = intern::collection(db, nsid).await? else { return Ok(Page::empty()) };
    let scans = links.did.is_some();
    let permit = if scans { db.scan_permit(tenant).await? } else { db.read_permit(tenant).await? };
    let after = match links.after {
        Some(Position::Time(keyset)) => Some(keyset),
        _ => None,
    };
    let select = Select {
        by: By::Target { target: &links.target, path: links.links.path.as_deref() },
        did: links.did.as_ref(),
        after,
        ..Select::page(nsid, collection, links.limit)
    };
    let found = select.rows(db, scans).await?;
    drop(permit);
    select.complete(db, found).await
}
