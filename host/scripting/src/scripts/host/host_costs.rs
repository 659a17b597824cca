//! The calls of the host, their rows and their time, by the places of a profiled guest that made them.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::scripts::services::Services;

/// Places of the guest (`guest-lua/c/profile.c`): a guest with corrupted memory can't make more.
pub(super) const MAX_PLACES: u32 = 8192;

/// The costs by place.
#[derive(Default)]
pub(super) struct HostCosts {
    places: BTreeMap<u32, HostCost>,
    calling: Option<Calling>,
}

#[derive(Clone, Copy, Default)]
pub(super) struct HostCost {
    pub(super) calls: u32,
    pub(super) rows: u64,
    pub(super) time: Duration,
}

/// A call that has not returned, and the counters when it began.
struct Calling {
    place: u32,
    since: Instant,
    calls: u32,
    rows: u64,
}

impl HostCosts {
    /// For a run of which a profile is wanted: as a sample, by its observer, or by a dry run, which profiles no runs that it calls.
    /// `depth` is the number of runs above it.
    pub(super) fn of(depth: u32, services: &Services, is_sampled: bool) -> Option<Self> {
        let dry_run = services.effects.dry_run().is_some_and(|dry_run| dry_run.options().profile);
        let observed = services.observer.as_ref().is_some_and(|observer| observer.wants_profiles());
        (is_sampled || (dry_run && depth == 0) || observed).then(Self::default)
    }

    /// Begins a call. `calls` and `rows` are those of the run so far.
    pub(super) fn begin(&mut self, place: u32, calls: u32, rows: u64) {
        self.calling = Some(Calling { place, since: Instant::now(), calls, rows });
    }

    /// Ends the call that has begun, if there is one.
    pub(super) fn end(&mut self, calls: u32, rows: u64) {
        let Some(Calling { place, since, calls: calls_before, rows: rows_before }) = self.calling.take()
        else {
            return;
        };
        let (calls, rows) = (calls - calls_before, rows - rows_before);
        self.add(place, HostCost { calls, rows, time: since.elapsed() });
    }

    /// Adds a call that was made elsewhere.
    pub(super) fn add(&mut self, place: u32, HostCost { calls, rows, time }: HostCost) {
        let cost = self.places.entry(place.min(MAX_PLACES)).or_default();
        cost.calls += calls;
        cost.rows += rows;
        cost.time += time;
    }

    /// The place of the call that has begun.
    pub(super) fn calling(&self) -> Option<u32> {
        self.calling.as_ref().map(|begun| begun.place)
    }

    pub(super) fn at(&self, place: u32) -> HostCost {
        self.places.get(&place).copied().unwrap_or_default()
    }
}
