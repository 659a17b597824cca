//! Stores what hosts have counted of both versions of a script during a rollout, and returns a candidate that compares badly
//! (`docs/adr/0167-rollouts-are-chosen-by-caller.md`).

use std::sync::Arc;
use std::time::Duration;

use super::{App, Topic};
use belvedere_instance::events::Event;
use belvedere_storage::store::script_rollouts::{
    self as store, RolloutCounts, RolloutRow, RolloutState, RolloutTerms, RolloutVersion,
};
use belvedere_web::http::Error;

/// Interval between comparisons: a candidate that fails does so for a few seconds.
const COMPARE_EVERY: Duration = Duration::from_secs(2);

/// Mean microseconds that a candidate may take more in any case: times of less than that vary by themselves.
const FREE_MICROS: i64 = 1_000;

impl App {
    /// Compares the rollouts now and then, until the server drains.
    pub(super) async fn compare_rollouts(self: Arc<Self>) {
        let drain = self.lifecycle.drain.clone();
        while drain.run_until_cancelled(tokio::time::sleep(COMPARE_EVERY)).await.is_some() {
            if self.scripting.runtime.scripts.rollouts().is_empty() {
                continue;
            }
            if let Err(error) = Box::pin(self.compare_rollouts_once()).await {
                tracing::warn!(?error, "rollouts could not be compared; they are compared again in a moment");
            }
        }
    }

    /// Stores what this host has counted, and returns the candidates that compare badly.
    ///
    /// # Errors
    /// When the store fails; counts that were not stored are stored later.
    pub async fn compare_rollouts_once(&self) -> Result<(), Error> {
        for (rollout, current) in self.scripting.runtime.scripts.rollouts() {
            let id = &*rollout.script_id;
            let mut failed = None;
            for (version, counts) in rollout.take(&current) {
                if counts == RolloutCounts::default() {
                    continue;
                }
                match store::add_counts(&self.db, id, rollout.started_at, version, counts).await {
                    Ok(()) => count_metrics(id, version, counts),
                    Err(error) => {
                        rollout.put_back(version, counts);
                        failed = Some(error);
                    }
                }
            }
            if let Some(error) = failed {
                return Err(error.into());
            }
            let row = store::get(&self.db, id).await?;
            let going_on =
                row.filter(|row| row.state == RolloutState::Running && row.started_at == rollout.started_at);
            let Some(row) = going_on else { continue };
            let [current, candidate] = self.rollout_counts(id).await?;
            if let Some(reason) = excess(&row.terms, &current, &candidate) {
                self.return_candidate(&row, None, &reason).await?;
            }
        }
        Ok(())
    }

    /// The runs of the script and of the candidate, on all hosts.
    ///
    /// # Errors
    /// When the store can't be read.
    pub async fn rollout_counts(&self, id: &str) -> Result<[RolloutCounts; 2], Error> {
        let current = store::counts(&self.db, id, RolloutVersion::Current).await?;
        Ok([current, store::counts(&self.db, id, RolloutVersion::Candidate).await?])
    }

    /// Lets all callers run the script as it is saved. `actor`: the admin who wants it, if it is one. `false` when the rollout does
    /// not go on any more: another host may have returned it.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn return_candidate(
        &self,
        row: &RolloutRow,
        actor: Option<String>,
        reason: &str,
    ) -> Result<bool, Error> {
        let ended = store::end(&self.db, &row.script_id, row.started_at, reason, self.clock.now()).await?;
        // A reader of the event must find that this host has dropped the candidate.
        let reloaded = self.changed(Topic::Script(row.script_id.clone())).await;
        if ended {
            self.events.record(Event::ScriptRolloutReturned {
                actor,
                trigger: row.script_id.clone(),
                revision: row.base_revision,
                percent: row.terms.percent,
                reason: reason.to_owned(),
            });
        }
        reloaded?;
        Ok(ended)
    }
}

fn count_metrics(id: &str, version: RolloutVersion, counts: RolloutCounts) {
    for (outcome, count) in [("ok", counts.runs - counts.failures), ("failed", counts.failures)] {
        let count = u64::try_from(count).unwrap_or_default();
        metrics::counter!("belvedere_script_rollout_runs_total",
            "script" => id.to_owned(), "version" => version.as_str(), "outcome" => outcome)
        .increment(count);
    }
}

/// The first term that a candidate breaks, for the event log; `None` while it breaks none.
fn excess(terms: &RolloutTerms, current: &RolloutCounts, candidate: &RolloutCounts) -> Option<String> {
    if candidate.runs < terms.min_runs.max(1) {
        return None;
    }
    let percent = |counts: &RolloutCounts| counts.failures.saturating_mul(100) / counts.runs.max(1);
    let (now, before) = (percent(candidate), percent(current));
    if now > before.saturating_add(terms.max_errors) {
        return Some(format!(
            "{now} % of {} runs of the candidate failed, and {before} % of {} runs of the script: more than {} points above",
            candidate.runs, current.runs, terms.max_errors
        ));
    }
    if current.runs < terms.min_runs.max(1) {
        return None;
    }
    let mean = |of: i64, counts: &RolloutCounts| of / counts.runs.max(1);
    let took = (mean(candidate.took_micros, candidate), mean(current.took_micros, current));
    let slower = took.0 > took.1.saturating_add(FREE_MICROS);
    if let Some(max) = terms.max_time.filter(|max| slower && exceeds(took, *max)) {
        return Some(format!(
            "a run of the candidate takes {} µs, and one of the script {} µs: more than {max} % of it",
            took.0, took.1
        ));
    }
    let counted = (mean(candidate.instructions, candidate), mean(current.instructions, current));
    terms.max_instructions.filter(|max| exceeds(counted, *max)).map(|max| {
        format!(
            "a run of the candidate executes {} instructions, and one of the script {}: more than {max} % of them",
            counted.0, counted.1
        )
    })
}

/// Whether the candidate's value is more than so many percent of the script's.
fn exceeds((candidate, current): (i64, i64), percent: i64) -> bool {
    candidate.saturating_mul(100) > current.saturating_mul(percent)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TERMS: RolloutTerms = RolloutTerms {
        percent: 10,
        min_runs: 100,
        max_errors: 5,
        max_time: Some(200),
        max_instructions: Some(150),
    };

    fn runs(runs: i64, failures: i64, millis: i64, instructions: i64) -> RolloutCounts {
        let took_micros = runs * millis * 1_000;
        RolloutCounts { runs, failures, instructions: runs * instructions, guest_micros: 0, took_micros }
    }

    #[test]
    fn a_candidate_is_returned_by_the_first_term_that_it_breaks() {
        let current = runs(1_000, 20, 10, 500);
        let broken = |candidate| excess(&TERMS, &current, &candidate);
        assert_eq!(broken(runs(99, 99, 500, 9_000)), None, "too few runs to say");
        assert_eq!(broken(runs(100, 7, 20, 750)), None, "each is at its limit");
        assert!(broken(runs(100, 8, 10, 500)).unwrap().starts_with("8 % of 100 runs"));
        assert!(broken(runs(100, 0, 21, 500)).unwrap().contains("21000 µs"));
        assert!(broken(runs(100, 0, 10, 751)).unwrap().contains("751 instructions"));
    }

    #[test]
    fn times_are_compared_with_enough_runs_of_the_script() {
        assert_eq!(excess(&TERMS, &runs(99, 0, 1, 1), &runs(100, 0, 500, 500)), None);
        assert!(excess(&TERMS, &runs(0, 0, 0, 0), &runs(100, 6, 1, 1)).is_some(), "failures are not");
        let fast = RolloutCounts { took_micros: 100_000, ..runs(1_000, 0, 0, 500) };
        let slower = RolloutCounts { took_micros: 100_000, ..runs(100, 0, 0, 500) };
        assert_eq!(excess(&TERMS, &fast, &slower), None, "100 µs and 1 ms: less than a millisecond more");
    }
}
