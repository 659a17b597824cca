//! The host's state of one call: its services, and how much of its limits it has used.

use std::borrow::Cow;
use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tokio::time::Instant;
use wasmtime::ResourceLimiterAsync;

use super::bindings::belvedere::plugin::types::Fault;
use super::fault;
use super::hidden::Hidden;
use super::places::HostPlaces;
use super::plugin_log::{Line, PluginLog};
use super::wasi_context::Wasi;
use crate::plugins::calls::RunContext;
use crate::plugins::limits;
use crate::plugins::registry::LoadedPlugin;
use crate::plugins::services::PluginServices;
use belvedere_base::clock::Timestamp;
use belvedere_protocol::atproto::Did;
use belvedere_wasm::sandbox::{MemoryPool, NoMemory, ResultMemory, RunMemory};
use belvedere_web::fair_share::{Full, Tenant};

/// For whom a call is made.
#[derive(Clone, Debug)]
pub(in crate::plugins) struct Account {
    pub(in crate::plugins) plugin: Arc<LoadedPlugin>,
    pub(in crate::plugins) tenant: Tenant,
    pub(in crate::plugins) did: Option<Did>,
    /// The SHA-256 hex of the state of the sign-in.
    pub(in crate::plugins) flow: Option<String>,
}

/// The data of a call's store.
pub(in crate::plugins) struct CallState {
    pub(super) services: PluginServices,
    pub(super) log: Arc<PluginLog>,
    pub(super) places: HostPlaces,
    /// What the run of a script that makes the call lets it do.
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
    /// What the program's timers take in all.
    pub(super) timers: Duration,
    /// Whether the call waits for another server or the database.
    waits_for_host: bool,
    pub(super) hidden: Hidden,
    /// Lines that wait until the call ends, because it returns what they must not show.
    pub(super) held_lines: Option<Vec<Line>>,
    /// The memory of the call's instance; `None` until the engine makes one.
    memory: Option<RunMemory>,
    /// Bytes that the call took before it began and its instance has not grown by yet.
    prepaid: usize,
    /// Bytes by which the instance has grown.
    grown: usize,
    /// For the responses of other servers.
    pub(super) results: ResultMemory,
    memory_refused: bool,
}

impl CallState {
    pub(in crate::plugins) fn new(
        services: &PluginServices,
        log: &Arc<PluginLog>,
        places: &HostPlaces,
        account: Option<Account>,
        deadline: Instant,
    ) -> Self {
        let plugin =
            account.as_ref().map_or_else(|| "".into(), |account| account.plugin.manifest.id.as_str().into());
        let hidden = account.as_ref().map(|account| Hidden::of_secrets(services, &account.plugin.manifest));
        Self {
            services: services.clone(),
            log: Arc::clone(log),
            places: places.clone(),
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
            memory: None,
            prepaid: 0,
            grown: 0,
            results: ResultMemory::new(None, 0),
            memory_refused: false,
        }
    }

    /// Makes the call part of the run of a script.
    pub(in crate::plugins) fn belong_to(&mut self, run: &RunContext) {
        self.run = Some(run.clone());
    }

    /// Takes the memory that the call most likely needs, in the share of the tenant who calls, so that a call seldom ends for
    /// want of it after it has changed something. The memory is the caller's to release, after the instance.
    ///
    /// # Errors
    /// [`Full`] when no memory became free in time.
    pub(in crate::plugins) async fn take_memory(
        &mut self,
        pool: &MemoryPool,
        expected: usize,
    ) -> Result<RunMemory, Full> {
        let tenant = self.account.as_ref().map_or(Tenant::Instance, |account| account.tenant.clone());
        let group = self.run.as_ref().map(|run| run.memory.clone()).unwrap_or_default();
        let memory = RunMemory::new(pool, tenant, group);
        memory.grow(expected).await?;
        self.prepaid = expected;
        self.results = ResultMemory::new(Some(memory.clone()), 0);
        self.memory = Some(memory.clone());
        Ok(memory)
    }

    /// The most bytes that the instance may have.
    pub(in crate::plugins) fn most_memory(&self) -> usize {
        self.memory.as_ref().map_or(limits::LINEAR_MEMORY, RunMemory::most).min(limits::LINEAR_MEMORY)
    }

    /// The bytes that the instance has.
    pub(in crate::plugins) fn grown(&self) -> usize {
        self.grown
    }

    /// Whether the instance asked for more linear memory than it may have.
    pub(in crate::plugins) fn memory_refused(&self) -> bool {
        self.memory_refused
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
    pub(super) fn account_did(&self) -> Option<String> {
        self.account.as_ref().and_then(|account| account.did.as_ref()).map(ToString::to_string)
    }

    pub(super) fn now(&self) -> Timestamp {
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

    /// Says whether the call waits for the host. What waits when the call ends is not unset.
    pub(super) fn wait_for_host(&mut self, waits: bool) {
        self.waits_for_host = waits;
    }

    /// Whether the call was waiting for another server or the database when it ended.
    pub(in crate::plugins) fn waits_for_host(&self) -> bool {
        self.waits_for_host
    }

    /// How long the call may still wait.
    pub(super) fn time_left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }
}

impl ResourceLimiterAsync for CallState {
    fn memory_growing<'a, 'b>(
        &'a mut self,
        current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> BoxFuture<'b, wasmtime::Result<bool>>
    where
        'a: 'b,
        Self: 'b,
    {
        if desired > self.most_memory() {
            self.memory_refused = true;
            return ready(Ok(false)).boxed();
        }
        let more = desired.saturating_sub(current);
        self.grown += more;
        let unpaid = more.saturating_sub(self.prepaid);
        self.prepaid -= more - unpaid;
        let Some(memory) = self.memory.as_ref().filter(|_| unpaid > 0) else {
            return ready(Ok(true)).boxed();
        };
        async move {
            memory.grow(unpaid).await.map_err(|full| wasmtime::Error::new(NoMemory(full)))?;
            Ok(true)
        }
        .boxed()
    }

    fn table_growing<'a, 'b>(
        &'a mut self,
        _current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> BoxFuture<'b, wasmtime::Result<bool>>
    where
        'a: 'b,
        Self: 'b,
    {
        ready(Ok(desired <= limits::TABLE_ELEMENTS)).boxed()
    }
}
