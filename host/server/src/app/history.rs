//! Adds what the stream and the scripts count to the history of metrics.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::App;
use belvedere_instance::history::{FLUSH_EVERY, Measure};
use belvedere_scripting::scripts::TallySnapshot;
use belvedere_storage::store::StoreError;

/// The counts that were added already. The stream and the scripts count from their start.
#[derive(Debug, Default)]
pub(super) struct Counted(Mutex<Totals>);

#[derive(Debug, Default)]
struct Totals {
    stream_events: u64,
    /// By version and trigger.
    scripts: HashMap<(&'static str, String), TallySnapshot>,
}

const CURRENT: &str = "current";
const CANDIDATE: &str = "candidate";

impl App {
    /// Stores everything that this host has counted, so that a client sees its own requests in the history.
    ///
    /// # Errors
    /// When the store fails; the counts are stored later.
    pub async fn flush_history(&self) -> Result<(), StoreError> {
        self.collect();
        self.history.flush(&self.db).await
    }

    /// Stores the counts now and then, until the server drains.
    pub(super) async fn keep_history(self: Arc<Self>) {
        let drain = self.lifecycle.drain.clone();
        loop {
            let goes_on = drain.run_until_cancelled(tokio::time::sleep(FLUSH_EVERY)).await.is_some();
            self.measure_lag();
            if let Err(error) = self.flush_history().await {
                tracing::warn!(%error, "the history of metrics could not be stored; it is kept and stored later");
            }
            if !goes_on {
                return;
            }
        }
    }

    fn measure_lag(&self) {
        let status = self.stream.status();
        if status.idle || status.standby {
            return;
        }
        let since_cursor = || {
            let micros = self.clock.now().0.saturating_sub(status.cursor?.0);
            Some(micros.max(0) as f64 / 1e6)
        };
        let lag = if status.connected { status.lag.map(|lag| lag.as_secs_f64()) } else { since_cursor() };
        if let Some(lag) = lag {
            self.history.record(Measure::StreamLag, "", 1, lag);
        }
    }

    /// Takes over what the stream and the scripts have counted. A script that is replaced takes its counts with it.
    pub(super) fn collect(&self) {
        let mut totals = self.counted.0.lock().unwrap_or_else(PoisonError::into_inner);
        let events = self.stream.status().events;
        self.record_more(Measure::StreamEvents, "", events.saturating_sub(totals.stream_events), 0.0);
        totals.stream_events = events;
        let scripts = &self.scripting.runtime.scripts;
        // The runs of a candidate are runs of its script, and are counted apart because it has a tally of its own.
        let candidates = scripts.candidate_tallies();
        let candidates = candidates.into_iter().map(|(id, _, tally)| (CANDIDATE, id, tally));
        let tallies: Vec<_> =
            scripts.tallies().into_iter().map(|(id, tally)| (CURRENT, id, tally)).chain(candidates).collect();
        for (version, id, now) in &tallies {
            // A script with a new source counts from zero.
            let before =
                totals.scripts.get(&(*version, id.clone())).filter(|before| before.number == now.number);
            let (runs, failures, fuel) = before.map_or((0, 0, 0), |b| (b.runs, b.failures, b.fuel));
            let computed = before.map(|before| before.guest_time).unwrap_or_default();
            let runs = now.runs.saturating_sub(runs);
            let millis = now.guest_time.saturating_sub(computed).as_secs_f64() * 1e3 / runs.max(1) as f64;
            self.record_more(Measure::ScriptRuns, id, runs, millis);
            self.record_more(Measure::ScriptErrors, id, now.failures.saturating_sub(failures), 0.0);
            self.record_more(Measure::ScriptInstructions, id, now.fuel.saturating_sub(fuel), 0.0);
        }
        totals.scripts = tallies.into_iter().map(|(version, id, tally)| ((version, id), tally)).collect();
    }

    fn record_more(&self, measure: Measure, label: &str, count: u64, value: f64) {
        if count > 0 {
            self.history.record(measure, label, i64::try_from(count).unwrap_or(i64::MAX), value);
        }
    }
}
