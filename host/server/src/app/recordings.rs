//! Stores the runs that are recorded, without their secrets, and removes old ones
//! (`docs/adr/0168-recordings-are-made-at-the-contract.md`).

use std::collections::HashMap;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use super::App;
use belvedere_base::clock::Timestamp;
use belvedere_scripting::scripts::{ChosenRecording, RunRecorder, UnmaskedRun, mask};
use belvedere_storage::store::script_recordings::{self as store, NewRun, RecordingRow};
use belvedere_storage::store::{Db, StoreError};

/// Runs and ended recordings are kept for so long.
const KEEP: Duration = Duration::from_hours(7 * 24);

/// Interval between looks for runs that are too old or too many.
const TRIM_EVERY: Duration = Duration::from_secs(30);

/// Bytes of a script's runs that are stored before the oldest ones are removed, so that they never take much more than they may.
const TRIM_AFTER: usize = 16 << 20;

/// Runs that are stored in one transaction.
const BATCH: usize = 32;

/// Bytes of the runs of each script that were stored since its oldest ones were removed.
type Written = HashMap<String, usize>;

impl App {
    /// Reloads the recordings of the store.
    pub(super) async fn reload_recordings(&self) -> Result<(), StoreError> {
        load(&self.scripting.recorder, &self.db).await
    }

    /// Stores recorded runs until the server drains.
    pub(super) async fn store_recordings(self: Arc<Self>) {
        let drain = self.lifecycle.drain.clone();
        let recorded = self.scripting.recorded.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(mut recorded) = recorded else { return };
        let (mut written, mut trim) = (Written::new(), tokio::time::interval(TRIM_EVERY));
        let mut runs = Vec::with_capacity(BATCH);
        loop {
            tokio::select! {
                () = drain.cancelled() => return,
                count = recorded.recv_many(&mut runs, BATCH) => {
                    if count == 0 {
                        return;
                    }
                    self.store_runs(runs.drain(..), &mut written).await;
                }
                _ = trim.tick() => self.trim_recordings(std::mem::take(&mut written)).await,
            }
        }
    }

    async fn store_runs(&self, runs: impl Iterator<Item = UnmaskedRun>, written: &mut Written) {
        let mut masked = Vec::new();
        for run in runs {
            let (script_id, started_at, recorded_at) = (run.trigger.to_string(), run.started_at, run.at);
            let run = mask(run, &self.scripting.runtime.services.variables);
            match run.and_then(|run| run.encode()) {
                Some(data) => masked.push(NewRun { script_id, started_at, recorded_at, data }),
                // It is too large, or its secrets can't be replaced.
                None => count("not_kept", 1),
            }
            // Other tasks go on: a large run takes a while.
            tokio::task::yield_now().await;
        }
        if let Err(error) = store::add(&self.db, &masked).await {
            tracing::warn!(%error, runs = masked.len(), "recorded runs could not be stored");
            count("failed", masked.len());
            return;
        }
        count("stored", masked.len());
        for run in masked {
            *written.entry(run.script_id).or_default() += run.data.len();
        }
        let full = written.extract_if(|_, bytes| *bytes > TRIM_AFTER).collect::<Written>();
        if !full.is_empty() {
            self.trim_recordings(full).await;
        }
    }

    /// Removes the oldest runs of these scripts if they are too many, and all runs that are too old.
    async fn trim_recordings(&self, written: Written) {
        let before = Timestamp(self.clock.now().0.saturating_sub(KEEP.as_micros() as i64));
        let trimmed = async {
            for script_id in written.keys() {
                store::trim(&self.db, script_id).await?;
            }
            store::remove_old(&self.db, before).await
        };
        if let Err(error) = trimmed.await {
            tracing::warn!(%error, "old recorded runs could not be removed; they are removed later");
        }
    }
}

fn count(outcome: &'static str, runs: usize) {
    metrics::counter!("belvedere_script_recordings_total", "outcome" => outcome).increment(runs as u64);
}

/// Gives the recorder the recordings of the store.
pub(super) async fn load(recorder: &RunRecorder, db: &Db) -> Result<(), StoreError> {
    let chosen = |row: RecordingRow| {
        let percent = u64::try_from(row.percent).unwrap_or_default();
        (row.script_id, ChosenRecording { percent, until: row.until, started_at: row.started_at })
    };
    recorder.reload(async || Ok(store::list(db).await?.into_iter().map(chosen).collect())).await
}
