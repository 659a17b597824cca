//! A stand-in for the index, for tests and benchmarks of what is around it.

use std::future::{Pending, Ready, pending, ready};

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;

use super::{Index, IndexError, RawAnswer};
use belvedere_protocol::atproto::{Did, RecordUri};
use belvedere_storage::query::group::GroupRow;
use belvedere_storage::query::sort::SortValue;
use belvedere_storage::query::{Backlinks, Group, Links, Query, Search, SqlPage};
use belvedere_storage::store::Backend;
use belvedere_storage::store::records::{Page, RecordRow};
use belvedere_storage::store::search::SearchPage;
use belvedere_web::fair_share::Tenant;

/// A method of [`Index`], for which a [`StandIn`] may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexRead {
    Count,
    Other,
}

/// An index that answers each read from the same page, after it has waited.
pub struct StandIn<W> {
    page: Page,
    wait: W,
}

impl<W> std::fmt::Debug for StandIn<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StandIn").field("page", &self.page).finish_non_exhaustive()
    }
}

impl<F: Future<Output = ()> + Send, W: Fn(IndexRead) -> F + Send + Sync> StandIn<W> {
    /// Waits for the future of each read.
    pub fn waiting(page: Page, wait: W) -> Self {
        Self { page, wait }
    }

    fn after<'a, T: Send + 'a>(
        &'a self,
        read: IndexRead,
        answer: impl FnOnce(&'a Page) -> T + Send + 'a,
    ) -> BoxFuture<'a, Result<T, IndexError>> {
        async move {
            (self.wait)(read).await;
            Ok(answer(&self.page))
        }
        .boxed()
    }
}

impl StandIn<fn(IndexRead) -> Ready<()>> {
    /// Answers at once.
    pub fn of(page: Page) -> Self {
        Self { page, wait: |_| ready(()) }
    }
}

impl StandIn<fn(IndexRead) -> Pending<()>> {
    /// Never answers.
    pub fn silent() -> Self {
        Self { page: Page::empty(), wait: |_| pending() }
    }
}

impl<F: Future<Output = ()> + Send, W: Fn(IndexRead) -> F + Send + Sync> Index for StandIn<W> {
    fn query(&self, _: Tenant, _: Query) -> BoxFuture<'_, Result<Page, IndexError>> {
        self.after(IndexRead::Other, Page::clone)
    }

    fn get(&self, _: Tenant, _: RecordUri) -> BoxFuture<'_, Result<Option<RecordRow>, IndexError>> {
        self.after(IndexRead::Other, |page| page.rows.first().cloned())
    }

    fn count(&self, _: Tenant, _: Query) -> BoxFuture<'_, Result<u64, IndexError>> {
        self.after(IndexRead::Count, |page| page.rows.len() as u64)
    }

    fn group(&self, _: Tenant, _: Group) -> BoxFuture<'_, Result<Vec<GroupRow>, IndexError>> {
        self.after(IndexRead::Other, |_| Vec::new())
    }

    fn backlinks(&self, _: Tenant, _: Backlinks) -> BoxFuture<'_, Result<Page, IndexError>> {
        self.after(IndexRead::Other, Page::clone)
    }

    fn link_counts(
        &self,
        _: Tenant,
        _: Links,
        _: Vec<String>,
    ) -> BoxFuture<'_, Result<Vec<u64>, IndexError>> {
        self.after(IndexRead::Other, |_| Vec::new())
    }

    fn links_of(
        &self,
        _: Tenant,
        _: Did,
        _: Links,
        _: Vec<String>,
    ) -> BoxFuture<'_, Result<Vec<Option<String>>, IndexError>> {
        self.after(IndexRead::Other, |_| Vec::new())
    }

    fn raw(&self, _: Tenant, _: String, _: Bytes) -> BoxFuture<'_, Result<RawAnswer, IndexError>> {
        self.after(IndexRead::Other, |_| RawAnswer { rows: b"[]".to_vec(), ..RawAnswer::default() })
    }

    fn page(
        &self,
        _: Tenant,
        _: String,
        _: Bytes,
        _: SqlPage,
    ) -> BoxFuture<'_, Result<(RawAnswer, Option<Vec<SortValue>>), IndexError>> {
        self.after(IndexRead::Other, |_| (RawAnswer::default(), None))
    }

    fn search(&self, _: Tenant, _: Search) -> BoxFuture<'_, Result<SearchPage, IndexError>> {
        self.after(IndexRead::Other, |page| SearchPage { rows: page.rows.clone(), next: None })
    }

    fn backend(&self) -> Backend {
        Backend::Sqlite
    }
}
