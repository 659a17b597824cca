//! The engine: one per process, made once, shared by every run.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::config::{EngineConfig, EngineError, wasm_config};
use super::host::{Guest, Instance, RunInfo, RunState};
use super::lineage::Lineage;
use super::places::Places;
use super::run::Ran;
use super::share::Shares;
use super::tally::Tally;
use super::tid::TidClock;
use super::turns::Turns;
use super::{
    CompiledScript, FailureKind, Invocation, Outcome, ScriptFailure, Services, Usage, image, limits, methods,
    run,
};
use crate::clock::Clock;
use crate::fair_share::Tenant;
use crate::pds::Session;
use crate::random::Random;
use crate::trigger::{Trigger, TriggerKind};

/// The least that a throttled run waits before it asks again.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Cheap to clone.
#[derive(Clone)]
pub struct Engine(Arc<Parts>);

struct Parts {
    wasm: wasmtime::Engine,
    guest: Guest,
    places: Places,
    shares: Shares,
    /// Bytes of large answers.
    answers: Shares,
    turns: Turns,
    tids: Arc<TidClock>,
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("places", &self.0.places).finish_non_exhaustive()
    }
}

impl Engine {
    /// Loads the precompiled guest, or compiles it when there is none that fits (a second or two).
    ///
    /// # Errors
    /// When the machine can't run the guest.
    pub async fn open(config: EngineConfig) -> Result<Self, EngineError> {
        let wasm = wasmtime::Engine::new(&wasm_config(&config)).map_err(EngineError::Wasm)?;
        let image = image::load(&config.cache_dir, &wasm).await?;
        let guest = Guest::link(&wasm, &image).map_err(EngineError::Wasm)?;
        let places = Places::new(config.pool_size, config.queue);
        let tids = Arc::new(TidClock::new(Random::system().u64()));
        let shares = Shares::new(config.client_fuel);
        let answers = Shares::of_answers();
        Ok(Self(Arc::new(Parts { wasm, guest, places, shares, answers, turns: Turns::new(), tids })))
    }

    /// What saving a script does: runs its top level in a bare sandbox and wants a function `handle`.
    ///
    /// # Errors
    /// The failure, with message and line, when it does not load.
    pub async fn check(&self, trigger: Trigger, source: &str) -> Result<CompiledScript, ScriptFailure> {
        let script = self.compile(trigger, source).await;
        let bytecode = script.bytecode.as_ref().map_err(Clone::clone)?;
        self.unconnected(&script.trigger, async |instance, store| instance.check(store, bytecode).await)
            .await?;
        Ok(script)
    }

    /// Compiles a stored script without running it. One that does not compile fails when it is run.
    pub async fn compile(&self, trigger: Trigger, source: &str) -> CompiledScript {
        let bytecode = match run::check_source(source) {
            Ok(()) => {
                let name = trigger.id();
                self.unconnected(&trigger, async |instance, store| {
                    instance.compile(store, name, source).await
                })
                .await
            }
            Err(refused) => Err(refused),
        };
        CompiledScript {
            name: trigger.id().into(),
            trigger,
            source: source.into(),
            bytecode,
            tally: Tally::default(),
            methods: methods::named_in(source),
        }
    }

    /// Runs a script in a fresh instance.
    ///
    /// # Errors
    /// The failure; [`ScriptFailure::public_text`] is what the caller may see of it.
    pub async fn run(
        &self,
        script: &CompiledScript,
        invocation: Invocation<'_>,
        services: &Services,
    ) -> Result<Outcome, ScriptFailure> {
        let bytecode = script.bytecode.as_ref().map_err(Clone::clone)?;
        let kind = script.trigger.kind();
        let info = RunInfo {
            trigger: Arc::clone(&script.name),
            kind,
            caller: invocation.caller.cloned().unwrap_or_default(),
            delegate: invocation.delegate.cloned(),
            lineage: invocation.lineage.cloned().unwrap_or_else(|| Lineage::first(kind)),
        };
        let tenant = info.caller.tenant.clone();
        // A job waits for its turn in the queue; here it only pays.
        let sliced = kind == TriggerKind::JobRun;
        if !sliced {
            self.admit(&self.0.shares, &tenant, &services.clock).await?;
            self.admit(&self.0.answers, &tenant, &services.clock).await?;
        }
        let may_act = kind == TriggerKind::Procedure || invocation.inherit_auth;
        let session = if may_act { session(&info, services).await? } else { None };
        let context = context(&info, services, session.is_some());
        let state = RunState::new(info, services, Arc::clone(&self.0.tids), session);
        let (globals, seed) = (invocation.globals(&services.variables), services.random.u64());
        let started = Instant::now();
        // Paid when this ends, and also when the caller goes away in the middle.
        let bill = Bill { shares: &self.0.shares, tenant: &tenant, clock: &services.clock, fuel: 0.into() };
        let ran = self
            .protected(state, &bill.fuel, async |instance, store| {
                instance.run(store, bytecode, &globals, &context, seed, sliced).await
            })
            .await;
        let Ran { result, usage } = ran?;
        let bytes = result.as_ref().map_or(0, |returned| returned.body.len());
        if let large @ 1.. = bytes.saturating_sub(limits::FREE_ANSWER_BYTES) {
            self.0.answers.charge(&tenant, large as u64, services.clock.now());
        }
        let returned = result.and_then(|returned| run::check_result(&returned.body).map(|()| returned));
        let (failed, took) = (returned.is_err(), started.elapsed());
        script.tally.count(failed, usage.fuel, usage.guest_time, took, services.clock.now());
        let returned = returned?;
        Ok(Outcome { shape: returned.shape, body: returned.body, usage })
    }

    /// Holds a run back while one of its tenant's shares is used up, and refuses it when that takes too long.
    async fn admit(&self, shares: &Shares, tenant: &Tenant, clock: &Clock) -> Result<(), ScriptFailure> {
        let Err(mut missing) = shares.admit(tenant, clock.now()) else { return Ok(()) };
        let waiting = shares.wait(tenant, clock.now());
        let mut left = limits::THROTTLE_WAIT;
        // Others of the same tenant may have been faster: then it waits on.
        while waiting.is_some() && !left.is_zero() && missing <= left {
            let pause = missing.max(LOOK_AGAIN);
            tokio::time::sleep(pause).await;
            left = left.saturating_sub(pause);
            match shares.admit(tenant, clock.now()) {
                Ok(()) => return Ok(()),
                Err(still) => missing = still,
            }
        }
        Err(run::throttled(missing))
    }

    /// A place, an instance with every limit, and `work` within them. `fuel` is what it burnt, however it ended. The
    /// outer error is a full queue.
    async fn protected<T>(
        &self,
        state: RunState,
        fuel: &AtomicU64,
        work: impl AsyncFnOnce(
            &Instance,
            &mut wasmtime::Store<RunState>,
        ) -> wasmtime::Result<Result<T, ScriptFailure>>,
    ) -> Result<Ran<T>, ScriptFailure> {
        let (tenant, lineage) = (state.tenant().clone(), state.lineage().clone());
        let entered = self.0.places.enter(&tenant, lineage.depth(), lineage.time_left()).await;
        let _place = entered.map_err(run::busy)?;
        let work = run::within_limits(&self.0.wasm, &self.0.guest, &self.0.turns, state, fuel, work);
        Ok(tokio::time::timeout_at(lineage.deadline(), work).await.unwrap_or_else(|_| Ran {
            result: Err(run::overdue(&lineage)),
            usage: Usage { fuel: fuel.load(Ordering::Relaxed), ..Usage::default() },
        }))
    }

    /// As [`Self::protected`], for a script that is not run yet.
    async fn unconnected<T>(
        &self,
        trigger: &Trigger,
        work: impl AsyncFnOnce(
            &Instance,
            &mut wasmtime::Store<RunState>,
        ) -> wasmtime::Result<Result<T, ScriptFailure>>,
    ) -> Result<T, ScriptFailure> {
        let info = RunInfo::check(trigger.id().into(), trigger.kind());
        let state = RunState::unconnected(info, Clock::system(), Arc::clone(&self.0.tids));
        self.protected(state, &AtomicU64::new(0), work).await?.result
    }
}

/// What a run has to pay.
struct Bill<'a> {
    shares: &'a Shares,
    tenant: &'a Tenant,
    clock: &'a Clock,
    fuel: AtomicU64,
}

impl Drop for Bill<'_> {
    fn drop(&mut self) {
        self.shares.charge(self.tenant, *self.fuel.get_mut(), self.clock.now());
    }
}

/// The session of a run's caller, or of the account that they write for, if the caller proved to hold one.
async fn session(info: &RunInfo, services: &Services) -> Result<Option<Arc<Session>>, ScriptFailure> {
    let (Some(repos), Some(user)) = (&services.repos, &info.caller.did) else { return Ok(None) };
    let which = info.caller.authority.session_of(user, info.delegate.as_ref());
    let Some(which) = which else { return Ok(None) };
    repos.session(which).await.map_err(|error| {
        tracing::error!(%error, "the sessions can't be read");
        ScriptFailure::new(FailureKind::Internal, "the sessions can't be read")
    })
}

/// What the prelude's start hooks are told, as JSON: what kind of run it is, and what it has.
fn context(info: &RunInfo, services: &Services, session: bool) -> Vec<u8> {
    let (kind, signing) = (info.kind.context(), services.attestation.is_some());
    serde_json::json!({ "kind": kind, "session": session, "signing": signing }).to_string().into_bytes()
}
