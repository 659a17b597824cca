//! The host's state of one call: its services, and how much of its limits it has used.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::fault;
use super::hidden::Hidden;
use super::permits::HostPermits;
use super::plugin_log::{Line, PluginLog};
use super::wasi_context::Wasi;
use crate::plugins::bindings::belvedere::plugin::types::Fault;
use crate::plugins::limits;
use crate::plugins::manifest::{Grants, Manifest};
use crate::plugins::services::PluginServices;
use crate::plugins::values::RunContext;
use belvedere_base::clock::Timestamp;
use belvedere_protocol::atproto::Did;
use belvedere_wasm::sandbox::{GrowthLimits, InstanceMemory, MemoryPool, RunData, RunMemory};
use belvedere_web::fair_share::Tenant;

const GROWTH: GrowthLimits = GrowthLimits {
    memory_bytes: limits::LINEAR_MEMORY,
    table_elements: limits::TABLE_ELEMENTS,
    free_result_bytes: 0,
};

/// The plugin of a call, and for whom it is made.
#[derive(Clone, Debug)]
pub(in crate::plugins) struct Account {
    pub(in crate::plugins) manifest: Arc<Manifest>,
    pub(in crate::plugins) grants: Grants,
    /// Whether scripts may call the plugin.
    pub(in crate::plugins) is_callable: bool,
    pub(in crate::plugins) tenant: Tenant,
    pub(in crate::plugins) did: Option<Did>,
    /// The SHA-256 hex of the state of the sign-in.
    pub(in crate::plugins) flow: Option<String>,
}

/// The data of a call's store.
pub(in crate::plugins) struct CallState {
    pub(super) services: PluginServices,
    pub(super) log: Arc<PluginLog>,
    pub(super) permits: HostPermits,
    /// The permissions from the run of a script that makes the call.
    pub(super) run: Option<RunContext>,
    /// The plugin's id, for its log and its values. Empty while a module is described.
    pub(super) plugin: Arc<str>,
    /// `None` while a module is described: then every function but those of the log and the clock is refused.
    pub(super) account: Option<Account>,
    pub(super) deadline: Instant,
    pub(super) wasi: Wasi,
    pub(super) requests: u32,
    pub(super) log_lines: u32,
    host_calls: u32,
    lookups: u32,
    kv_writes: u32,
    /// The total size of the program's timers.
    pub(super) timers: Duration,
    /// Whether the call waits for another server or the database.
    waits_for_host: bool,
    pub(super) hidden: Hidden,
    /// Lines that wait until the call ends, because it returns what they must not show.
    pub(super) held_lines: Option<Vec<Line>>,
    pub(in crate::plugins) memory: InstanceMemory,
}

impl RunData for CallState {
    fn memory(&mut self) -> &mut InstanceMemory {
        &mut self.memory
    }
}

impl CallState {
    pub(in crate::plugins) fn new(
        services: &PluginServices,
        log: &Arc<PluginLog>,
        permits: &HostPermits,
        account: Option<Account>,
        deadline: Instant,
    ) -> Self {
        let plugin =
            account.as_ref().map_or_else(|| "".into(), |account| account.manifest.id.as_str().into());
        let hidden = account.as_ref().map(|account| Hidden::of_secrets(services, &account.manifest));
        Self {
            services: services.clone(),
            log: Arc::clone(log),
            permits: permits.clone(),
            run: None,
            plugin,
            account,
            deadline,
            wasi: Wasi::default(),
            requests: 0,
            log_lines: 0,
            host_calls: 0,
            lookups: 0,
            kv_writes: 0,
            timers: Duration::ZERO,
            waits_for_host: false,
            hidden: hidden.unwrap_or_default(),
            held_lines: None,
            memory: InstanceMemory::new(GROWTH),
        }
    }

    /// Makes the call part of the run of a script.
    pub(in crate::plugins) fn belong_to(&mut self, run: &RunContext) {
        self.run = Some(run.clone());
    }

    /// The memory of the call, in the share of the tenant who calls.
    pub(in crate::plugins) fn run_memory(&self, pool: &MemoryPool) -> RunMemory {
        let tenant = self.account.as_ref().map_or(Tenant::Instance, |account| account.tenant.clone());
        let group = self.run.as_ref().map(|run| run.memory.clone()).unwrap_or_default();
        RunMemory::new(pool, tenant, group)
    }

    /// Keeps a value out of the plugin's log lines and errors, which show its name instead.
    pub(in crate::plugins) fn hide(&mut self, name: &'static str, value: &str) {
        self.hidden.add(name, value);
    }

    /// Keeps log lines until the call ends, because it returns tokens, which they must not show.
    pub(in crate::plugins) fn hold_lines(&mut self) {
        self.held_lines = Some(Vec::new());
    }

    /// The text with every hidden value replaced by its name.
    pub(in crate::plugins) fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        self.hidden.redact(text)
    }

    /// For whom the call is made, for functions that a module that is described can't use.
    pub(super) fn account(&self, function: &str) -> Result<&Account, Fault> {
        let refused = || fault::forbidden(format!("{function} can't be used while the plugin is described"));
        self.account.as_ref().ok_or_else(refused)
    }

    /// The account that the call is about.
    pub(in crate::plugins) fn account_did(&self) -> Option<String> {
        self.account.as_ref().and_then(|account| account.did.as_ref()).map(ToString::to_string)
    }

    pub(in crate::plugins) fn now(&self) -> Timestamp {
        self.services.clock.now()
    }

    /// Counts a call into the host.
    pub(super) fn count_call(&mut self) -> Result<(), Fault> {
        self.host_calls += 1;
        if self.host_calls > limits::HOST_CALLS {
            return Err(fault::quota("too many calls to the host", limits::HOST_CALLS));
        }
        Ok(())
    }

    /// Counts a search in the index.
    pub(super) fn count_lookup(&mut self) -> Result<(), Fault> {
        self.count_call()?;
        self.lookups += 1;
        if self.lookups > limits::LOOKUPS {
            return Err(fault::quota("too many lookups", limits::LOOKUPS));
        }
        Ok(())
    }

    /// Counts a write of a value, which a run that only reads may not do.
    pub(super) fn count_write(&mut self, function: &str) -> Result<(), Fault> {
        if self.run.as_ref().is_some_and(|run| run.read_only) {
            return Err(fault::forbidden(format!("{function} can't be used in a query")));
        }
        self.kv_writes += 1;
        if self.kv_writes > limits::KV_WRITES {
            return Err(fault::quota("too many writes of values", limits::KV_WRITES));
        }
        Ok(())
    }

    /// Says whether the call waits for the host. A wait that goes on when the call ends is not unset.
    pub(super) fn wait_for_host(&mut self, waits: bool) {
        self.waits_for_host = waits;
    }

    /// Whether the call was waiting for another server or the database when it ended.
    pub(in crate::plugins) fn waits_for_host(&self) -> bool {
        self.waits_for_host
    }

    /// The time at which the call ends, done or not.
    pub(in crate::plugins) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// The time that the call may still wait.
    pub(super) fn time_left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }
}
