//! What scripts of this server reach: its index, and its event log.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;

use super::Variables;
use super::log_shares::{Dropped, LogShares, Verdict};
use super::services::{
    Backlinks, HeldLabel, Index, IndexError, Labels, LogLevel, LogLine, LogSink, Page, Query, RawAnswer, Row,
    Search,
};
use crate::atproto::{Did, Nsid, RecordUri};
use crate::clock::{Clock, Timestamp};
use crate::events::{Event, EventLog};
use crate::fair_share::Tenant;
use crate::query::{Direction, Filter, Sort};
use crate::records::{self, ReadError, page};
use crate::store::records::RecordRow;
use crate::store::script_sql::{self, RawError};
use crate::store::{Db, StoreError};

/// `db.*` over the record index. A malformed argument is the script's error, with a text for its author.
#[derive(Clone, Debug)]
pub struct ServerIndex(pub Db);

impl Index for ServerIndex {
    fn query(&self, tenant: Tenant, query: Query) -> BoxFuture<'_, Result<Page, IndexError>> {
        Box::pin(async move {
            let page = page::read(&self.0, &translate(query)?, &tenant).await.map_err(unreadable)?;
            Ok(Page { rows: page.rows.into_iter().map(row).collect(), cursor: page.cursor })
        })
    }

    fn get(&self, uri: String) -> BoxFuture<'_, Result<Option<Row>, IndexError>> {
        Box::pin(async move {
            let uri = RecordUri::parse(&uri).map_err(invalid)?;
            let found = crate::store::records::get(&self.0, &uri).await.map_err(unavailable)?;
            Ok(found.map(row))
        })
    }

    fn count(
        &self,
        tenant: Tenant,
        collection: String,
        did: Option<String>,
    ) -> BoxFuture<'_, Result<u64, IndexError>> {
        Box::pin(async move {
            let (collection, did) = (nsid(&collection)?, did.as_deref().map(owner).transpose()?);
            let count = crate::store::records::count(&self.0, &collection, did.as_ref(), &tenant).await;
            count.map_err(unavailable)
        })
    }

    fn backlinks(&self, tenant: Tenant, links: Backlinks) -> BoxFuture<'_, Result<Page, IndexError>> {
        Box::pin(async move {
            let links = records::Backlinks {
                collection: nsid(&links.collection)?,
                uri: links.uri,
                did: links.did.as_deref().map(owner).transpose()?,
                limit: page::clamp_limit(links.limit),
                cursor: links.cursor,
            };
            if !links.uri.starts_with("at://") || links.uri.contains('\0') {
                return Err(IndexError::Invalid(format!("uri {:?} is not an AT URI", links.uri)));
            }
            let page = records::backlinks::read(&self.0, &links, &tenant).await.map_err(unreadable)?;
            Ok(Page { rows: page.rows.into_iter().map(row).collect(), cursor: page.cursor })
        })
    }

    fn raw(
        &self,
        tenant: Tenant,
        sql: String,
        params: Bytes,
    ) -> BoxFuture<'_, Result<RawAnswer, IndexError>> {
        Box::pin(async move {
            let params: Vec<serde_json::Value> =
                serde_json::from_slice(&params).map_err(|e| IndexError::Invalid(format!("params: {e}")))?;
            let _place = self.0.scan_place(&tenant).await.map_err(unavailable)?;
            let answer = script_sql::run(&self.0, &sql, &params).await.map_err(refused)?;
            Ok(RawAnswer { rows: answer.rows, count: answer.count, changed: answer.changed })
        })
    }

    fn search(&self, tenant: Tenant, search: Search) -> BoxFuture<'_, Result<Vec<Row>, IndexError>> {
        Box::pin(async move {
            let rows = records::search::read(&self.0, &searched(search)?, &tenant).await;
            let rows = rows.map_err(unavailable)?;
            Ok(rows.into_iter().map(row).collect())
        })
    }

    fn backend(&self) -> &'static str {
        self.0.backend().as_str()
    }
}

fn translate(query: Query) -> Result<records::Query, IndexError> {
    let filter = query
        .filter
        .map(|text| {
            let value =
                serde_json::from_slice(&text).map_err(|e| IndexError::Invalid(format!("filter: {e}")))?;
            Filter::from_json(&value).map_err(invalid)
        })
        .transpose()?;
    let direction = if query.ascending { Direction::Asc } else { Direction::Desc };
    let sort = query.sort.map(|key| {
        Sort::parse(&key, direction).map_err(|_| IndexError::Invalid(format!("invalid sort field {key:?}")))
    });
    Ok(records::Query {
        collection: nsid(&query.collection)?,
        did: query.did.as_deref().map(owner).transpose()?,
        limit: page::clamp_limit(query.limit),
        cursor: query.cursor,
        filter,
        sort: sort.transpose()?,
    })
}

fn searched(search: Search) -> Result<records::search::Search, IndexError> {
    let collection = nsid(&search.collection)?;
    records::search::Search::parse(collection, &search.field, search.text, search.limit).map_err(invalid)
}

fn row(row: RecordRow) -> Row {
    Row { uri: row.uri(), record: row.record }
}

fn nsid(text: &str) -> Result<Nsid, IndexError> {
    Nsid::try_from(text).map_err(|_| IndexError::Invalid(format!("collection {text:?} is not an NSID")))
}

fn owner(text: &str) -> Result<Did, IndexError> {
    Did::try_from(text).map_err(|_| IndexError::Invalid(format!("did {text:?} is not a DID")))
}

fn invalid(error: impl std::error::Error) -> IndexError {
    IndexError::Invalid(error.to_string())
}

fn unavailable(error: StoreError) -> IndexError {
    match error {
        StoreError::TooSlow => {
            IndexError::Limit(format!("{error}: ask for less with did, an = condition or a cursor"))
        }
        StoreError::Busy(_) => IndexError::Limit(error.to_string()),
        other => IndexError::Unavailable(Box::new(other)),
    }
}

/// What is wrong with a statement, in the kinds that its author can tell apart.
fn refused(error: RawError) -> IndexError {
    match error {
        RawError::Refused(refusal) if refusal.is_forbidden() => IndexError::Forbidden(refusal.to_string()),
        RawError::Refused(_) | RawError::Database(_) => invalid(error),
        RawError::NoRole(_) => IndexError::Forbidden(error.to_string()),
        RawError::TooSlow
        | RawError::TooManyRows
        | RawError::TooLarge
        | RawError::TemporaryFiles
        | RawError::Full
        | RawError::TooManyRelations => IndexError::Limit(error.to_string()),
        RawError::Store(error) => unavailable(error),
    }
}

fn unreadable(error: ReadError) -> IndexError {
    match error {
        ReadError::Cursor(error) => invalid(error),
        ReadError::Store(error) => unavailable(error),
    }
}

/// Labels of the store.
#[derive(Clone, Debug)]
pub struct ServerLabels(pub Db, pub Clock);

impl Labels for ServerLabels {
    fn held(
        &self,
        subjects: Vec<String>,
    ) -> BoxFuture<'_, Result<HashMap<String, Vec<HeldLabel>>, IndexError>> {
        Box::pin(async move {
            let held =
                crate::store::labels::held(&self.0, &subjects, self.1.now()).await.map_err(unavailable)?;
            let shown = |label: crate::store::labels::Held| HeldLabel {
                src: label.src,
                val: label.val,
                cts: label.cts.map(|cts| cts.to_string()).unwrap_or_default(),
            };
            Ok(held.into_iter().map(|(uri, labels)| (uri, labels.into_iter().map(shown).collect())).collect())
        })
    }
}

/// `log` goes to the server's log at debug level and to the event log, `print` and `warn` to the server's alone. A
/// tenant's scripts have a share of both; what is over it is dropped, counted and reported.
#[derive(Debug)]
pub struct ServerLog {
    events: EventLog,
    /// Their values stay out of every log.
    variables: Variables,
    shares: LogShares,
}

impl ServerLog {
    pub fn new(events: EventLog, variables: Variables) -> Self {
        Self { events, variables, shares: LogShares::default() }
    }

    fn report(&self, dropped: Dropped) {
        let Dropped { lines, trigger } = dropped;
        let message = format!("{lines} lines were dropped: the scripts of this client log too much");
        tracing::warn!(
            trigger = &*trigger,
            lines,
            "lines of scripts were dropped: their client's scripts log too much"
        );
        self.events.record(Event::ScriptLog { caller: None, trigger: trigger.to_string(), message });
    }
}

impl LogSink for ServerLog {
    fn write(&self, mut line: LogLine) {
        // A line that is written nowhere costs nothing.
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
        match self.shares.take(tenant, trigger, bytes, now) {
            Verdict::Written(dropped) => {
                if let Some(dropped) = dropped {
                    self.report(dropped);
                }
                true
            }
            Verdict::Dropped => {
                metrics::counter!("belvedere_script_log_lines_dropped_total").increment(1);
                false
            }
        }
    }

    fn report_dropped(&self, now: Timestamp) {
        for dropped in self.shares.overdue(now) {
            self.report(dropped);
        }
    }
}
