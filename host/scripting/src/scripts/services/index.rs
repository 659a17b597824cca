//! The index and SQL, as runs use them.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;

use belvedere_instance::xrpc::Caller;
use belvedere_protocol::atproto::{Did, RecordUri};
use belvedere_storage::query::group::GroupRow;
use belvedere_storage::query::sort::SortValue;
use belvedere_storage::query::{Backlinks, Group, Links, Query, Search, SqlPage};
use belvedere_storage::store::Backend;
use belvedere_storage::store::records::{Page, RecordRow};
use belvedere_storage::store::search::SearchPage;
use belvedere_web::fair_share::Tenant;

/// The result of a statement of `db.raw`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RawAnswer {
    /// JSON text of an array of objects.
    pub rows: Vec<u8>,
    pub count: usize,
    /// Rows that an INSERT, UPDATE or DELETE touched.
    pub changed: Option<u64>,
}

/// The rows of a page, and the values of its order in the last one if more rows follow.
pub type RawPage = (RawAnswer, Option<Vec<SortValue>>);

/// The reason why the index did not answer.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    /// An argument is invalid. The script sees the text, as a Lua error.
    #[error("{0}")]
    Invalid(String),
    /// The script has no permission for this. It sees the text.
    #[error("{0}")]
    Forbidden(String),
    /// The call would take too much time or memory. The script sees the text.
    #[error("{0}")]
    Limit(String),
    /// The database failed. The script sees "database unavailable"; the cause goes to the log.
    #[error("database unavailable")]
    Unavailable(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// Reads the index, for `db.*`. Calls that scan many records take one of the tenant's permits for scans.
pub trait Index: Send + Sync {
    fn query(&self, tenant: Tenant, query: Query) -> BoxFuture<'_, Result<Page, IndexError>>;
    /// `None` when the index has no such record.
    fn get(&self, tenant: Tenant, uri: RecordUri) -> BoxFuture<'_, Result<Option<RecordRow>, IndexError>>;
    /// The number of records that a query finds, on all pages.
    fn count(&self, tenant: Tenant, query: Query) -> BoxFuture<'_, Result<u64, IndexError>>;
    /// The numbers of records by values of theirs.
    fn group(&self, tenant: Tenant, group: Group) -> BoxFuture<'_, Result<Vec<GroupRow>, IndexError>>;
    fn backlinks(&self, tenant: Tenant, links: Backlinks) -> BoxFuture<'_, Result<Page, IndexError>>;
    /// The number of records with such a link to each target, in the order of the targets.
    fn link_counts(
        &self,
        tenant: Tenant,
        links: Links,
        targets: Vec<String>,
    ) -> BoxFuture<'_, Result<Vec<u64>, IndexError>>;
    /// The rkey of the account's newest record with such a link to each target, in the order of the targets.
    fn links_of(
        &self,
        tenant: Tenant,
        account: Did,
        links: Links,
        targets: Vec<String>,
    ) -> BoxFuture<'_, Result<Vec<Option<String>>, IndexError>>;
    /// One SQL statement; `params` is the JSON text of an array.
    fn raw(&self, tenant: Tenant, sql: String, params: Bytes)
    -> BoxFuture<'_, Result<RawAnswer, IndexError>>;
    /// A page of the rows of a SELECT, and the values of its order in the last one if more rows follow.
    fn page(
        &self,
        tenant: Tenant,
        sql: String,
        params: Bytes,
        page: SqlPage,
    ) -> BoxFuture<'_, Result<RawPage, IndexError>>;
    /// A page of records with a text in a field, best match first.
    fn search(&self, tenant: Tenant, search: Search) -> BoxFuture<'_, Result<SearchPage, IndexError>>;
    fn backend(&self) -> Backend;
    /// The index for one run that answers a query of this caller: it may be slightly old, but has all that the caller
    /// has written. `None` when this index answers such runs too.
    fn for_query(&self, _caller: &Caller) -> Option<Arc<dyn Index>> {
        None
    }
    /// Called when the run has written: the rest of its reads see the newest state.
    fn set_written(&self) {}
}
