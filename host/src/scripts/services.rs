//! What a run may reach of the server, as narrow interfaces: the capabilities under `host/` are written against
//! these, and tests hand in stand-ins.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;

use super::{Lineage, Variables};
use crate::clock::{Clock, Timestamp};
use crate::fair_share::Tenant;
use crate::identity::Resolver;
use crate::jobs::{JobQueue, RunningJob};
use crate::keys::attestation::Attestation;
use crate::random::Random;
use crate::repos::Repos;
use crate::repos::linked::LinkedRepos;
use crate::xrpc::{Answer, Call};

use super::web::Web;

/// Handed to every run. Cheap to clone. The capabilities beyond these four are optional: a run that has one not is
/// told so when it asks.
#[derive(Clone)]
pub struct Services {
    pub index: Arc<dyn Index>,
    pub log: Arc<dyn LogSink>,
    pub clock: Clock,
    pub random: Random,
    /// The global `env`.
    pub variables: Variables,
    /// Other servers, for `http.*` and blobs.
    pub web: Option<Web>,
    /// Methods of this server and of others, for `xrpc.*`.
    pub xrpc: Option<Arc<dyn Xrpc>>,
    /// The queue of background jobs.
    pub jobs: Option<JobQueue>,
    /// The job that is run.
    pub job: Option<RunningJob>,
    /// Where accounts live.
    pub resolver: Option<Resolver>,
    pub labels: Option<Arc<dyn Labels>>,
    /// Signs records.
    pub attestation: Option<Arc<Attestation>>,
    /// Repos and the index by record, for `Record`.
    pub repos: Option<Repos>,
    pub(super) linked_repos: Option<LinkedRepos>,
}

impl Services {
    /// What every run has.
    pub fn new(index: Arc<dyn Index>, log: Arc<dyn LogSink>, clock: Clock, random: Random) -> Self {
        Self {
            index,
            log,
            clock,
            random,
            variables: Variables::default(),
            web: None,
            xrpc: None,
            jobs: None,
            job: None,
            resolver: None,
            labels: None,
            attestation: None,
            repos: None,
            linked_repos: None,
        }
    }

    #[must_use]
    pub fn with_variables(mut self, variables: Variables) -> Self {
        self.variables = variables;
        self
    }

    /// What `atproto.*` goes through, beside the way to other servers.
    #[must_use]
    pub fn with_atproto(
        mut self,
        resolver: Resolver,
        labels: Arc<dyn Labels>,
        attestation: Arc<Attestation>,
    ) -> Self {
        self.resolver = Some(resolver);
        self.labels = Some(labels);
        self.attestation = Some(attestation);
        self
    }

    #[must_use]
    pub fn with_jobs(mut self, jobs: JobQueue) -> Self {
        self.jobs = Some(jobs);
        self
    }

    /// For one run: that of this job.
    #[must_use]
    pub fn with_job(mut self, job: RunningJob) -> Self {
        self.job = Some(job);
        self
    }

    #[must_use]
    pub fn with_xrpc(mut self, xrpc: Arc<dyn Xrpc>) -> Self {
        self.xrpc = Some(xrpc);
        self
    }

    #[must_use]
    pub fn with_repos(mut self, repos: Repos) -> Self {
        self.repos = Some(repos);
        self
    }

    #[must_use]
    pub fn with_linked_repos(mut self, grants: LinkedRepos) -> Self {
        self.linked_repos = Some(grants);
        self
    }

    #[must_use]
    pub fn with_web(mut self, web: Web) -> Self {
        self.web = Some(web);
        self
    }
}

impl fmt::Debug for Services {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Services")
    }
}

/// The arguments of `db.query`, as the script gave them: nothing is checked yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    pub collection: String,
    pub did: Option<String>,
    /// Clamped to 1..=100 by the index; `None` is 20.
    pub limit: Option<i64>,
    pub cursor: Option<String>,
    /// `indexed_at`, `did`, `uri`, or a path into the record.
    pub sort: Option<String>,
    pub ascending: bool,
    /// JSON text of a condition or group (`lua-runtime.md` §11).
    pub filter: Option<Bytes>,
}

/// The arguments of `db.backlinks`, unchecked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Backlinks {
    pub collection: String,
    /// What the records name, exactly.
    pub uri: String,
    pub did: Option<String>,
    /// Clamped to 1..=100 by the index; `None` is 20.
    pub limit: Option<i64>,
    pub cursor: Option<String>,
}

/// What a statement of `db.raw` gave.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RawAnswer {
    /// JSON text of an array of objects.
    pub rows: Vec<u8>,
    pub count: usize,
    /// Rows that an INSERT, UPDATE or DELETE touched.
    pub changed: Option<u64>,
}

/// The arguments of `db.search`, as the script gave them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Search {
    pub collection: String,
    /// A path into the record.
    pub field: String,
    pub text: String,
    /// Clamped to 1..=100 by the index; `None` is 10.
    pub limit: Option<i64>,
}

/// One record of the index. `record` is the stored JSON text, untouched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    pub uri: String,
    pub record: Bytes,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    pub rows: Vec<Row>,
    /// Only when more rows exist.
    pub cursor: Option<String>,
}

/// Why the index did not answer.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    /// The script asked for something impossible. It sees the text, as a Lua error.
    #[error("{0}")]
    Invalid(String),
    /// The script may not have that. It sees the text.
    #[error("{0}")]
    Forbidden(String),
    /// It would take too much time or room. The script sees the text.
    #[error("{0}")]
    Limit(String),
    /// The database failed. The script sees "database unavailable"; the cause goes to the log.
    #[error("database unavailable")]
    Unavailable(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// Reading the index, for `db.*`. What goes through many records takes one of the tenant's places.
pub trait Index: Send + Sync {
    fn query(&self, tenant: Tenant, query: Query) -> BoxFuture<'_, Result<Page, IndexError>>;
    /// The record at a full AT URI, `None` when the index has none.
    fn get(&self, uri: String) -> BoxFuture<'_, Result<Option<Row>, IndexError>>;
    fn count(
        &self,
        tenant: Tenant,
        collection: String,
        did: Option<String>,
    ) -> BoxFuture<'_, Result<u64, IndexError>>;
    fn backlinks(&self, tenant: Tenant, links: Backlinks) -> BoxFuture<'_, Result<Page, IndexError>>;
    /// One SQL statement; `params` is the JSON text of an array.
    fn raw(&self, tenant: Tenant, sql: String, params: Bytes)
    -> BoxFuture<'_, Result<RawAnswer, IndexError>>;
    /// Records with a text in a field, best match first.
    fn search(&self, tenant: Tenant, search: Search) -> BoxFuture<'_, Result<Vec<Row>, IndexError>>;
    /// `sqlite` or `postgres`.
    fn backend(&self) -> &'static str;
}

/// A label that holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldLabel {
    /// The DID of whoever set it; the author's own for what a record says about itself.
    pub src: String,
    pub val: String,
    /// RFC 3339; empty for what a record says about itself.
    pub cts: String,
}

/// Labels, for `atproto.get_labels`.
pub trait Labels: Send + Sync {
    /// Those that hold now, by subject; a subject without any may be missing.
    fn held(
        &self,
        subjects: Vec<String>,
    ) -> BoxFuture<'_, Result<HashMap<String, Vec<HeldLabel>>, IndexError>>;
}

/// Why a method gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum XrpcError {
    #[error("{0}")]
    Invalid(String),
    #[error("no answer: {0}")]
    Unavailable(String),
}

/// Calling methods, for `xrpc.*`.
pub trait Xrpc: Send + Sync {
    /// Calls a method on behalf of the caller of a run. `lineage` is that of the run that answers.
    fn call(&self, call: Call, lineage: Lineage) -> BoxFuture<'_, Result<Answer, XrpcError>>;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLevel {
    /// `print`: the server's log only.
    Debug,
    /// `log`: the server's log at debug level and the event log (`script.log`).
    Info,
    /// `warn`: the server's log only.
    Warn,
}

/// One line that a script wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    pub level: LogLevel,
    pub trigger: Arc<str>,
    /// Whose share of the logs it takes.
    pub tenant: Tenant,
    pub caller_did: Option<String>,
    pub message: String,
    pub at: Timestamp,
}

/// Takes scripts' log lines. Must not block: it is called in the middle of a run.
pub trait LogSink: Send + Sync {
    fn write(&self, line: LogLine);

    /// Whether something else of a tenant's run may be written to the logs, which takes from the same share.
    fn admit(&self, tenant: &Tenant, trigger: &Arc<str>, bytes: usize, now: Timestamp) -> bool;

    /// Reports lines that were dropped and that no later line has reported.
    fn report_dropped(&self, now: Timestamp);
}
