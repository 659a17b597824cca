//! Stores the runs that are recorded, without their secrets, and removes old ones.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use super::App;
use belvedere_base::clock::Timestamp;
use belvedere_scripting::scripts::{ChosenRecording, RunRecorder, UnmaskedRun, mask};
use belvedere_storage::store::{StoreError, script_recordings as store};

/// Runs and ended recordings are kept for so long.
pub const KEEP_RECORDED: Duration = Duration::from_hours(7 * 24);

/// Interval between looks for runs that are too old or too many.
const TRIM_EVERY: Duration = Duration::from_secs(30);

impl App {
    /// Reloads the recordings of the store.
    pub(super) async fn reload_recordings(&self) -> Result<(), StoreError> {
        let Some(recorder) = self.scripting.recorder() else { return Ok(()) };
        load(recorder, &store::list(&self.db).await?);
        Ok(())
    }

    /// Stores recorded runs until the server drains.
    pub(super) async fn store_recordings(self: Arc<Self>) {
        let drain = self.lifecycle.drain.clone();
        let Some(mut runs) = self.scripting.take_recorded() else { return };
        let (mut written, mut trim) = (HashSet::new(), tokio::time::interval(TRIM_EVERY));
        loop {
            tokio::select! {
                () = drain.cancelled() => return,
                run = runs.recv() => {
                    let Some(run) = run else { return };
                    let trigger = Arc::clone(&run.trigger);
                    self.store_run(run).await;
                    written.insert(trigger);
                }
                _ = trim.tick() => self.trim_recordings(&mut written, &mut runs).await,
            }
        }
    }

    async fn store_run(&self, run: UnmaskedRun) {
        let (trigger, started_at, at) = (Arc::clone(&run.trigger), run.started_at, run.at);
        let masked = mask(run, &self.scripting.runtime.services.variables);
        let outcome = match masked.and_then(|run| run.encode()) {
            // It is too large, or may be about a space.
            None => "not_kept",
            Some(data) => match store::add(&self.db, &trigger, started_at, at, &data).await {
                Ok(()) => "stored",
                Err(error) => {
                    tracing::warn!(%error, %trigger, "a recorded run could not be stored");
                    "failed"
                }
            },
        };
        metrics::counter!("belvedere_script_recordings_total", "outcome" => outcome).increment(1);
    }

    async fn trim_recordings(
        &self,
        written: &mut HashSet<Arc<str>>,
        runs: &mut mpsc::Receiver<UnmaskedRun>,
    ) {
        let now = self.clock.now();
        let before = Timestamp(now.0.saturating_sub(KEEP_RECORDED.as_micros() as i64));
        let trimmed = async {
            for trigger in written.drain() {
                store::trim(&self.db, &trigger).await?;
            }
            store::remove_old(&self.db, before).await
        };
        if let Err(error) = trimmed.await {
            tracing::warn!(%error, waiting = runs.len(), "old recorded runs could not be removed; they are removed later");
        }
    }
}

/// Gives the recorder the recordings of the store.
pub(super) fn load(recorder: &RunRecorder, rows: &[store::RecordingRow]) {
    recorder.replace(rows.iter().map(|row| {
        let percent = u64::try_from(row.percent).unwrap_or_default();
        let chosen = ChosenRecording { percent, until: row.until, started_at: row.started_at };
        (row.script_id.clone(), chosen)
    }));
}
