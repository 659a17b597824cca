//! Chooses the runs that are recorded, and hands them to the task that stores them.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::mpsc;

use super::run::RecordedRun;
use belvedere_base::clock::Timestamp;
use belvedere_base::reloadable::Reloadable;

/// Recorded runs that wait to be stored: with the largest size of each they take 64 MiB. A run that finds the queue full is not kept.
const QUEUE: usize = 128;

/// A script whose runs are recorded.
#[derive(Debug)]
pub struct ChosenRecording {
    /// Percent of the runs.
    pub percent: u64,
    /// The end of the recording.
    pub until: Timestamp,
    pub started_at: Timestamp,
}

#[derive(Debug)]
struct Chosen {
    recording: ChosenRecording,
    runs: AtomicU64,
}

/// A recorded run in which no secret is replaced yet. Its `Debug` output has none of it.
pub struct UnmaskedRun {
    pub trigger: Arc<str>,
    /// The start of its recording.
    pub started_at: Timestamp,
    pub at: Timestamp,
    pub(in crate::scripts) run: RecordedRun,
    /// Values that are secrets because of the place at which they were.
    pub(in crate::scripts) secrets: Vec<Vec<u8>>,
}

impl std::fmt::Debug for UnmaskedRun {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UnmaskedRun").field("trigger", &self.trigger).finish_non_exhaustive()
    }
}

/// Chooses the runs that are recorded.
#[derive(Debug)]
pub struct RunRecorder {
    chosen: Reloadable<HashMap<Arc<str>, Chosen>>,
    queue: mpsc::Sender<UnmaskedRun>,
}

impl RunRecorder {
    /// The receiver gets the recorded runs.
    pub fn new() -> (Self, mpsc::Receiver<UnmaskedRun>) {
        let (queue, receiver) = mpsc::channel(QUEUE);
        (Self { chosen: Reloadable::default(), queue }, receiver)
    }

    /// Replaces the scripts whose runs are recorded by what `read` returns.
    ///
    /// # Errors
    /// Those of `read`; then they stay.
    pub async fn reload<E>(
        &self,
        read: impl AsyncFnOnce() -> Result<Vec<(String, ChosenRecording)>, E>,
    ) -> Result<(), E> {
        let chosen = |(trigger, recording): (String, ChosenRecording)| {
            (Arc::<str>::from(trigger), Chosen { recording, runs: AtomicU64::new(0) })
        };
        self.chosen.reload(async |_| Ok(read().await?.into_iter().map(chosen).collect())).await
    }

    /// The start of the recording, if the run that begins now is one of those that it has.
    pub(in crate::scripts) fn takes(&self, trigger: &str, now: Timestamp) -> Option<Timestamp> {
        let all = self.chosen.load();
        if all.is_empty() {
            return None;
        }
        let Chosen { recording, runs } = all.get(trigger)?;
        if now >= recording.until {
            return None;
        }
        let run = runs.fetch_add(1, Ordering::Relaxed);
        let before = |run: u64| run.saturating_mul(recording.percent) / 100;
        // The first run of a recording is one of them.
        let is_one = run == 0 || before(run) > before(run - 1);
        is_one.then_some(recording.started_at)
    }

    /// Hands a run over. It is dropped and counted when too many wait.
    pub(in crate::scripts) fn keep(&self, run: UnmaskedRun) {
        if self.queue.try_send(run).is_err() {
            metrics::counter!("belvedere_script_recordings_total", "outcome" => "dropped").increment(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_part_of_the_runs_is_recorded_until_the_end() {
        let (recorder, _receiver) = RunRecorder::new();
        assert_eq!(recorder.takes("job.run:x", Timestamp(0)), None);
        let recording = ChosenRecording { percent: 10, until: Timestamp(100), started_at: Timestamp(1) };
        let chosen = async || Ok::<_, ()>(vec![("xrpc.query:a.b.c".to_owned(), recording)]);
        recorder.reload(chosen).await.unwrap();
        let taken =
            |at| (0..1_000).filter(|_| recorder.takes("xrpc.query:a.b.c", Timestamp(at)).is_some()).count();
        assert!((99..=101).contains(&taken(99)));
        assert_eq!(taken(100), 0);
        assert_eq!(recorder.takes("xrpc.query:other", Timestamp(99)), None);
    }

    #[test]
    fn runs_are_dropped_when_too_many_wait() {
        let (recorder, mut receiver) = RunRecorder::new();
        for _ in 0..2 * QUEUE {
            recorder.keep(UnmaskedRun {
                trigger: "job.run:x".into(),
                started_at: Timestamp(0),
                at: Timestamp(0),
                run: RecordedRun::default(),
                secrets: Vec::new(),
            });
        }
        let waiting = std::iter::from_fn(|| receiver.try_recv().ok()).count();
        assert_eq!(waiting, QUEUE);
    }
}
