//! The services of a dry run: they read as those of an ordinary run do, and write nothing.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use serde_json::value::RawValue;

use super::{Index, IndexError, LogLevel, LogLine, LogSink, RawAnswer, Services};
use crate::scripts::dry_run::{DryRun, DryRunOptions, DryWrite};
use belvedere_base::clock::Timestamp;
use belvedere_protocol::atproto::{Did, Nsid, RecordUri};
use belvedere_storage::query::{Backlinks, Query, Search};
use belvedere_storage::store::Backend;
use belvedere_storage::store::records::{Page, RecordRow};
use belvedere_storage::store::script_sql::guard::Parsed;
use belvedere_web::fair_share::Tenant;

impl Services {
    /// The services of a dry run. It has no access to other servers and no values of script variables unless its options say
    /// so, and no methods ([`Self::with_xrpc`]).
    #[must_use]
    pub fn for_dry_run(&self, dry_run: &DryRun) -> Self {
        let DryRunOptions { network, with_variables, .. } = dry_run.options();
        Self {
            index: Arc::new(ReadOnlyIndex { index: Arc::clone(&self.index), dry_run: dry_run.clone() }),
            log: Arc::new(dry_run.clone()),
            web: self.web.clone().filter(|_| network),
            resolver: self.resolver.clone().filter(|_| network),
            variables: if with_variables { self.variables.clone() } else { self.variables.placeholders() },
            identity: None,
            xrpc: None,
            job: None,
            dry_run: Some(dry_run.clone()),
            ..self.clone()
        }
    }
}

impl LogSink for DryRun {
    fn write(&self, line: LogLine) {
        let level = match line.level {
            LogLevel::Debug => "debug",
            LogLevel::Info => "info",
            LogLevel::Warn => "warn",
        };
        self.log(level, line.message);
    }

    fn admit(&self, _tenant: &Tenant, _trigger: &Arc<str>, _bytes: usize, _now: Timestamp) -> bool {
        true
    }

    fn report_dropped(&self, _now: Timestamp) {}
}

/// The index, without the scripts' own statements that write.
struct ReadOnlyIndex {
    index: Arc<dyn Index>,
    dry_run: DryRun,
}

impl Index for ReadOnlyIndex {
    fn query(&self, tenant: Tenant, query: Query) -> BoxFuture<'_, Result<Page, IndexError>> {
        self.index.query(tenant, query)
    }

    fn get(&self, tenant: Tenant, uri: RecordUri) -> BoxFuture<'_, Result<Option<RecordRow>, IndexError>> {
        self.index.get(tenant, uri)
    }

    fn count(
        &self,
        tenant: Tenant,
        collection: Nsid,
        did: Option<Did>,
    ) -> BoxFuture<'_, Result<u64, IndexError>> {
        self.index.count(tenant, collection, did)
    }

    fn backlinks(&self, tenant: Tenant, links: Backlinks) -> BoxFuture<'_, Result<Page, IndexError>> {
        self.index.backlinks(tenant, links)
    }

    fn raw(
        &self,
        tenant: Tenant,
        sql: String,
        params: Bytes,
    ) -> BoxFuture<'_, Result<RawAnswer, IndexError>> {
        // What can't be parsed fails where it would in an ordinary run.
        let writes = Parsed::new(&sql, self.index.backend()).is_ok_and(|parsed| !parsed.is_select());
        if !writes {
            return self.index.raw(tenant, sql, params);
        }
        Box::pin(async move {
            let params: &RawValue =
                serde_json::from_slice(&params).map_err(|e| IndexError::Invalid(format!("params: {e}")))?;
            self.dry_run.write(&DryWrite::Sql { statement: &sql, params });
            Ok(RawAnswer { rows: b"[]".to_vec(), count: 0, changed: Some(0) })
        })
    }

    fn search(&self, tenant: Tenant, search: Search) -> BoxFuture<'_, Result<Vec<RecordRow>, IndexError>> {
        self.index.search(tenant, search)
    }

    fn backend(&self) -> Backend {
        self.index.backend()
    }
}
