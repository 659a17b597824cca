//! The reports of a running job to its readers (admin-api.md §12.4).

use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;
use tokio::sync::broadcast;

use belvedere_storage::store::backfill::Counters;
use belvedere_storage::store::status::{BackfillStatus, Stage};

/// Messages that a slow watcher may fall behind by. Beyond it, it misses the oldest.
const CAPACITY: usize = 16_384;

/// A message about a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Progress {
    RepoDiscovered {
        did: String,
    },
    RepoResolved {
        did: String,
        pds_endpoint: String,
    },
    /// Reading the records of a repo has ended.
    RepoFetched {
        did: String,
        pds_endpoint: String,
        records_fetched: i64,
    },
    /// The counters; `None`: unchanged.
    JobCounters {
        total_repos: Option<i64>,
        resolved_repos: Option<i64>,
        processed_repos: Option<i64>,
        failed_repos: Option<i64>,
        total_records: Option<i64>,
    },
    JobStageChanged {
        stage: Stage,
    },
    /// The job has ended.
    JobCompleted {
        status: BackfillStatus,
        error: Option<String>,
    },
}

/// A message with the job that it is about.
#[derive(Debug)]
pub struct JobMessage {
    job_id: Arc<str>,
    pub progress: Progress,
    /// The JSON text of the message, the same for all watchers.
    pub json: Bytes,
}

#[derive(Serialize)]
struct Payload<'a> {
    #[serde(flatten)]
    progress: &'a Progress,
    job_id: &'a str,
}

/// The channel between the worker and the watchers. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Broadcast(broadcast::Sender<Arc<JobMessage>>);

/// Receives the messages about one job.
#[derive(Debug)]
pub struct Watcher {
    job_id: String,
    receiver: broadcast::Receiver<Arc<JobMessage>>,
}

/// The next event of a [`Watcher`].
#[derive(Debug)]
pub enum Watched {
    Message(Arc<JobMessage>),
    /// The watcher was too slow and has missed messages: show the job's state again.
    Missed,
    /// The server shuts down.
    Ended,
}

impl Progress {
    /// The JSON text of the message, with the job's id.
    pub fn to_json(&self, job_id: &str) -> Bytes {
        // Strings and numbers always serialize.
        serde_json::to_vec(&Payload { progress: self, job_id }).unwrap_or_default().into()
    }

    /// The counters that differ from `before`; `None` when none does.
    pub(super) fn counters(before: Counters, now: Counters) -> Option<Self> {
        let changed = |before: i64, now: i64| (before != now).then_some(now);
        (before != now).then(|| Self::JobCounters {
            total_repos: changed(before.total_repos, now.total_repos),
            resolved_repos: changed(before.resolved_repos, now.resolved_repos),
            processed_repos: changed(before.processed_repos, now.processed_repos),
            failed_repos: changed(before.failed_repos, now.failed_repos),
            total_records: changed(before.total_records, now.total_records),
        })
    }
}

impl Broadcast {
    pub(super) fn new() -> Self {
        Self(broadcast::Sender::new(CAPACITY))
    }

    pub(super) fn subscribe(&self, job_id: &str) -> Watcher {
        Watcher { job_id: job_id.to_owned(), receiver: self.0.subscribe() }
    }

    /// Sends the message to all watchers, if there are any.
    pub(super) fn send(&self, job_id: &Arc<str>, progress: impl FnOnce() -> Progress) {
        if self.0.receiver_count() > 0 {
            let progress = progress();
            let json = progress.to_json(job_id);
            // Fails when the last watcher has just left.
            let _ = self.0.send(Arc::new(JobMessage { job_id: Arc::clone(job_id), progress, json }));
        }
    }
}

impl Watcher {
    /// Waits for the next message about the job. Cancel-safe.
    pub async fn next(&mut self) -> Watched {
        loop {
            match self.receiver.recv().await {
                Ok(message) if *message.job_id == *self.job_id => return Watched::Message(message),
                Ok(_) => {}
                Err(broadcast::error::RecvError::Lagged(_)) => return Watched::Missed,
                Err(broadcast::error::RecvError::Closed) => return Watched::Ended,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[tokio::test]
    async fn a_watcher_receives_the_messages_of_its_job() {
        let broadcast = Broadcast::new();
        let mut watcher = broadcast.subscribe("mine");
        broadcast.send(&"other".into(), || Progress::RepoDiscovered { did: "did:plc:a".into() });
        broadcast.send(&"mine".into(), || Progress::JobStageChanged { stage: Stage::Pending });
        let Watched::Message(message) = watcher.next().await else { panic!("a message") };
        let shown: Value = serde_json::from_slice(&message.json).unwrap();
        assert_eq!(shown, json!({ "type": "job_stage_changed", "job_id": "mine", "stage": "pending" }));
        for _ in 0..=CAPACITY {
            broadcast.send(&"mine".into(), || Progress::JobStageChanged { stage: Stage::Pending });
        }
        assert!(matches!(watcher.next().await, Watched::Missed));
        drop(broadcast);
        while !matches!(watcher.next().await, Watched::Ended) {}
    }

    #[test]
    fn only_changed_counters_are_sent() {
        let before = Counters { total_repos: 4, ..Counters::default() };
        assert_eq!(Progress::counters(before, before), None);
        let now = Counters { total_records: 9, ..before };
        let shown: Value =
            serde_json::from_slice(&Progress::counters(before, now).unwrap().to_json("j")).unwrap();
        let expected = json!({ "type": "job_counters", "job_id": "j", "total_repos": null,
            "resolved_repos": null, "processed_repos": null, "failed_repos": null, "total_records": 9 });
        assert_eq!(shown, expected);
    }
}
