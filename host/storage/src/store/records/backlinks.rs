//! Lists backlinks: the records that refer to an AT URI or a DID. The primary key of `record_refs` ends in the id of the
//! referring record, and ids rise with each record that is created, so the newest backlinks are read in order without a
//! sort.

use belvedere_web::fair_share::Tenant;

use super::super::intern::{self, Collection};
use super::super::select::{By, Select};
use super::super::{Db, StoreError, hot};
use super::Page;
use crate::query::{Backlinks, Position};

/// With fewer than one link of so many at its path, a page is a scan.
const RARE: i64 = 10;

/// Visible records that refer to the target, last created first, at most [`PAGE_BYTES`](super::PAGE_BYTES) of records. A
/// list of one account filters all backlinks of the target, and so does one of a path that few of many links have: these take from
/// the tenant's share of scans.
///
/// # Errors
/// [`StoreError::Busy`], and [`StoreError::TooSlow`] for a scan.
pub async fn read(db: &Db, links: &Backlinks, tenant: &Tenant) -> Result<Page, StoreError> {
    let nsid = &links.links.collection;
    let Some(collection) = intern::collection(db, nsid).await? else { return Ok(Page::empty()) };
    let scans = links.did.is_some() || is_rare(db, collection, links).await?;
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

/// Whether a page of one path passes over most links of a target that has many.
async fn is_rare(db: &Db, collection: Collection, links: &Backlinks) -> Result<bool, StoreError> {
    let Some(path) = &links.links.path else { return Ok(false) };
    let sql = "SELECT coalesce(max(CASE WHEN path = '' THEN links END), 0), coalesce(max(CASE WHEN path <> '' THEN links END), 0) \
               FROM link_counts WHERE target = $1 AND collection_id = $2 AND path IN ('', $3)";
    let (all, of_path): (i64, i64) = hot!(db, |pool| {
        sqlx::query_as(sql).bind(&links.target).bind(collection.id).bind(path).fetch_one(pool).await
    })?;
    Ok(of_path * RARE < all)
}
