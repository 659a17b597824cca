//! Implements the services of runs on this server's index, labels and logs.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;

use super::{ActiveLabel, Index, IndexError, Labels, LogLevel, LogLine, LogSink, RawAnswer};
use crate::scripts::Variables;
use belvedere_base::clock::{Clock, Timestamp};
use belvedere_instance::events::{Event, EventLog};
use belvedere_instance::labels::LabelIssuer;
use belvedere_instance::xrpc::Caller;
use belvedere_protocol::atproto::{Did, RecordUri};
use belvedere_storage::query::group::GroupRow;
use belvedere_storage::query::sort::SortValue;
use belvedere_storage::query::{Backlinks, Group, Links, Query, Search, SqlPage};
use belvedere_storage::store::records::{self, Page, RecordRow, backlinks};
use belvedere_storage::store::replicas::{CallerReads, ReadDb};
use belvedere_storage::store::script_sql::{self, ScriptSqlError};
use belvedere_storage::store::search::{self, SearchPage};
use belvedere_storage::store::{Backend, Db, StoreError, query};
use belvedere_wasm::sandbox::{DroppedLines, LogShares};
use belvedere_web::fair_share::Tenant;

/// Implements `db.*` on the record index. A malformed argument is the script's error, with a text for its author.
#[derive(Debug)]
pub struct ServerIndex {
    db: Db,
    /// For a run whose reads replicas may answer.
    reads: Option<CallerReads>,
}

impl ServerIndex {
    pub fn new(db: Db) -> Self {
        Self { db, reads: None }
    }

    /// The database for one read of records.
    async fn reading(&self) -> ReadDb<'_> {
        match &self.reads {
            Some(reads) => reads.database(&self.db).await,
            None => ReadDb::primary(&self.db),
        }
    }
}

impl Index for ServerIndex {
    fn query(&self, tenant: Tenant, query: Query) -> BoxFuture<'_, Result<Page, IndexError>> {
        Box::pin(
            async move { query::read(&*self.reading().await, &query, &tenant).await.map_err(store_error) },
        )
    }

    fn get(&self, tenant: Tenant, uri: RecordUri) -> BoxFuture<'_, Result<Option<RecordRow>, IndexError>> {
        Box::pin(async move {
            let db = self.reading().await;
            let _permit = db.read_permit(&tenant).await.map_err(store_error)?;
            records::get(&db, &uri).await.map_err(store_error)
        })
    }

    fn count(&self, tenant: Tenant, query: Query) -> BoxFuture<'_, Result<u64, IndexError>> {
        Box::pin(
            async move { query::count(&*self.reading().await, &query, &tenant).await.map_err(store_error) },
        )
    }

    fn group(&self, tenant: Tenant, group: Group) -> BoxFuture<'_, Result<Vec<GroupRow>, IndexError>> {
        Box::pin(
            async move { query::group(&*self.reading().await, &group, &tenant).await.map_err(store_error) },
        )
    }

    fn backlinks(&self, tenant: Tenant, links: Backlinks) -> BoxFuture<'_, Result<Page, IndexError>> {
        Box::pin(async move {
            backlinks::read(&*self.reading().await, &links, &tenant).await.map_err(store_error)
        })
    }

    fn link_counts(
        &self,
        tenant: Tenant,
        links: Links,
        targets: Vec<String>,
    ) -> BoxFuture<'_, Result<Vec<u64>, IndexError>> {
        Box::pin(async move {
            let db = self.reading().await;
            records::links::count(&db, &links, &targets, &tenant).await.map_err(store_error)
        })
    }

    fn links_of(
        &self,
        tenant: Tenant,
        account: Did,
        links: Links,
        targets: Vec<String>,
    ) -> BoxFuture<'_, Result<Vec<Option<String>>, IndexError>> {
        Box::pin(async move {
            let db = self.reading().await;
            records::links::of_account(&db, &account, &links, &targets, &tenant).await.map_err(store_error)
        })
    }

    fn raw(
        &self,
        tenant: Tenant,
        sql: String,
        params: Bytes,
    ) -> BoxFuture<'_, Result<RawAnswer, IndexError>> {
        Box::pin(async move {
            let params = params_of(&params)?;
            let answer = script_sql::run(&self.db, &tenant, &sql, &params).await.map_err(sql_error)?;
            Ok(raw_answer(answer))
        })
    }

    fn page(
        &self,
        tenant: Tenant,
        sql: String,
        params: Bytes,
        page: SqlPage,
    ) -> BoxFuture<'_, Result<(RawAnswer, Option<Vec<SortValue>>), IndexError>> {
        Box::pin(async move {
            let params = params_of(&params)?;
            let read =
                script_sql::read_page(&self.db, &tenant, &sql, &params, &page).await.map_err(sql_error)?;
            Ok((raw_answer(read.answer), read.next))
        })
    }

    fn search(&self, tenant: Tenant, search: Search) -> BoxFuture<'_, Result<SearchPage, IndexError>> {
        Box::pin(
            async move { search::read(&*self.reading().await, &search, &tenant).await.map_err(store_error) },
        )
    }

    fn backend(&self) -> Backend {
        self.db.backend()
    }

    fn for_query(&self, caller: &Caller) -> Option<Arc<dyn Index>> {
        let reads = CallerReads::of(&self.db, || caller.writer())?;
        Some(Arc::new(Self { db: self.db.clone(), reads: Some(reads) }))
    }

    fn set_written(&self) {
        if let Some(reads) = &self.reads {
            reads.set_written();
        }
    }
}

/// The parameters of a statement, from a JSON array.
fn params_of(json: &[u8]) -> Result<Vec<serde_json::Value>, IndexError> {
    serde_json::from_slice(json).map_err(|error| IndexError::Invalid(format!("params: {error}")))
}

fn raw_answer(answer: script_sql::Answer) -> RawAnswer {
    RawAnswer { rows: answer.rows, count: answer.count, changed: answer.changed }
}

fn invalid_input(error: impl std::error::Error) -> IndexError {
    IndexError::Invalid(error.to_string())
}

pub(in crate::scripts) fn store_error(error: StoreError) -> IndexError {
    match error {
        StoreError::TooSlow => {
            IndexError::Limit(format!("{error}: narrow the query with did, an = condition or a cursor"))
        }
        StoreError::Busy(_) => IndexError::Limit(error.to_string()),
        other => IndexError::Unavailable(Box::new(other)),
    }
}

/// Maps the failure of a statement to the fault codes that its author can distinguish.
fn sql_error(error: ScriptSqlError) -> IndexError {
    match error {
        ScriptSqlError::Refused(refusal) if refusal.is_forbidden() => {
            IndexError::Forbidden(refusal.to_string())
        }
        ScriptSqlError::Refused(_) | ScriptSqlError::Database(_) => invalid_input(error),
        ScriptSqlError::RoleError(_) | ScriptSqlError::InShards => IndexError::Forbidden(error.to_string()),
        ScriptSqlError::TooSlow
        | ScriptSqlError::Overrun
        | ScriptSqlError::TooManyRows
        | ScriptSqlError::TooLarge
        | ScriptSqlError::TemporaryFiles
        | ScriptSqlError::Full
        | ScriptSqlError::TooManyRelations => IndexError::Limit(error.to_string()),
        ScriptSqlError::Store(error) => store_error(error),
    }
}

/// Reads labels from the store, and issues those of this server.
#[derive(Clone, Debug)]
pub struct ServerLabels(pub Db, pub Clock, pub LabelIssuer);

impl Labels for ServerLabels {
    fn active(
        &self,
        subjects: Vec<String>,
    ) -> BoxFuture<'_, Result<HashMap<String, Vec<ActiveLabel>>, IndexError>> {
        Box::pin(async move {
            let active = belvedere_storage::store::labels::active(&self.0, &subjects, self.1.now())
                .await
                .map_err(store_error)?;
            let to_active = |label: belvedere_storage::store::labels::ActiveLabel| ActiveLabel {
                src: label.src,
                val: label.val,
                cts: label.cts.map(|cts| cts.to_string()).unwrap_or_default(),
            };
            Ok(active
                .into_iter()
                .map(|(uri, labels)| (uri, labels.into_iter().map(to_active).collect()))
                .collect())
        })
    }

    fn issuer(&self) -> Option<LabelIssuer> {
        Some(self.2.clone())
    }
}

/// Writes `log` to the server's log at debug level and to the event log, `print` and `warn` to the server's log only.
/// Lines over the tenant's share of the logs are dropped, counted and reported.
#[derive(Debug)]
pub struct ServerLog {
    events: EventLog,
    /// Their values are redacted from every line.
    variables: Variables,
    shares: LogShares<Tenant>,
}

impl ServerLog {
    pub fn new(events: EventLog, variables: Variables) -> Self {
        Self { events, variables, shares: LogShares::new("belvedere_script_log_lines_dropped_total") }
    }

    fn report(&self, dropped: DroppedLines) {
        let DroppedLines { lines, source: trigger } = dropped;
        let message = format!("{lines} lines were dropped: the scripts of this client log too much");
        tracing::warn!(
            trigger = &*trigger,
            lines,
            "script log lines were dropped: the scripts of this client log too much"
        );
        self.events.record(Event::ScriptLog { caller: None, trigger: trigger.to_string(), message });
    }
}

impl LogSink for ServerLog {
    fn write(&self, mut line: LogLine) {
        // A line that is written nowhere takes nothing from the share.
        if line.level == LogLevel::Debug && !tracing::enabled!(tracing::Level::DEBUG) {
            return;
        }
        if !self.admit(&line.tenant, &line.trigger, line.message.len(), line.at) {
            return;
        }
        if let Cow::Owned(redacted) = self.variables.redact(&line.message) {
            line.message = redacted;
        }
        let trigger: &str = &line.trigger;
        match line.level {
            LogLevel::Warn => tracing::warn!(trigger, message = line.message, "a script warns"),
            LogLevel::Debug => tracing::debug!(trigger, message = line.message, "a script prints"),
            LogLevel::Info => {
                tracing::debug!(trigger, message = line.message, "a script logs");
                self.events.record(Event::ScriptLog {
                    caller: line.caller_did,
                    trigger: trigger.to_owned(),
                    message: line.message,
                });
            }
        }
    }

    fn admit(&self, tenant: &Tenant, trigger: &Arc<str>, bytes: usize, now: Timestamp) -> bool {
        self.shares.admit(tenant, trigger, bytes, now, |dropped| self.report(dropped))
    }

    fn report_dropped(&self, now: Timestamp) {
        for dropped in self.shares.take_dropped(now) {
            self.report(dropped);
        }
    }
}
