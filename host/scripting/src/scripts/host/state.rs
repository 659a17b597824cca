//! The host's state of one run: its services, and how much of its limits it has used.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use super::allowances::{Outbound, WriteCount};
use super::blobs::Blobs;
use super::fault;
use super::host_costs::HostCosts;
use super::tid::TidClock;
use super::waiting_calls::WaitingCalls;
use crate::scripts::OutboundHttp;
use crate::scripts::bindings::belvedere::script::types::{Fault, FaultCode};
use crate::scripts::dry_run::DryRun;
use crate::scripts::effects::Effects;
use crate::scripts::failure::FailureAnswer;
use crate::scripts::recording::Tape;
use crate::scripts::services::{Index, LogSink, Services};
use crate::scripts::{Lineage, ScriptSet, limits};
use belvedere_base::clock::Clock;
use belvedere_instance::pds::Session;
use belvedere_instance::repos::Repos;
use belvedere_instance::repos::caller_session::NoSession;
use belvedere_instance::xrpc::{Answer, Caller};
use belvedere_protocol::atproto::Did;
use belvedere_protocol::trigger::TriggerKind;
use belvedere_wasm::sandbox::{GrowthLimits, InstanceMemory, RunData};
use belvedere_web::fair_share::{Permit, Tenant};

/// An ordinary run leaves as much of the memory with which its instance begins unused as a page of usual records has.
const GROWTH: GrowthLimits = GrowthLimits {
    memory_bytes: limits::LINEAR_MEMORY,
    table_elements: limits::TABLE_ELEMENTS,
    free_result_bytes: 256 << 10,
};

/// The trigger and the caller of a run. Capabilities decide by it what they allow, and log lines carry it.
#[derive(Clone, Debug)]
pub(in crate::scripts) struct RunInfo {
    pub(in crate::scripts) trigger: Arc<str>,
    pub(in crate::scripts) kind: TriggerKind,
    pub(in crate::scripts) caller: Caller,
    /// The account whose repo is written to, if it is not the caller's.
    pub(in crate::scripts) delegate: Option<Did>,
    /// The run's lineage among the runs that call each other (`xrpc.*`).
    pub(in crate::scripts) lineage: Lineage,
}

impl RunInfo {
    /// For a script that is loaded and not run.
    pub(in crate::scripts) fn check(trigger: Arc<str>, kind: TriggerKind) -> Self {
        let lineage = Lineage::root(TriggerKind::Query);
        Self { trigger, kind, caller: Caller::default(), delegate: None, lineage }
    }

    /// The account that a dry run acts for as if it had a session.
    pub(in crate::scripts) fn dry_run_account(&self, dry_run: &DryRun) -> Option<&Did> {
        let may_act = self.kind == TriggerKind::Procedure || dry_run.options().with_session;
        self.delegate.as_ref().or(self.caller.did.as_ref()).filter(|_| may_act)
    }
}

/// The data of a run's store.
pub(in crate::scripts) struct RunState {
    pub(super) info: RunInfo,
    pub(super) clock: Clock,
    pub(super) tids: Arc<TidClock>,
    /// `None` while a script is only checked.
    pub(super) services: Option<Services>,
    /// The libraries that the run may require are among these.
    pub(super) scripts: Arc<ScriptSet>,
    /// The answers to the caller for faults that are not caught. A fault has the number of its answer.
    pub(super) answers: Vec<Arc<FailureAnswer>>,
    pub(super) host_calls: Arc<AtomicU32>,
    /// Factor of this run's limits to those of an ordinary run.
    pub(super) factor: u32,
    pub(super) rows: u64,
    pub(super) row_bytes: u64,
    pub(super) json_bytes: u64,
    pub(super) log_lines: u32,
    pub(super) database_time: Duration,
    pub(super) outbound: Outbound,
    pub(super) blobs: Blobs,
    /// Calls that wait to be made at the same time.
    pub(super) calls: WaitingCalls<Self>,
    pub(super) writes: WriteCount,
    pub(super) plugin_calls: u32,
    /// The time that plugins computed for the run since its fuel was last reduced by that.
    pub(super) plugin_time: Duration,
    /// The use above the run's fuel.
    pub(super) unpaid_fuel: u64,
    /// The session with the caller's PDS; `None` when this kind of run may use none.
    pub(super) session: Option<Result<Arc<Session>, NoSession>>,
    /// `None` unless a profile of the run is wanted.
    pub(super) profile: Option<Box<HostCosts>>,
    /// Records the run, or answers it from a recording.
    pub(in crate::scripts) tape: Option<Box<Tape>>,
    pub(super) memory: InstanceMemory,
}

impl RunData for RunState {
    fn memory(&mut self) -> &mut InstanceMemory {
        &mut self.memory
    }
}

impl RunState {
    pub(in crate::scripts) fn new(
        info: RunInfo,
        services: &Services,
        tids: Arc<TidClock>,
        session: Option<Result<Arc<Session>, NoSession>>,
        is_sampled: bool,
    ) -> Self {
        let (mut services, clock) = (services.clone(), services.clock.clone());
        let reads_only = info.kind == TriggerKind::Query && services.effects.dry_run().is_none();
        if reads_only && info.lineage.may_lag() {
            services.index = services.index.for_query(&info.caller).unwrap_or(services.index);
        }
        let scripts = services.scripts.all();
        let profile = HostCosts::of(info.lineage.depth(), &services, is_sampled).map(Box::new);
        Self {
            services: Some(services),
            session,
            scripts,
            profile,
            ..Self::without_services(info, clock, tids)
        }
    }

    /// For a script that is compiled or checked: log lines are discarded, and every function but the clock's is
    /// refused.
    pub(in crate::scripts) fn without_services(info: RunInfo, clock: Clock, tids: Arc<TidClock>) -> Self {
        let factor = if info.kind.is_long() { limits::JOB_FACTOR } else { 1 };
        Self {
            info,
            clock,
            tids,
            services: None,
            scripts: Arc::default(),
            answers: Vec::new(),
            host_calls: Arc::default(),
            factor,
            rows: 0,
            row_bytes: 0,
            json_bytes: 0,
            log_lines: 0,
            outbound: Outbound::of(factor),
            database_time: Duration::ZERO,
            blobs: Blobs::default(),
            calls: WaitingCalls::default(),
            writes: WriteCount::default(),
            plugin_calls: 0,
            plugin_time: Duration::ZERO,
            unpaid_fuel: 0,
            session: None,
            profile: None,
            tape: None,
            memory: InstanceMemory::new(GROWTH),
        }
    }

    /// With the libraries among these scripts.
    pub(in crate::scripts) fn with_scripts(self, scripts: Arc<ScriptSet>) -> Self {
        Self { scripts, ..self }
    }

    /// Whether the instance asked for more memory than it may have.
    pub(in crate::scripts) fn memory_was_refused(&self) -> bool {
        self.memory.was_refused()
    }

    /// The tenant that pays for the run.
    pub(in crate::scripts) fn tenant(&self) -> &Tenant {
        &self.info.caller.tenant
    }

    /// The run's lineage among the runs that call each other.
    pub(in crate::scripts) fn lineage(&self) -> &Lineage {
        &self.info.lineage
    }

    pub(in crate::scripts) fn trigger(&self) -> &str {
        &self.info.trigger
    }

    /// Counted calls into the host so far.
    pub(in crate::scripts) fn host_calls(&self) -> &Arc<AtomicU32> {
        &self.host_calls
    }

    /// Factor of this run's limits to those of an ordinary run.
    pub(in crate::scripts) fn factor(&self) -> u32 {
        self.factor
    }

    /// Counts a call into the host.
    pub(super) fn count_call(&mut self) -> Result<(), Fault> {
        let max = limits::HOST_CALLS * self.factor;
        if self.host_calls.fetch_add(1, Ordering::Relaxed) >= max {
            return Err(fault::limit("too many calls to the host", max));
        }
        Ok(())
    }

    pub(super) fn count_log_line(&mut self) -> Result<(), Fault> {
        self.log_lines += 1;
        if self.log_lines > limits::LOG_LINES * self.factor {
            return Err(fault::limit("too many log lines", limits::LOG_LINES * self.factor));
        }
        Ok(())
    }

    /// Counts a call of a plugin's function.
    pub(super) fn count_plugin_call(&mut self) -> Result<(), Fault> {
        let max = limits::PLUGIN_CALLS * self.factor;
        self.plugin_calls = self.plugin_calls.saturating_add(1);
        if self.plugin_calls > max {
            return Err(fault::limit("too many calls of plugins", max));
        }
        Ok(())
    }

    /// Counts the memory that JSON from the guest takes on the host.
    pub(super) fn charge_json(&mut self, bytes: usize) -> Result<(), Fault> {
        self.json_bytes = self.json_bytes.saturating_add(bytes as u64);
        let max = limits::JSON_RUN_BYTES * u64::from(self.factor);
        if self.json_bytes > max {
            return Err(fault::limit("too much JSON handed over", format!("{max} bytes of it")));
        }
        Ok(())
    }

    /// Bytes of rows that the run may still read.
    pub(super) fn row_bytes_left(&self) -> u64 {
        (limits::ROW_BYTES * u64::from(self.factor)).saturating_sub(self.row_bytes)
    }

    pub(super) fn count_rows(&mut self, rows: usize, bytes: usize) -> Result<(), Fault> {
        self.rows += rows as u64;
        self.row_bytes += bytes as u64;
        let (max_rows, max_bytes) =
            (limits::ROWS * u64::from(self.factor), limits::ROW_BYTES * u64::from(self.factor));
        if self.rows > max_rows {
            return Err(fault::limit("too many rows read", max_rows));
        }
        if self.row_bytes > max_bytes {
            return Err(fault::limit("too many bytes of rows read", max_bytes));
        }
        Ok(())
    }

    /// The index, for a counted call.
    pub(super) fn index(&mut self, function: &str) -> Result<Arc<dyn Index>, Fault> {
        self.database(function, |services| Some(Arc::clone(&services.index)))
    }

    /// A service that reads the database, for a counted call.
    pub(super) fn database<T>(
        &mut self,
        function: &str,
        pick: impl FnOnce(&Services) -> Option<T>,
    ) -> Result<T, Fault> {
        let max = limits::DATABASE_TIME * self.factor;
        if self.database_time >= max {
            let max = format!("{} s of it", max.as_secs());
            return Err(fault::limit("too much waiting for the database", max));
        }
        self.service(function, pick)
    }

    pub(super) fn spend_on_database(&mut self, time: Duration) {
        self.database_time += time;
    }

    /// Waits for a permit among the runs that wait for other servers. This time counts as waiting for them.
    pub(super) async fn outbound_permit(&mut self, web: &OutboundHttp) -> Result<Permit, Fault> {
        let started = Instant::now();
        let permit = web.permit(self.tenant()).await;
        self.outbound.charge(0, started.elapsed());
        permit.map_err(|full| {
            let message = format!("too many scripts are waiting for other servers: {full}");
            fault::new(FaultCode::Unavailable, message)
        })
    }

    /// The service that `pick` takes, for a counted call. `function` is the function that the script called.
    pub(super) fn service<T>(
        &mut self,
        function: &str,
        pick: impl FnOnce(&Services) -> Option<T>,
    ) -> Result<T, Fault> {
        self.count_call()?;
        let Some(services) = &self.services else {
            return Err(fault::forbidden(format!(
                "{function} can't be used while the script is being saved"
            )));
        };
        pick(services).ok_or_else(|| match services.effects.dry_run() {
            Some(dry_run) => fault::forbidden(dry_run.refuse(function)),
            None => fault::forbidden(format!("{function} is not available here")),
        })
    }

    /// The repos, for work that is part of a counted call.
    pub(super) fn repos(&self) -> Option<&Repos> {
        self.services.as_ref()?.repos.as_ref()
    }

    /// The destination of log lines; `None` while a script is only checked.
    pub(super) fn log(&self) -> Option<(&dyn LogSink, &Effects)> {
        self.services.as_ref().map(|services| (&*services.log, &services.effects))
    }

    /// The collector of the writes of a dry run; `None` in other runs.
    pub(in crate::scripts) fn dry_run(&self) -> Option<&DryRun> {
        self.services.as_ref()?.effects.dry_run()
    }

    /// The account that a dry run acts for as if it had a session.
    pub(super) fn dry_run_account(&self) -> Option<(DryRun, Did)> {
        let dry_run = self.dry_run()?;
        let account = self.info.dry_run_account(dry_run)?;
        Some((dry_run.clone(), account.clone()))
    }

    /// The session for calls to the caller's PDS. Without one the fault has the answer that a method without a script
    /// gives, if this kind of run may use sessions.
    pub(super) fn session(&mut self, function: &str) -> Result<Arc<Session>, Fault> {
        let reason = match &self.session {
            Some(Ok(session)) => return Ok(Arc::clone(session)),
            Some(Err(reason)) => Some(*reason),
            None => None,
        };
        let mut fault =
            fault::new(FaultCode::NoSession, format!("{function}: no PDS auth in this script context"));
        if let Some(reason) = reason {
            fault.message = format!("{}: {reason}", fault.message);
            fault.answer = Some(self.keep_answer(FailureAnswer::Own(Answer::of_error(&reason.into()))));
        }
        Err(fault)
    }

    /// Whether the run has a session with the caller's PDS. A dry run has none.
    pub(super) fn has_session(&self) -> bool {
        matches!(self.session, Some(Ok(_)))
    }

    /// Keeps an answer until the run ends, and returns the number by which a fault names it.
    pub(super) fn keep_answer(&mut self, answer: FailureAnswer) -> u32 {
        self.answers.push(Arc::new(answer));
        (self.answers.len() - 1) as u32
    }

    pub(super) fn answer(&self, number: u32) -> Option<Arc<FailureAnswer>> {
        self.answers.get(number as usize).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripts::bindings::belvedere::script::types::FaultCode;
    use belvedere_base::clock::Timestamp;

    #[test]
    fn the_time_waiting_for_the_database_is_bounded() {
        let info = RunInfo::check("xrpc.query:com.example.get".into(), TriggerKind::Query);
        let clock = Clock::fixed(Timestamp(0));
        let mut state = RunState::without_services(info, clock, Arc::new(TidClock::new(0)));
        let rest = Duration::from_millis(1);
        state.spend_on_database(limits::DATABASE_TIME.saturating_sub(rest));
        let code = |state: &mut RunState| state.index("db.get").err().map(|fault| fault.code);
        assert_eq!(code(&mut state), Some(FaultCode::Forbidden), "it has no index, but it may ask");
        state.spend_on_database(rest);
        assert_eq!(code(&mut state), Some(FaultCode::Limit));
    }
}
