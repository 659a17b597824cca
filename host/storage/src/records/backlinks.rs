//! Reads backlinks: the records of a collection that refer to a target, last created first.

use crate::query::{Keyset, cursor};
use crate::store::Db;
use crate::store::records::backlinks::{self, BacklinksArgs};
use belvedere_protocol::atproto::{Did, Nsid};
use belvedere_web::fair_share::Tenant;

use super::page::{Page, ReadError, page};

/// The arguments of a backlinks query.
#[derive(Clone, Debug)]
pub struct Backlinks {
    /// The collection of the records that refer to the target.
    pub collection: Nsid,
    /// The target's AT URI, spelled as in the records.
    pub uri: String,
    pub did: Option<Did>,
    /// Clamped, see [`PageSize::clamp`](crate::query::PageSize::clamp).
    pub limit: u32,
    pub cursor: Option<String>,
}

/// Reads a page of backlinks for `tenant`.
///
/// # Errors
/// [`ReadError::Cursor`] for a cursor that is not of such a page.
pub async fn read(db: &Db, links: &Backlinks, tenant: &Tenant) -> Result<Page, ReadError> {
    let after = cursor::given(links.cursor.as_deref()).map(cursor::decode).transpose()?;
    let args = BacklinksArgs {
        collection: &links.collection,
        target: &links.uri,
        did: links.did.as_ref(),
        limit: links.limit,
        after: after.map(|after| after.id),
        tenant,
    };
    let slice = backlinks::list(db, &args).await?;
    Ok(page(slice, |row| cursor::encode(Keyset { indexed_at: row.indexed_at, id: row.id })))
}
