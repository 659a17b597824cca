//! Lists backlinks: the records that refer to an AT URI or a DID. The primary key of `record_refs` ends in the id of the
//! referring record, and ids rise with each record that is created, so the newest backlinks are read in order without a
//! sort.

use std::sync::LazyLock;

use belvedere_web::fair_share::Tenant;

use super::super::intern::{self, Collection};
use super::super::select::{By, Select, Target};
use super::super::types::to_json_text;
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
    let scans = links.did.is_some()
        || match &links.links.path {
            Some(path) => is_rare(db, collection, path, std::slice::from_ref(&links.target)).await?,
            None => false,
        };
    let permit = if scans { db.scan_permit(tenant).await? } else { db.read_permit(tenant).await? };
    let after = match links.after {
        Some(Position::Time(keyset)) => Some(keyset),
        _ => None,
    };
    let select = Select {
        by: By::Target { target: Target::Value(&links.target), path: links.links.path.as_deref() },
        did: links.did.as_ref(),
        after,
        ..Select::page(nsid, collection, links.limit)
    };
    let found = select.rows(db, scans).await?;
    drop(permit);
    select.complete(db, found).await
}

/// The targets, of a collection, that have few of many links at a path. On SQLite and on PostgreSQL.
static COUNT_RARE: LazyLock<[String; 2]> = LazyLock::new(|| {
    ["SELECT value FROM json_each($1)", "SELECT jsonb_array_elements_text($1::text::jsonb)"].map(|targets| {
        format!(
            "SELECT count(*) FROM (SELECT coalesce(max(CASE WHEN path = '' THEN links END), 0) AS links, \
                 coalesce(max(CASE WHEN path <> '' THEN links END), 0) AS of_path FROM link_counts \
             WHERE collection_id = $2 AND path IN ('', $3) AND target IN ({targets}) GROUP BY target) t \
             WHERE of_path * {RARE} < links"
        )
    })
});

/// Whether a page of one path passes over most links of one of these targets, which has many.
pub(super) async fn is_rare(
    db: &Db,
    collection: Collection,
    path: &str,
    targets: &[String],
) -> Result<bool, StoreError> {
    let sql: &'static str = match db {
        Db::Sqlite(_) => &COUNT_RARE[0],
        Db::Postgres(_) => &COUNT_RARE[1],
    };
    let targets = to_json_text(targets);
    let rare: i64 = hot!(db, |pool| {
        sqlx::query_scalar(sql).bind(&targets).bind(collection.id).bind(path).fetch_one(pool).await
    })?;
    Ok(rare > 0)
}
