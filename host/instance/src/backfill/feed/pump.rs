//! The task of a feed: collects what happens to a job, from the worker of this host and from the job's row, and sends
//! it to the readers in frames.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use tokio::time::{Instant, MissedTickBehavior};

use super::super::progress::{Progress, Watched, Watcher};
use super::messages::{self, Frame};
use super::{Feed, Inner};
use belvedere_storage::store::backfill::{self, JobRow};
use belvedere_storage::store::status::BackfillStatus;

/// Time for which messages are collected before they are sent: unnoticeable, and a hundred readers cost a thousand
/// writes a second at most, however fast the job is.
const FRAME_TIME: Duration = Duration::from_millis(100);
/// Bytes of a frame that is sent at once.
const FRAME_BYTES: usize = 16 << 10;

/// Time between two looks at the job's row: one cheap read for all readers.
const POLL: Duration = Duration::from_secs(1);
/// The row is behind the messages of a worker on this host, so stages and counters are taken from it only when the
/// worker has been silent for this long.
const WORKER_SILENCE: Duration = Duration::from_secs(3);

/// Runs until the job has ended, the last reader has left, or the server drains.
pub(super) async fn run(feeds: Arc<Inner>, feed: Arc<Feed>, mut watcher: Watcher) {
    let mut pump = Pump { feed: &feed, frame: Vec::new(), flush_at: None, last_message: None };
    let mut polls = tokio::time::interval(POLL);
    polls.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut has_worker = true;
    loop {
        let flush_at = pump.flush_at.unwrap_or_else(Instant::now);
        let end = tokio::select! {
            biased;
            () = feeds.drain.cancelled() => return,
            () = feed.frames.closed() => {
                if feeds.retire(&feed) {
                    return;
                }
                None
            }
            _ = polls.tick() => pump.poll(&mut watcher).await,
            () = tokio::time::sleep_until(flush_at), if pump.flush_at.is_some() => {
                pump.flush();
                None
            }
            next = watcher.next(), if has_worker => match next {
                Watched::Message(message) => pump.forward(&message.progress, &message.json),
                Watched::Missed => {
                    pump.last_message = None;
                    polls.reset_immediately();
                    None
                }
                Watched::Ended => {
                    has_worker = false;
                    None
                }
            },
        };
        if let Some(end) = end {
            pump.append(&end);
            feeds.close(&feed, Frame { bytes: pump.frame.into(), is_last: true });
            return;
        }
    }
}

struct Pump<'a> {
    feed: &'a Feed,
    /// Messages that were not sent yet.
    frame: Vec<u8>,
    /// The latest time at which they are sent.
    flush_at: Option<Instant>,
    /// The time at which the worker of this host last sent a message.
    last_message: Option<Instant>,
}

impl Pump<'_> {
    /// Adds a message of the worker, with its JSON text. Returns it if it is the last.
    fn forward(&mut self, progress: &Progress, json: &[u8]) -> Option<Progress> {
        self.last_message = Some(Instant::now());
        self.feed.state.send_modify(|state| update(state, progress));
        if matches!(progress, Progress::JobCompleted { .. }) {
            return Some(progress.clone());
        }
        messages::append_json(&mut self.frame, json);
        self.schedule();
        None
    }

    /// Compares the job's row with what the readers know, and adds what is new. Returns the last message if the job has
    /// ended.
    async fn poll(&mut self, watcher: &mut Watcher) -> Option<Progress> {
        let job_id = &self.feed.job_id;
        let row = match backfill::get(&self.feed.db, job_id).await {
            Ok(Some(row)) => row,
            // Someone deleted the row from the database.
            Ok(None) => {
                return Some(Progress::JobCompleted { status: BackfillStatus::Cancelled, error: None });
            }
            Err(error) => {
                tracing::warn!(%error, job_id, "the state of a backfill can't be read");
                return None;
            }
        };
        if row.completed_at.is_some() {
            // Messages that a worker of this host sent before it stored the end come first.
            while let Some(Watched::Message(message)) =
                tokio::task::unconstrained(watcher.next()).now_or_never()
            {
                if let Some(end) = self.forward(&message.progress, &message.json) {
                    return Some(end);
                }
            }
            self.catch_up(&row);
            return Some(messages::completion(&row));
        }
        let has_paused_or_resumed = self.feed.state.borrow().status != row.status;
        if self.last_message.is_none_or(|at| at.elapsed() >= WORKER_SILENCE) {
            self.catch_up(&row);
        }
        if has_paused_or_resumed {
            self.feed.state.send_modify(|state| state.status = row.status);
            // No message announces it; a snapshot shows it.
            let snapshot = self.feed.snapshot().await;
            self.frame.extend_from_slice(&snapshot);
            self.schedule();
        }
        None
    }

    /// Adds the messages that lead from what the readers know to the row.
    fn catch_up(&mut self, row: &JobRow) {
        let known = self.feed.state.send_replace(row.clone());
        for message in changes(&known, row) {
            self.append(&message);
        }
    }

    fn append(&mut self, message: &Progress) {
        messages::append(&mut self.frame, &self.feed.job_id, message);
        self.schedule();
    }

    fn schedule(&mut self) {
        if self.frame.len() >= FRAME_BYTES {
            self.flush();
        } else if self.flush_at.is_none() {
            self.flush_at = Some(Instant::now() + FRAME_TIME);
        }
    }

    fn flush(&mut self) {
        self.flush_at = None;
        if !self.frame.is_empty() {
            let bytes = Bytes::from(std::mem::take(&mut self.frame));
            // Fails after the last reader has left.
            let _ = self.feed.frames.send(Frame { bytes, is_last: false });
        }
    }
}

/// Applies a message to what is known of the job.
fn update(state: &mut JobRow, progress: &Progress) {
    match progress {
        Progress::JobCounters {
            total_repos,
            resolved_repos,
            processed_repos,
            failed_repos,
            total_records,
        } => {
            state.total_repos = total_repos.or(state.total_repos);
            state.resolved_repos = resolved_repos.or(state.resolved_repos);
            state.processed_repos = processed_repos.or(state.processed_repos);
            state.failed_repos = failed_repos.or(state.failed_repos);
            state.total_records = total_records.or(state.total_records);
        }
        Progress::JobStageChanged { stage } => state.stage = *stage,
        Progress::JobCompleted { status, .. } => state.status = *status,
        Progress::RepoDiscovered { .. } | Progress::RepoResolved { .. } | Progress::RepoFetched { .. } => {}
    }
}

/// The messages that lead from one state of a job to another.
fn changes(known: &JobRow, now: &JobRow) -> Vec<Progress> {
    let changed = |known: Option<i64>, now: Option<i64>| now.filter(|_| known != now);
    let counters = [
        changed(known.total_repos, now.total_repos),
        changed(known.resolved_repos, now.resolved_repos),
        changed(known.processed_repos, now.processed_repos),
        changed(known.failed_repos, now.failed_repos),
        changed(known.total_records, now.total_records),
    ];
    let [total_repos, resolved_repos, processed_repos, failed_repos, total_records] = counters;
    let mut messages = Vec::new();
    if counters.iter().any(Option::is_some) {
        messages.push(Progress::JobCounters {
            total_repos,
            resolved_repos,
            processed_repos,
            failed_repos,
            total_records,
        });
    }
    if known.stage != now.stage {
        messages.push(Progress::JobStageChanged { stage: now.stage });
    }
    messages
}
