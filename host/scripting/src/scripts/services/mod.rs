//! The services of the server that a run may use, as narrow interfaces: the capabilities under `host/` are written
//! against these, and tests implement them with fakes.

mod index;
mod outbound_http;
mod plugins;
mod profiles;
mod run_observer;
mod server;
#[cfg(any(test, feature = "testing"))]
mod stand_in;
pub mod variables;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;

pub use index::{Index, IndexError, RawAnswer};
pub use outbound_http::OutboundHttp;
pub use plugins::{Names, PluginCallError, PluginCalls, ServerPlugins};
pub use profiles::{Profile, Profiles};
pub use run_observer::{EndedRun, RunObserver};
pub(in crate::scripts) use server::store_error;
pub use server::{ServerIndex, ServerLabels, ServerLog};
#[cfg(any(test, feature = "testing"))]
pub use stand_in::{IndexRead, StandIn};
pub use variables::Variables;

use crate::scripts::dry_run::{DryRun, DryRunOptions};
use crate::scripts::effects::Effects;
use crate::scripts::{Lineage, RunRecorder, ScriptRegistry};
use belvedere_base::clock::{Clock, Timestamp};
use belvedere_base::random::Random;
use belvedere_instance::identity::Resolver;
use belvedere_instance::jobs::{JobQueue, RunningJob};
use belvedere_instance::keys::attestation::Attestation;
use belvedere_instance::labels::LabelIssuer;
use belvedere_instance::moderation::Moderator;
use belvedere_instance::people::People;
use belvedere_instance::repos::Repos;
use belvedere_instance::repos::linked::LinkedRepos;
use belvedere_instance::service_identity::ServiceIdentity;
use belvedere_instance::spaces::Spaces;
use belvedere_instance::xrpc::{Answer, Call};
use belvedere_protocol::atproto::Handle;
use belvedere_web::fair_share::Tenant;

/// The services of a run. Cheap to clone. The fields that are an `Option` are optional: calling a missing capability
/// returns an error.
#[derive(Clone)]
pub struct Services {
    pub index: Arc<dyn Index>,
    pub log: Arc<dyn LogSink>,
    pub clock: Clock,
    pub random: Random,
    /// The global `env`.
    pub variables: Variables,
    /// The stored scripts, for `require`.
    pub(in crate::scripts) scripts: Arc<ScriptRegistry>,
    /// Access to other servers, for `http.*` and blobs.
    pub web: Option<OutboundHttp>,
    /// Methods of this server and of others, for `xrpc.*`.
    pub xrpc: Option<Arc<dyn Xrpc>>,
    /// The queue of background jobs.
    pub jobs: Option<JobQueue>,
    /// The job that the run executes.
    pub job: Option<RunningJob>,
    /// Resolves DIDs to DID documents, and handles to DIDs.
    pub resolver: Option<Resolver>,
    /// Knows the handles of accounts.
    pub(in crate::scripts) people: Option<People>,
    /// Pays for look-ups of handles; without it they are free.
    pub(in crate::scripts) handle_budget: Option<Arc<dyn HandleBudget>>,
    pub labels: Option<Arc<dyn Labels>>,
    pub(in crate::scripts) moderator: Option<Moderator>,
    pub(in crate::scripts) profiles: Option<Arc<Profiles>>,
    /// Signs records.
    pub attestation: Option<Arc<Attestation>>,
    /// Signs calls of other servers.
    pub(in crate::scripts) identity: Option<ServiceIdentity>,
    /// Repos and the index by record, for `Record`.
    pub repos: Option<Repos>,
    pub(in crate::scripts) linked_repos: Option<LinkedRepos>,
    /// Permissioned spaces.
    pub(in crate::scripts) spaces: Option<Spaces>,
    /// Functions of plugins.
    pub plugins: Option<Arc<dyn PluginCalls>>,
    pub(in crate::scripts) effects: Effects,
    pub(in crate::scripts) observer: Option<Arc<dyn RunObserver>>,
    /// Records runs of chosen scripts.
    pub(in crate::scripts) recorder: Option<Arc<RunRecorder>>,
}

impl Services {
    /// Only the services that every run has.
    pub fn new(index: Arc<dyn Index>, log: Arc<dyn LogSink>, clock: Clock, random: Random) -> Self {
        Self {
            index,
            log,
            clock,
            random,
            variables: Variables::default(),
            scripts: Arc::default(),
            web: None,
            xrpc: None,
            jobs: None,
            job: None,
            resolver: None,
            people: None,
            handle_budget: None,
            labels: None,
            moderator: None,
            profiles: None,
            attestation: None,
            identity: None,
            repos: None,
            linked_repos: None,
            spaces: None,
            plugins: None,
            effects: Effects::Real,
            observer: None,
            recorder: None,
        }
    }

    #[must_use]
    pub fn with_variables(mut self, variables: Variables) -> Self {
        self.variables = variables;
        self
    }

    /// The observer receives each run, also those that a run calls.
    #[must_use]
    pub fn with_observer(mut self, observer: Arc<dyn RunObserver>) -> Self {
        self.observer = Some(observer);
        self
    }

    /// The recorder chooses which runs it records.
    #[must_use]
    pub fn with_recorder(mut self, recorder: Arc<RunRecorder>) -> Self {
        self.recorder = Some(recorder);
        self
    }

    #[must_use]
    pub fn with_scripts(mut self, scripts: Arc<ScriptRegistry>) -> Self {
        self.scripts = scripts;
        self
    }

    /// The services of `atproto.*`, besides the access to other servers.
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
    pub fn with_people(mut self, people: People, budget: Arc<dyn HandleBudget>) -> Self {
        self.people = Some(people);
        self.handle_budget = Some(budget);
        self
    }

    #[must_use]
    pub fn with_moderator(mut self, moderator: Moderator) -> Self {
        self.moderator = Some(moderator);
        self
    }

    #[must_use]
    pub fn with_profiles(mut self, profiles: Arc<Profiles>) -> Self {
        self.profiles = Some(profiles);
        self
    }

    #[must_use]
    pub fn with_identity(mut self, identity: ServiceIdentity) -> Self {
        self.identity = Some(identity);
        self
    }

    #[must_use]
    pub fn with_jobs(mut self, jobs: JobQueue) -> Self {
        self.jobs = Some(jobs);
        self
    }

    /// For the run of this job.
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
    pub fn with_spaces(mut self, spaces: Spaces) -> Self {
        self.spaces = Some(spaces);
        self
    }

    #[must_use]
    pub fn with_plugins(mut self, plugins: Arc<dyn PluginCalls>) -> Self {
        self.plugins = Some(plugins);
        self
    }

    #[must_use]
    pub fn with_web(mut self, web: OutboundHttp) -> Self {
        self.web = Some(web);
        self
    }

    /// The services of a dry run. Those that can't be reported are left out, so that their functions refuse: signatures of the
    /// instance's identity, the running job, methods ([`Self::with_xrpc`]), and spaces. Other servers and the values of script
    /// variables need an option.
    #[must_use]
    pub fn for_dry_run(&self, dry_run: &DryRun) -> Self {
        let DryRunOptions { network, with_variables, .. } = dry_run.options();
        // Names each service, so that one that is added is decided on.
        Self {
            index: self.index.clone(),
            log: self.log.clone(),
            clock: self.clock.clone(),
            random: self.random.clone(),
            variables: if with_variables { self.variables.clone() } else { self.variables.placeholders() },
            scripts: Arc::clone(&self.scripts),
            web: self.web.clone().filter(|_| network),
            xrpc: None,
            jobs: self.jobs.clone(),
            job: None,
            resolver: self.resolver.clone().filter(|_| network),
            people: self.people.clone().filter(|_| network),
            handle_budget: self.handle_budget.clone(),
            labels: self.labels.clone(),
            moderator: self.moderator.clone(),
            profiles: self.profiles.as_ref().map(|profiles| {
                if network { Arc::clone(profiles) } else { Arc::new(profiles.only_stored()) }
            }),
            attestation: self.attestation.clone(),
            identity: None,
            repos: self.repos.clone(),
            linked_repos: self.linked_repos.clone(),
            // It acts for any account that the operator names, and operators read no records of spaces.
            spaces: None,
            plugins: self.plugins.clone(),
            effects: Effects::Reported(dry_run.clone()),
            observer: self.observer.clone(),
            recorder: None,
        }
    }
}

impl fmt::Debug for Services {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Services")
    }
}

/// A label in force: neither negated nor expired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActiveLabel {
    /// The labeler's DID; the author's DID for a self-label.
    pub src: String,
    pub val: String,
    /// RFC 3339; empty for a self-label.
    pub cts: String,
}

/// Reads and issues labels.
pub trait Labels: Send + Sync {
    /// The labels in force now, by subject; a subject without any may be missing.
    fn active(
        &self,
        subjects: Vec<String>,
    ) -> BoxFuture<'_, Result<HashMap<String, Vec<ActiveLabel>>, IndexError>>;

    /// Issues those of this server.
    fn issuer(&self) -> Option<LabelIssuer>;
}

/// Charges look-ups of handles to the tenants that cause them.
pub trait HandleBudget: Send + Sync {
    /// Charges a look-up of a handle whose account is not cached. False when the tenant has caused too many, or too many
    /// have gone to the handle's domain: then the handle is not looked up.
    fn pay(&self, tenant: &Tenant, handle: &Handle) -> bool;
}

/// The reason why a method gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum XrpcError {
    #[error("{0}")]
    Invalid(String),
    /// The run may not make the call. The script sees the text.
    #[error("{0}")]
    Forbidden(String),
    #[error("no answer: {0}")]
    Unavailable(String),
}

/// A method's answer to a script.
#[derive(Clone, Debug)]
pub struct CallOutcome {
    pub answer: Answer,
    /// Whether the method has no lexicon here: the call's time counts as waiting for other servers.
    pub is_remote: bool,
}

/// Calls methods, for `xrpc.*`.
pub trait Xrpc: Send + Sync {
    /// Calls a method on behalf of the caller of a run. `lineage` is that of the run that answers.
    fn call(&self, call: Call, lineage: Lineage) -> BoxFuture<'_, Result<CallOutcome, XrpcError>>;
}

/// `print` writes at `Debug`, to the server's log only. `log` writes at `Info`, to the server's log at debug level and to the
/// event log (`script.log`). `warn` writes at `Warn`, to the server's log only.
pub use crate::scripts::bindings::belvedere::script::log::Level as LogLevel;

impl LogLevel {
    /// The name in the contract.
    pub(in crate::scripts) fn as_str(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Warn => "warn",
        }
    }
}

/// One line that a script wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    pub level: LogLevel,
    pub trigger: Arc<str>,
    /// The tenant whose share of the logs the line takes from.
    pub tenant: Tenant,
    pub caller_did: Option<String>,
    pub message: String,
    pub at: Timestamp,
}

/// Writes the log lines of scripts. Must not block: it is called in the middle of a run.
pub trait LogSink: Send + Sync {
    fn write(&self, line: LogLine);

    /// Takes `bytes` from the tenant's share of the logs for something else that its run logs, such as a failure. It
    /// may be logged only when this returns true.
    fn admit(&self, tenant: &Tenant, trigger: &Arc<str>, bytes: usize, now: Timestamp) -> bool;

    /// Reports dropped lines that no later line of the tenant has reported.
    fn report_dropped(&self, now: Timestamp);
}
