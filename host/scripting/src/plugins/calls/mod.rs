//! Calls of the functions that plugins export: the values that cross, the errors, and who may call at the same time.

mod checks;
mod linker;
mod pausing;
mod permits;
mod private_values;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use wasmtime::Store;

pub use super::failure::{Failure, FailureCause};
pub use super::values::{
    AuthKind, Callback, Expiry, Fault, FaultCode, Function, Info, Item, Page, Profile, RunContext,
    SecretInfo, Start, Tokens,
};
pub use linker::{Called, InstalledPlugin, InstalledPlugins, Linker, Linkers};

use super::bindings::exports::belvedere::plugin::callable::Context;
use super::engine::{CallFailure, Component, Exports, Guest, PluginEngine};
use super::host::{Account, CallState, Hidden, HostPermits, PluginLog};
use super::limits;
use super::registry::{LoadedPlugin, PluginStatus};
use super::services::PluginServices;
use belvedere_base::clock::Timestamp;
use belvedere_protocol::atproto::Did;
use belvedere_web::fair_share::Tenant;
use pausing::Pausing;
use permits::Permits;
use private_values::PrivateValues;

/// Calls plugins, each call in an instance of its own. Cheap to clone.
#[derive(Clone)]
pub struct Calls(Arc<Inner>);

struct Inner {
    engine: PluginEngine,
    services: PluginServices,
    log: Arc<PluginLog>,
    permits: Permits,
    host_permits: HostPermits,
    pausing: Pausing,
}

impl fmt::Debug for Calls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Calls").field("engine", &self.0.engine).finish_non_exhaustive()
    }
}

/// For whom a call is made: what `kv` scopes and the share of the processor refer to.
#[derive(Clone, Debug)]
pub struct CallScope {
    pub tenant: Tenant,
    /// The user whose account it is about.
    pub did: Option<Did>,
    /// The sign-in that the call is part of: the SHA-256 hex of its state.
    pub flow: Option<String>,
}

/// The reason why a call gave no value.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The plugin's own error.
    #[error("{}", .0.message)]
    Fault(Fault),
    /// It trapped, or exceeded its memory or its time.
    #[error("{0}")]
    Failed(Failure),
    /// Too many calls are running, or no memory is free.
    #[error("too many calls of plugins are running, or no memory is free")]
    Busy,
    #[error("the plugin is paused")]
    Paused,
    /// The plugin does not export the interface.
    #[error("the plugin has no {0}")]
    Unsupported(&'static str),
}

/// The time limit of a call, and the tenant whose turns of the processor it takes.
#[derive(Clone, Copy)]
struct Kind<'a> {
    interface: &'static str,
    is_exported: fn(&Exports) -> bool,
    guest_time: Duration,
    /// The run of the script that calls. It has a turn already.
    run: Option<&'a RunContext>,
    /// Whether the call returns tokens. Its log lines are written when it ends, without them.
    returns_tokens: bool,
}

const LINKING: Kind<'_> = Kind {
    interface: "linking",
    is_exported: |exports| exports.linking,
    guest_time: limits::GUEST_TIME,
    run: None,
    returns_tokens: false,
};
const LINKING_TOKENS: Kind<'_> = Kind { returns_tokens: true, ..LINKING };
const SYNC: Kind<'_> = Kind {
    interface: "sync",
    is_exported: |exports| exports.sync,
    guest_time: limits::SYNC_GUEST_TIME,
    ..LINKING
};
const CALLABLE: Kind<'_> = Kind { interface: "callable", is_exported: |exports| exports.callable, ..LINKING };

impl Calls {
    pub fn new(engine: PluginEngine, services: PluginServices) -> Self {
        let instances = engine.pool_size() as usize;
        Self(Arc::new(Inner {
            log: Arc::new(PluginLog::new(services.events.clone())),
            permits: Permits::new(instances),
            host_permits: HostPermits::new(instances),
            pausing: Pausing::default(),
            engine,
            services,
        }))
    }

    /// Lets a paused plugin be called again that is still the loaded one. A plugin that is loaded again needs no call of
    /// this.
    pub fn resume(&self, id: &str) {
        self.0.pausing.resume(id);
    }

    /// Reports the log lines that were dropped since the last report.
    pub fn report_dropped_lines(&self, now: Timestamp) {
        self.0.log.report_dropped(now);
    }

    /// A component's description of itself, without secrets, network or store.
    pub async fn describe(&self, component: &Component) -> Result<Info, CallError> {
        let described =
            self.inspect(component, async |guest, store| guest.describe(&mut *store)?.call_get(store).await);
        let mut info = described.await?;
        checks::info(&mut info).map_err(|fault| unusable(fault.message))?;
        Ok(info)
    }

    /// The functions that a library offers, without secrets, network or store.
    pub async fn surface(&self, component: &Component) -> Result<Vec<Function>, CallError> {
        if !component.exports.callable {
            return Err(CallError::Unsupported(CALLABLE.interface));
        }
        let surface = self
            .inspect(component, async |guest, store| guest.callable(&mut *store)?.call_surface(store).await);
        let mut functions = surface.await?;
        checks::functions(&mut functions).map_err(|fault| unusable(fault.message))?;
        Ok(functions)
    }

    /// Calls a library's function for a script. `args` is the JSON text of an array; returns JSON text. The call computes
    /// in the turns of the processor of the run that awaits it.
    pub async fn call_function(
        &self,
        plugin: &Arc<LoadedPlugin>,
        scope: &CallScope,
        name: &str,
        args: &str,
        run: &RunContext,
    ) -> Result<String, CallError> {
        let kind = Kind { run: Some(run), ..CALLABLE };
        let call = self.call(plugin, scope, kind, Vec::new(), async |guest, store| {
            let context = Context { caller: store.data().account_did(), has_session: run.has_session };
            let answer =
                guest.callable(&mut *store)?.call_call(store, name, &args.to_owned(), &context).await?;
            Ok(checks::answer(answer, |result| checks::json("the result", result, limits::RESULT_BYTES)))
        });
        call.await
    }

    /// Calls a function of a component that is not installed yet.
    async fn inspect<T>(
        &self,
        component: &Component,
        work: impl AsyncFnOnce(&Guest<'_>, &mut Store<CallState>) -> wasmtime::Result<T>,
    ) -> Result<T, CallError> {
        let deadline = Instant::now() + limits::CALL_TIME;
        let _permits = self.0.permits.enter(&component.sha256, &Tenant::Instance).await?;
        let state = CallState::new(&self.0.services, &self.0.log, &self.0.host_permits, None, deadline);
        let called = self.0.engine.call(component, state, Some(Tenant::Instance), limits::GUEST_TIME, work);
        called.await.map_err(failed)
    }

    /// Calls a function of a plugin. `private` is kept out of the plugin's log and errors.
    async fn call<T>(
        &self,
        plugin: &Arc<LoadedPlugin>,
        scope: &CallScope,
        kind: Kind<'_>,
        private: PrivateValues,
        work: impl AsyncFnOnce(&Guest<'_>, &mut Store<CallState>) -> wasmtime::Result<Result<T, Fault>>,
    ) -> Result<T, CallError> {
        let Inner { engine, services, log, permits, host_permits, pausing } = &*self.0;
        let id = &plugin.manifest.id;
        if plugin.status == PluginStatus::Paused || pausing.is_paused(plugin) {
            return Err(CallError::Paused);
        }
        let missing = plugin.component.missing(&plugin.grants);
        if !missing.is_empty() {
            let text = format!("the plugin imports what the operator did not grant: {}", missing.join(", "));
            return Err(CallError::Failed(Failure::new(FailureCause::Grants, text)));
        }
        if !(kind.is_exported)(&plugin.component.exports) {
            return Err(CallError::Unsupported(kind.interface));
        }
        let deadline = Instant::now() + limits::CALL_TIME;
        let _permits = permits.enter(id, &scope.tenant).await?;
        let account = Account {
            manifest: Arc::clone(&plugin.manifest),
            grants: plugin.grants.clone(),
            is_callable: plugin.component.exports.callable,
            tenant: scope.tenant.clone(),
            did: scope.did.clone(),
            flow: scope.flow.clone(),
        };
        let mut state = CallState::new(services, log, host_permits, Some(account), deadline);
        for (name, value) in &private {
            state.hide(name, value);
        }
        if let Some(run) = kind.run {
            state.belong_to(run);
        }
        if kind.returns_tokens {
            state.hold_lines();
        }
        let tenant = kind.run.is_none().then(|| scope.tenant.clone());
        // A run pays for what its plugins compute, so it ends with what it has left.
        let guest_time = kind.run.map_or(kind.guest_time, |run| kind.guest_time.min(run.time_left));
        let work = async |guest: &Guest<'_>, store: &mut Store<CallState>| {
            let answer = work(guest, store).await?;
            Ok(answer.map_err(|fault| presentable(fault, store.data())))
        };
        let ended = engine.call(&plugin.component, state, tenant, guest_time, work).await;
        let ended = match ended {
            Err(CallFailure::Plugin(failure))
                if failure.cause == FailureCause::GuestTime && guest_time < kind.guest_time =>
            {
                Err(CallFailure::Run)
            }
            ended => ended,
        };
        let outcome = match &ended {
            Ok(Ok(_)) => "ok",
            Ok(_) => "fault",
            Err(CallFailure::Run) => "ended",
            Err(_) => "failed",
        };
        metrics::counter!("belvedere_plugin_calls_total", "plugin" => id.clone(), "outcome" => outcome)
            .increment(1);
        match ended {
            Ok(answer) => {
                pausing.succeeded(plugin, &scope.tenant);
                answer.map_err(CallError::Fault)
            }
            Err(failure) => {
                let counts = matches!(failure, CallFailure::Plugin(_));
                let error = failed(failure);
                if let CallError::Failed(failure) = &error
                    && failure.cause != FailureCause::RunTime
                {
                    log.failed(id, kind.interface, failure, services.clock.now());
                    if counts {
                        pausing.failed(plugin, &scope.tenant, &failure.text, services).await;
                    }
                }
                Err(error)
            }
        }
    }

    /// The text without the secrets of a plugin.
    pub fn hide_secrets(&self, plugin: &LoadedPlugin, text: &str) -> String {
        Hidden::of_secrets(&self.0.services, &plugin.manifest).redact(text).into_owned()
    }
}

/// A fault that users may see: without private values, and no longer than a response and a row can hold.
fn presentable(mut fault: Fault, state: &CallState) -> Fault {
    for text in std::iter::once(&mut fault.message).chain(&mut fault.body) {
        text.retain(|c| c != '\0');
        *text = state.redact(text).into_owned();
    }
    checks::shortened(fault)
}

fn unusable(text: String) -> CallError {
    CallError::Failed(Failure::new(FailureCause::Answer, text))
}

fn failed(failure: CallFailure) -> CallError {
    CallError::Failed(match failure {
        CallFailure::Plugin(failure) => failure,
        CallFailure::Run => {
            Failure::new(FailureCause::RunTime, "computed for longer than the run of the script had left")
        }
        CallFailure::Deadline => {
            let text = format!("took longer than {:?}, waits included", limits::CALL_TIME);
            Failure::new(FailureCause::CallTime, text)
        }
        CallFailure::Busy => return CallError::Busy,
        CallFailure::Engine(text) => {
            tracing::error!(error = text, "the plugin engine failed");
            return CallError::Busy;
        }
    })
}
