//! Tests of the engine from outside: scripts in, results and failures out, with fakes for the index and the log.

mod answers;
mod api;
mod atproto;
mod bounds;
mod db;
mod faults;
mod hostile;
mod http;
mod json;
mod libraries;
mod limits;
mod lines;
mod memory;
mod names;
mod parallel;
mod plugin_components;
mod plugins;
mod pool;
mod profile;
mod record;
mod recording;
mod rows;
mod sandbox;
mod v3;
mod xrpc;

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::Value;
use tokio::sync::OnceCell;

use super::services::RawAnswer;
use super::{
    Engine, EngineConfig, FailureKind, Index, IndexError, Invocation, LogLine, LogSink, Outcome,
    ScriptFailure, Services,
};
use belvedere_base::clock::{Clock, Timestamp};
use belvedere_base::random::Random;
use belvedere_instance::xrpc::Caller;
use belvedere_protocol::atproto::{Did, RecordUri};
use belvedere_protocol::trigger::Trigger;
use belvedere_storage::query::group::GroupRow;
use belvedere_storage::query::sort::SortValue;
use belvedere_storage::query::{
    Backlinks, Group, Keyset, Links, PageSize, Position, Query, Relevance, Search, SqlPage,
};
use belvedere_storage::store::Backend;
use belvedere_storage::store::records::{Page, RecordRow};
use belvedere_storage::store::search::SearchPage;
use belvedere_web::fair_share::Tenant;

pub(super) const TRIGGER: &str = "xrpc.query:com.example.get";

/// 2023-11-14T22:13:20.123456Z
pub(super) const NOW: Timestamp = Timestamp(1_700_000_000_123_456);

/// The end of each page of the [`FakeIndex`], unless its query has the default limit.
pub(super) const END: Position = Position::Time(Keyset { indexed_at: NOW, id: 1 });

/// An index of given rows that records its queries.
#[derive(Default)]
pub(super) struct FakeIndex {
    pub(super) rows: Mutex<Vec<RecordRow>>,
    pub(super) queries: Mutex<Vec<Query>>,
    pub(super) groups: Mutex<Vec<Group>>,
    pub(super) sql_pages: Mutex<Vec<SqlPage>>,
    pub(super) searches: Mutex<Vec<Search>>,
}

impl Index for FakeIndex {
    fn query(&self, _tenant: Tenant, query: Query) -> BoxFuture<'_, Result<Page, IndexError>> {
        async move {
            if query.collection.as_str() == "com.example.down" {
                return Err(IndexError::Unavailable("the disk is on fire".into()));
            }
            let rows = self.rows.lock().unwrap().clone();
            let next = (query.limit != PageSize::RECORDS.default).then_some(END);
            self.queries.lock().unwrap().push(query);
            tokio::task::yield_now().await; // as a database would
            Ok(Page { rows, next, previous: None })
        }
        .boxed()
    }

    fn get(&self, _tenant: Tenant, uri: RecordUri) -> BoxFuture<'_, Result<Option<RecordRow>, IndexError>> {
        async move {
            let uri = uri.to_string();
            Ok(self.rows.lock().unwrap().iter().find(|row| row.uri() == uri).cloned())
        }
        .boxed()
    }

    fn count(&self, _tenant: Tenant, query: Query) -> BoxFuture<'_, Result<u64, IndexError>> {
        async move {
            let counted = if query.did.is_some() { 1 } else { self.rows.lock().unwrap().len() };
            self.queries.lock().unwrap().push(query);
            Ok(counted as u64)
        }
        .boxed()
    }

    fn group(&self, _tenant: Tenant, group: Group) -> BoxFuture<'_, Result<Vec<GroupRow>, IndexError>> {
        async move {
            let row = |n: u64| GroupRow {
                keys: group.by.iter().map(|_| (n > 1).then(|| n.into())).collect(),
                count: n,
            };
            let rows = vec![row(2), row(1)];
            self.groups.lock().unwrap().push(group);
            Ok(rows)
        }
        .boxed()
    }

    fn backlinks(&self, tenant: Tenant, links: Backlinks) -> BoxFuture<'_, Result<Page, IndexError>> {
        self.query(tenant, Query { limit: links.limit, ..Query::of(links.links.collection) })
    }

    fn link_counts(
        &self,
        _: Tenant,
        _: Links,
        targets: Vec<String>,
    ) -> BoxFuture<'_, Result<Vec<u64>, IndexError>> {
        async move { Ok(vec![1; targets.len()]) }.boxed()
    }

    fn links_of(
        &self,
        _: Tenant,
        _: Did,
        _: Links,
        targets: Vec<String>,
    ) -> BoxFuture<'_, Result<Vec<Option<String>>, IndexError>> {
        async move { Ok(vec![Some("k".to_owned()); targets.len()]) }.boxed()
    }

    fn raw(
        &self,
        _tenant: Tenant,
        sql: String,
        params: Bytes,
    ) -> BoxFuture<'_, Result<RawAnswer, IndexError>> {
        // Returns its parameters.
        async move {
            if sql.is_empty() {
                return Err(IndexError::Forbidden("no".to_owned()));
            }
            Ok(RawAnswer { rows: params.to_vec(), count: 1, changed: Some(7) })
        }
        .boxed()
    }

    fn page(
        &self,
        _tenant: Tenant,
        _sql: String,
        params: Bytes,
        page: SqlPage,
    ) -> BoxFuture<'_, Result<(RawAnswer, Option<Vec<SortValue>>), IndexError>> {
        // Returns its parameters, on two pages.
        async move {
            let next =
                page.after.is_none().then(|| vec![SortValue::Number("1".to_owned()); page.order.len()]);
            self.sql_pages.lock().unwrap().push(page);
            Ok((RawAnswer { rows: params.to_vec(), count: 1, changed: None }, next))
        }
        .boxed()
    }

    fn search(&self, _tenant: Tenant, search: Search) -> BoxFuture<'_, Result<SearchPage, IndexError>> {
        async move {
            let has_more = search.after.is_none() && search.limit != PageSize::SEARCH.default;
            let next = has_more.then(|| Relevance { rank: 0, key: search.text.clone(), id: 1 });
            self.searches.lock().unwrap().push(search);
            Ok(SearchPage { rows: self.rows.lock().unwrap().clone(), next })
        }
        .boxed()
    }

    fn backend(&self) -> Backend {
        Backend::Sqlite
    }
}

#[derive(Default)]
pub(super) struct FakeLog(pub(super) Mutex<Vec<LogLine>>);

impl LogSink for FakeLog {
    fn write(&self, line: LogLine) {
        self.0.lock().unwrap().push(line);
    }

    fn admit(&self, _tenant: &Tenant, _trigger: &Arc<str>, _bytes: usize, _now: Timestamp) -> bool {
        true
    }

    fn report_dropped(&self, _now: Timestamp) {}
}

/// An engine with fake services.
pub(super) struct Stage {
    pub(super) engine: Engine,
    pub(super) services: Services,
    pub(super) index: Arc<FakeIndex>,
    pub(super) lines: Arc<FakeLog>,
}

/// The directory of the compiled guest, shared by all tests and test processes.
pub(super) fn cache_dir() -> std::path::PathBuf {
    let user = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata("/proc/self").unwrap());
    std::env::temp_dir().join(format!("belvedere-test-guest-{user}"))
}

/// One engine for the tests of a process.
pub(super) async fn engine() -> Engine {
    static ENGINE: OnceCell<Engine> = OnceCell::const_new();
    ENGINE.get_or_init(async || Engine::open(EngineConfig::new(cache_dir())).await.unwrap()).await.clone()
}

/// A caller with an account and nothing else.
pub(super) fn account(did: &str) -> Caller {
    Caller { did: Some(Did::try_from(did).unwrap()), ..Caller::default() }
}

/// A caller of an API client, who has its share.
pub(super) fn of_client(id: &str) -> Caller {
    Caller { client: Some(id.into()), tenant: Tenant::client(id), ..Caller::default() }
}

impl Stage {
    pub(super) async fn set() -> Self {
        let (index, lines) = (Arc::new(FakeIndex::default()), Arc::new(FakeLog::default()));
        let services = Services::new(index.clone(), lines.clone(), Clock::fixed(NOW), Random::system());
        Self { engine: engine().await, services, index, lines }
    }

    pub(super) async fn run_with(
        &self,
        source: &str,
        invocation: Invocation<'_>,
    ) -> Result<Outcome, ScriptFailure> {
        let script = self.engine.compile(Trigger::parse(TRIGGER).unwrap(), source).await;
        self.engine.run(&script, invocation, &self.services).await
    }

    /// Runs a whole script.
    pub(super) async fn run(&self, source: &str) -> Result<Value, ScriptFailure> {
        let outcome = self.run_with(source, Invocation::default()).await?;
        Ok(serde_json::from_slice(&outcome.body).unwrap())
    }

    /// Runs `body` as the body of `handle()`.
    pub(super) async fn handle(&self, body: &str) -> Result<Value, ScriptFailure> {
        self.run(&format!("function handle() {body} end")).await
    }

    /// The value of an expression.
    pub(super) async fn eval(&self, expression: &str) -> Value {
        self.handle(&format!("return {expression}"))
            .await
            .unwrap_or_else(|failure| panic!("{expression}: {failure}"))
    }

    /// The message of the error that an expression raises.
    pub(super) async fn error_of(&self, expression: &str) -> String {
        let source = format!("local _ = {expression}");
        match self.handle(&source).await {
            Err(failure) if failure.kind == FailureKind::Runtime => failure.message,
            other => panic!("{expression}: {other:?}"),
        }
    }

    pub(super) fn put(&self, rows: &[(&str, &str)]) {
        let row = |(uri, record): &(&str, &str)| {
            let RecordUri { did, collection, rkey } = RecordUri::parse(uri).unwrap();
            RecordRow {
                id: 0,
                did: did.to_string(),
                collection,
                rkey: rkey.to_string(),
                indexed_at: NOW,
                cid: belvedere_protocol::atproto::record::inspect(record.as_bytes())
                    .ok()
                    .and_then(|read| read.cid.ok()),
                record: Bytes::copy_from_slice(record.as_bytes()),
            }
        };
        *self.index.rows.lock().unwrap() = rows.iter().map(row).collect();
    }
}
