//! The engine: compiles, checks and runs scripts. There is one per process, shared by every run.

mod config;
mod image;
mod instance_run;
mod profiled_guest;
mod taping;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64};
use std::time::{Duration, Instant};

pub use config::{EngineConfig, EngineError};
pub use image::prepare;

use config::wasm_config;
use image::GuestBuild;
use instance_run::RunReport;
use profiled_guest::ProfiledGuest;
use taping::Recording;

use crate::scripts::contract::{self, Contract};
use crate::scripts::host::tid::TidClock;
use crate::scripts::host::{Guest, Instance, RunInfo, RunInputs, RunState};
use crate::scripts::mentions::{called_methods, required_libraries, takes_raw_params};
use crate::scripts::profile::SampledProfiles;
use crate::scripts::registry::tally::{CountedRun, Tally};
use crate::scripts::scheduling::{InstancePermits, Lineage, TokenBuckets};
use crate::scripts::unknown_names::UnknownName;
use crate::scripts::{
    CompiledScript, EndedRun, FailureKind, Invocation, Outcome, OutputSample, Schedule, ScriptFailure,
    ScriptSet, Services, limits, named_space,
};
use belvedere_base::clock::Clock;
use belvedere_base::random::Random;
use belvedere_instance::pds::Session;
use belvedere_instance::repos::caller_session::NoSession;
use belvedere_protocol::trigger::{Trigger, TriggerKind};
use belvedere_wasm::sandbox::{MemoryPool, RunMemory, Runner};
use belvedere_web::fair_share::Tenant;

/// The shortest time that a throttled run waits before it tries again.
const MIN_PAUSE: Duration = Duration::from_millis(5);

/// A script that loads.
#[derive(Debug)]
pub struct CheckedScript {
    pub script: Arc<CompiledScript>,
    /// The names that it uses and nothing defines. Those that it makes up while it runs are not found.
    pub unknown_names: Vec<UnknownName>,
}

/// Compiles, checks and runs scripts. Cheap to clone.
#[derive(Clone)]
pub struct Engine(Arc<Inner>);

struct Inner {
    runner: Runner<RunState>,
    guest: Guest,
    profiled: ProfiledGuest,
    instance_permits: InstancePermits,
    memory: MemoryPool,
    fuel_buckets: TokenBuckets,
    /// For the bytes of large answers.
    answer_buckets: TokenBuckets,
    tids: Arc<TidClock>,
    /// One of so many runs is profiled; 0: none.
    profile_sample: u64,
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("instance_permits", &self.0.instance_permits).finish_non_exhaustive()
    }
}

impl Engine {
    /// Loads the precompiled guest, or compiles it when the cache has none that fits (a second or two).
    ///
    /// # Errors
    /// When the machine can't run the guest.
    pub async fn open(config: EngineConfig) -> Result<Self, EngineError> {
        let wasm = wasmtime::Engine::new(&wasm_config(&config)).map_err(EngineError::Wasm)?;
        let image = image::load(&config.cache_dir, &wasm, GuestBuild::Ordinary).await?;
        let guest = Guest::link(&wasm, &image).map_err(EngineError::Wasm)?;
        let profiled = ProfiledGuest::new(config.cache_dir, wasm.clone());
        let instance_permits = InstancePermits::new(config.pool_size, config.queue);
        let memory = MemoryPool::new(config.memory);
        let tids = Arc::new(TidClock::new(Random::system().u64()));
        let fuel_buckets = TokenBuckets::new(config.client_fuel);
        let answer_buckets = TokenBuckets::for_answers();
        let profile_sample = u64::from(config.profile_sample);
        let engine = Self(Arc::new(Inner {
            runner: Runner::new(wasm, config.processor, instance_run::limit),
            guest,
            profiled,
            instance_permits,
            memory,
            fuel_buckets,
            answer_buckets,
            tids,
            profile_sample,
        }));
        if profile_sample > 0 {
            // No request waits until the guest is compiled; a failure is logged, and nothing is sampled.
            let loading = engine.clone();
            tokio::spawn(async move { loading.0.profiled.get().await.map(drop) });
        }
        Ok(engine)
    }

    /// Whether a run with this random number is profiled, as one of many. Dry runs are asked for a profile, and jobs may run for an hour.
    fn is_sampled(&self, random: u64, kind: TriggerKind, services: &Services) -> bool {
        self.0.profile_sample > 0
            && random.is_multiple_of(self.0.profile_sample)
            && !kind.is_long()
            && services.effects.dry_run().is_none()
            && self.0.profiled.is_loaded()
    }

    /// The memory of runs, which the calls of plugins share.
    pub fn memory(&self) -> MemoryPool {
        self.0.memory.clone()
    }

    /// Checks a script that is to be saved among others: compiles it, looks for the libraries that it requires, and runs its top
    /// level without services, which must define a function `handle` unless it is a library.
    ///
    /// # Errors
    /// The failure, with message and line, when it does not load.
    pub async fn check(
        &self,
        trigger: Trigger,
        source: &str,
        others: &Arc<ScriptSet>,
    ) -> Result<CheckedScript, ScriptFailure> {
        let script = self.compile(trigger, source).await;
        let bytecode = script.bytecode.as_ref().map_err(Clone::clone)?;
        others.check_required(&script)?;
        if script.contract == Contract::V3 {
            contract::check_globals(&script.name, source)?;
        }
        if script.trigger.kind() == TriggerKind::Schedule {
            let schedule = Schedule::of(source, Clock::system().now());
            schedule.map_err(|invalid| ScriptFailure::new(FailureKind::Syntax, invalid.to_string()))?;
        }
        let is_library = script.trigger.kind() == TriggerKind::Library;
        let unknown_names = self
            .without_services(&script.trigger, others, async |instance, store| {
                instance.check(store, bytecode, is_library, script.contract).await
            })
            .await?;
        Ok(CheckedScript { script: Arc::new(script), unknown_names })
    }

    /// Compiles a stored script without running it. One that does not compile fails when it is run.
    pub async fn compile(&self, trigger: Trigger, source: &str) -> CompiledScript {
        let bytecode = match instance_run::check_source(source) {
            Ok(()) => {
                let name = trigger.id();
                self.without_services(&trigger, &Arc::default(), async |instance, store| {
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
            profiles: SampledProfiles::default(),
            methods: called_methods(source),
            required: required_libraries(source),
            raw_params: takes_raw_params(source),
            contract: Contract::of(source),
            kept_a_row: AtomicBool::new(false),
            revision: AtomicI64::new(0),
            is_candidate: false,
            outputs: OutputSample::default(),
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
        let values = invocation.values.filter(|_| !script.raw_params);
        let invocation = Invocation { values, ..invocation };
        let kind = script.trigger.kind();
        let info = RunInfo {
            trigger: Arc::clone(&script.name),
            kind,
            caller: invocation.caller.cloned().unwrap_or_default(),
            delegate: invocation.delegate.cloned(),
            lineage: invocation.lineage.cloned().unwrap_or_else(|| Lineage::root(kind)),
        };
        let tenant = info.caller.tenant.clone();
        // Jobs wait in the job queue, and a setup runs once, so they are not held back here. They are charged as other runs are.
        let sliced = kind.is_long();
        if !sliced {
            self.admit(&self.0.fuel_buckets, &tenant, &services.clock).await?;
            self.admit(&self.0.answer_buckets, &tenant, &services.clock).await?;
        }
        let may_act = kind == TriggerKind::Procedure || invocation.inherit_auth;
        let dry_run = services.effects.dry_run();
        let session = if may_act && dry_run.is_none() { session(&info, services).await? } else { None };
        let has_session = match dry_run {
            Some(dry_run) => info.dry_run_account(dry_run).is_some(),
            None => matches!(session, Some(Ok(_))),
        };
        let space = named_space::of(&invocation, &info.caller, services).await?;
        let context = context(&info, services, has_session);
        let seed = services.random.u64();
        let is_sampled = self.is_sampled(seed, kind, services);
        let state = RunState::new(info, services, Arc::clone(&self.0.tids), session, is_sampled);
        let (state, recording) = Recording::begin(services, state);
        let variables = &services.variables;
        let globals = match script.contract {
            Contract::V2 => invocation.globals(variables, space.as_ref()),
            Contract::V3 => invocation.arguments(&script.trigger, variables, space.as_ref(), has_session),
        };
        let contract = script.contract;
        let inputs = RunInputs { globals, context, seed, sliced, contract };
        let started = Instant::now();
        // Charged when this future ends, and also when it is dropped because the caller disconnected.
        let fuel_charge = FuelCharge {
            buckets: &self.0.fuel_buckets,
            tenant: &tenant,
            clock: &services.clock,
            fuel: 0.into(),
        };
        let ran = self
            .run_in_instance(state, &fuel_charge.fuel, async |instance, store| {
                instance.run(store, bytecode, &inputs).await
            })
            .await;
        let RunReport { result, usage, instructions, profile, tape } = ran?;
        if let Some(profile) = profile.as_ref().filter(|_| is_sampled) {
            script.profiles.add(profile, services.clock.now());
        }
        let bytes = result.as_ref().map_or(0, |returned| returned.body.len());
        if let large @ 1.. = bytes.saturating_sub(limits::FREE_ANSWER_BYTES) {
            self.0.answer_buckets.charge(&tenant, large as u64, services.clock.now());
        }
        let returned =
            result.and_then(|returned| instance_run::check_result(&returned.body).map(|()| returned));
        let returned = returned.map_err(|failure| contract.failure(failure.located(&script.trigger)));
        if let Some(recording) = recording {
            let result = (taping::recorded(returned.as_ref()), instructions);
            recording.keep(script, services, inputs, tape, result);
        }
        let has_caller = matches!(kind, TriggerKind::Query | TriggerKind::Procedure);
        let failed = returned.as_ref().is_err_and(|failure| !(has_caller && failure.is_intended()));
        let took = started.elapsed();
        let (fuel, guest_time, at) = (usage.fuel, usage.guest_time, services.clock.now());
        script.tally.count(&CountedRun { failed, fuel, instructions, guest_time, took, at });
        if let Some(observer) = &services.observer {
            let (trigger, failure) = (Arc::clone(&script.name), returned.as_ref().err().cloned());
            let profile = profile.map(Arc::new);
            observer.ended(EndedRun { trigger, instructions, failure, profile });
        }
        let returned = returned?;
        Ok(Outcome { shape: returned.shape, body: returned.body, usage })
    }

    /// Holds a run back while its tenant's bucket is empty, and refuses it, after a pause, when that takes too long.
    async fn admit(
        &self,
        buckets: &TokenBuckets,
        tenant: &Tenant,
        clock: &Clock,
    ) -> Result<(), ScriptFailure> {
        let Err(mut missing) = buckets.admit(tenant, clock.now()) else { return Ok(()) };
        let waiting = buckets.wait(tenant, clock.now());
        let mut left = limits::THROTTLE_WAIT;
        // Another run of the tenant may take the tokens first; then this one waits again.
        while waiting.is_some() && !left.is_zero() && missing <= left {
            let pause = missing.max(MIN_PAUSE);
            tokio::time::sleep(pause).await;
            left = left.saturating_sub(pause);
            match buckets.admit(tenant, clock.now()) {
                Ok(()) => return Ok(()),
                Err(still) => missing = still,
            }
        }
        if waiting.is_some() && missing > left {
            tokio::time::sleep(limits::REFUSAL_PAUSE).await;
        }
        Err(instance_run::throttled(missing))
    }

    /// Waits for a permit and runs `work` in an instance with every limit. `fuel` receives the fuel that it used,
    /// however it ended. The outer error means that there was no permit.
    async fn run_in_instance<T>(
        &self,
        state: RunState,
        fuel: &AtomicU64,
        work: impl AsyncFnOnce(
            &Instance,
            &mut wasmtime::Store<RunState>,
        ) -> wasmtime::Result<Result<T, ScriptFailure>>,
    ) -> Result<RunReport<T>, ScriptFailure> {
        let is_profiled = state.is_profiled();
        let guest = if is_profiled { self.0.profiled.get().await? } else { &self.0.guest };
        let (tenant, lineage) = (state.tenant().clone(), state.lineage().clone());
        let entered = self.0.instance_permits.enter(&tenant, lineage.depth(), lineage.time_left()).await;
        let _permit = entered.map_err(instance_run::no_instance)?;
        let memory = RunMemory::new(&self.0.memory, tenant, lineage.memory().clone());
        let work = instance_run::within_limits(&self.0.runner, guest, memory, state, fuel, work);
        Ok(work.await)
    }

    /// Like [`Self::run_in_instance`], for a script that is only compiled or checked.
    async fn without_services<T>(
        &self,
        trigger: &Trigger,
        scripts: &Arc<ScriptSet>,
        work: impl AsyncFnOnce(
            &Instance,
            &mut wasmtime::Store<RunState>,
        ) -> wasmtime::Result<Result<T, ScriptFailure>>,
    ) -> Result<T, ScriptFailure> {
        let info = RunInfo::check(trigger.id().into(), trigger.kind());
        let state = RunState::without_services(info, Clock::system(), Arc::clone(&self.0.tids))
            .with_scripts(Arc::clone(scripts));
        let ran = self.run_in_instance(state, &AtomicU64::new(0), work).await?;
        ran.result.map_err(|failure| failure.located(trigger))
    }
}

/// Charges a run's fuel to its tenant when it is dropped.
struct FuelCharge<'a> {
    buckets: &'a TokenBuckets,
    tenant: &'a Tenant,
    clock: &'a Clock,
    fuel: AtomicU64,
}

impl Drop for FuelCharge<'_> {
    fn drop(&mut self) {
        self.buckets.charge(self.tenant, *self.fuel.get_mut(), self.clock.now());
    }
}

/// The stored session of a run's caller, or of the account that the caller writes for, or why there is none.
async fn session(
    info: &RunInfo,
    services: &Services,
) -> Result<Option<Result<Arc<Session>, NoSession>>, ScriptFailure> {
    let Some(repos) = &services.repos else { return Ok(None) };
    let found = repos.session_of_caller(&info.caller, info.delegate.as_ref()).await;
    found.map(Some).map_err(|error| {
        tracing::error!(%error, "the sessions can't be read");
        ScriptFailure::new(FailureKind::Internal, "the sessions can't be read")
    })
}

/// The argument of the prelude's start hooks, as JSON: the kind of run, and which optional capabilities it has.
fn context(info: &RunInfo, services: &Services, session: bool) -> Vec<u8> {
    let (kind, signing) = (info.kind.context(), services.attestation.is_some());
    serde_json::json!({ "kind": kind, "session": session, "signing": signing }).to_string().into_bytes()
}
