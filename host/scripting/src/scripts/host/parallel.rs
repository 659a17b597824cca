//! `parallel`: makes calls of a run at the same time. Each is made on a state of its own, and what it used is added to the run's in
//! the order of the calls. So limits, recordings and profiles do not depend on how long each takes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, join_all};

use super::allowances::{Outbound, too_many_bytes};
use super::host_costs::HostCost;
use super::state::RunState;
use super::waiting_calls::{CallResult, Step, WaitingCall};
use super::{Refusal, fault};
use crate::scripts::bindings::belvedere::script::profile::Host as _;
use crate::scripts::bindings::belvedere::script::types::{Fault, FaultCode};
use crate::scripts::limits;
use crate::scripts::recording::{Recorder, Tape};

impl RunState {
    /// The meaning of the next call; `None`: it is made at once.
    pub(super) fn next_step(&mut self) -> Option<Step> {
        self.calls.next.take()
    }

    /// Takes a step of a call that `make` makes. `requests`: those to other servers that it counts. The error of a call that waits says
    /// nothing.
    pub(super) fn step<R: Send + Sync + 'static>(
        &mut self,
        step: Step,
        requests: usize,
        make: impl for<'a> FnOnce(&'a mut Self) -> BoxFuture<'a, Result<R, Refusal>> + Send + Sync + 'static,
    ) -> Result<R, Refusal> {
        let number = match step {
            Step::Collect(number) => return self.calls.take(number),
            Step::Defer(number) => number,
        };
        if self.calls.waiting.len() >= limits::PARALLEL_CALLS {
            return Err(Refusal::Trap(wasmtime::Error::msg("the guest lets too many calls wait")));
        }
        let place = self.profile.as_ref().and_then(|costs| costs.calling());
        self.calls.waiting.push(WaitingCall {
            number,
            make: Box::new(move |state| erased(make(state))),
            requests: u32::try_from(requests).unwrap_or(u32::MAX),
            place,
        });
        Err(waits())
    }

    /// Keeps the result of a call that was made although it was to wait.
    pub(super) fn keep_made<R: Send + Sync + 'static>(
        &mut self,
        number: u32,
        result: Result<R, Refusal>,
    ) -> Refusal {
        self.calls.keep(number, Ok(Box::new(result)), 0);
        waits()
    }

    /// Makes the calls that wait. A replay needs no time for them, and a dry run lists their effects in order: both make one after the
    /// other.
    pub(super) async fn make_waiting_calls(&mut self) -> wasmtime::Result<()> {
        let waiting = std::mem::take(&mut self.calls.waiting);
        let is_replayed = matches!(self.tape.as_deref(), Some(Tape::Replaying(_)));
        if !is_replayed && self.dry_run().is_none() {
            self.make_together(waiting).await;
            return Ok(());
        }
        for WaitingCall { number, make, place, .. } in waiting {
            self.calling(place.unwrap_or_default())?;
            let result = make(self).await;
            self.called()?;
            self.calls.keep(number, Ok(result), 0);
        }
        Ok(())
    }

    async fn make_together(&mut self, waiting: Vec<WaitingCall<Self>>) {
        self.memory.results.begin().await;
        let (mut calls, mut requests) = (0, 0);
        let forks = waiting.into_iter().map(|call| {
            let fork = Fork::new(self, calls, requests);
            calls += 1;
            requests += call.requests;
            fork.made(call)
        });
        // They are first polled in their order.
        let made = join_all(forks.collect::<Vec<_>>()).await;
        let mut waited = Duration::ZERO;
        for Made { number, fork, result, cost, place } in made {
            waited = waited.max(fork.state.outbound.waited_since(&fork.outbound));
            if let (Some(costs), Some(place)) = (&mut self.profile, place) {
                costs.add(place, cost);
            }
            let first_answer = self.answers.len() as u32;
            let result = self.join(fork).map(|()| result);
            self.calls.keep(number, result, first_answer);
        }
        self.outbound.charge(0, waited);
    }

    /// Adds what a call used. The fault replaces its result: together with those before it, it is above a limit.
    fn join(&mut self, fork: Fork) -> Result<(), Fault> {
        let calls = fork.calls();
        let Fork { state, outbound, rows, row_bytes, json_bytes, database_time, .. } = fork;
        self.host_calls().fetch_add(calls, Ordering::Relaxed);
        self.outbound.add_used(&outbound, &state.outbound);
        self.spend_on_database(state.database_time.saturating_sub(database_time));
        self.answers.extend(state.answers);
        if let (Some(Tape::Recording(tape)), Some(Tape::Recording(recorded))) =
            (self.tape.as_deref_mut(), state.tape.map(|tape| *tape))
        {
            tape.append(recorded);
        }
        let rows = (state.rows - rows) as usize;
        let counted = self.count_rows(rows, (state.row_bytes - row_bytes) as usize);
        self.charge_json((state.json_bytes - json_bytes) as usize)?;
        if self.outbound.bytes() > limits::HTTP_RUN_BYTES {
            return Err(too_many_bytes());
        }
        counted
    }
}

/// The state on which one of several calls is made, and what the run had used before.
struct Fork {
    state: Box<RunState>,
    host_calls: u32,
    outbound: Outbound,
    rows: u64,
    row_bytes: u64,
    json_bytes: u64,
    database_time: Duration,
}

struct Made {
    number: u32,
    fork: Fork,
    result: CallResult,
    cost: HostCost,
    place: Option<u32>,
}

impl Fork {
    /// `calls` and `requests` are those of the calls before it, of which each is one call.
    fn new(run: &RunState, calls: u32, requests: u32) -> Self {
        let host_calls = run.host_calls().load(Ordering::Relaxed) + calls;
        let mut outbound = run.outbound.clone();
        outbound.count_sent(requests);
        let tape = matches!(run.tape.as_deref(), Some(Tape::Recording(_)));
        let state = RunState {
            services: run.services.clone(),
            scripts: Arc::clone(&run.scripts),
            host_calls: Arc::new(AtomicU32::new(host_calls)),
            rows: run.rows,
            row_bytes: run.row_bytes,
            json_bytes: run.json_bytes,
            database_time: run.database_time,
            outbound: outbound.clone(),
            session: run.session.clone(),
            tape: tape.then(|| Box::new(Tape::Recording(Recorder::default()))),
            memory: run.memory.part(),
            ..RunState::without_services(run.info.clone(), run.clock.clone(), Arc::clone(&run.tids))
        };
        Self {
            state: Box::new(state),
            host_calls,
            outbound,
            rows: run.rows,
            row_bytes: run.row_bytes,
            json_bytes: run.json_bytes,
            database_time: run.database_time,
        }
    }

    fn calls(&self) -> u32 {
        self.state.host_calls().load(Ordering::Relaxed) - self.host_calls
    }

    async fn made(mut self, call: WaitingCall<RunState>) -> Made {
        let WaitingCall { number, make, place, .. } = call;
        let started = Instant::now();
        let result = make(&mut self.state).await;
        let rows = self.state.rows - self.rows;
        let cost = HostCost { calls: self.calls(), rows, time: started.elapsed() };
        Made { number, fork: self, result, cost, place }
    }
}

fn erased<R: Send + Sync + 'static>(call: BoxFuture<'_, Result<R, Refusal>>) -> BoxFuture<'_, CallResult> {
    call.map(|result| Box::new(result) as CallResult).boxed()
}

fn waits() -> Refusal {
    fault::new(FaultCode::Unavailable, "the call waits").into()
}
