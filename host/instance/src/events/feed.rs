//! The event log for those who follow it over HTTP.
//!
//! However many readers there are, one task reads the new rows, formats each once and sends them on. It reads when this
//! host has written some, and now and then for those of other hosts, and only while there are readers. Events that a
//! slow reader has not taken are dropped, and it receives a notice.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::BoxStream;
use futures_util::{StreamExt as _, stream};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::EventLog;
use belvedere_base::clock::{Clock, Timestamp};
use belvedere_storage::store::events::{self, EventFilter, EventRow};
use belvedere_storage::store::{Db, StoreError};
use belvedere_web::fair_share::{FairPool, Full, Permit, Tenant};

/// Events that a reader may be behind by. All readers share them.
const QUEUE: usize = 1_024;

/// Interval at which the task looks for events of other hosts.
const POLL_EVERY: Duration = Duration::from_secs(1);

/// The least time between two looks, so that a flood of events is read in few.
const PAUSE: Duration = Duration::from_millis(100);

/// Time before the present from which the task reads each time. Events are written some time after they occurred, by
/// hosts whose clocks differ a little; what comes later is not sent.
const LOOK_BACK_SECONDS: i64 = 10;

/// Rows of one look. When there are more, the readers receive a notice that some are missing.
const MAX_ROWS: u32 = 1_000;

/// A message of the feed.
#[derive(Clone, Debug)]
pub enum Message {
    Event(Arc<EventRow>),
    /// Some events were left out: load the list again.
    Missed,
}

/// The feed of this host. Cheap to clone.
#[derive(Clone)]
pub struct EventFeed(Arc<Inner>);

struct Inner {
    db: Db,
    stored: watch::Receiver<()>,
    clock: Clock,
    streams: FairPool,
    tasks: TaskTracker,
    drain: CancellationToken,
    /// `None` while there are no readers.
    open: Mutex<Option<broadcast::Sender<Message>>>,
}

impl EventFeed {
    /// `streams` bounds the open streams; `drain` ends all of them; `tasks` are waited for after that.
    pub fn new(
        db: Db,
        log: &EventLog,
        clock: Clock,
        streams: FairPool,
        (tasks, drain): (TaskTracker, CancellationToken),
    ) -> Self {
        let stored = log.subscribe();
        Self(Arc::new(Inner { db, stored, clock, streams, tasks, drain, open: Mutex::default() }))
    }

    /// The events that occur from now on and match the filter, as bytes that `format` makes of them, until the server
    /// drains.
    ///
    /// # Errors
    /// When too many streams are open, of this user or in total.
    pub fn follow(
        &self,
        user: &Tenant,
        filter: EventFilter,
        format: impl Fn(&Message) -> Bytes + Send + 'static,
    ) -> Result<BoxStream<'static, Bytes>, Full> {
        let permit = self.0.streams.try_enter(user)?;
        let messages = stream::unfold((self.0.join(), permit), next);
        let messages = messages.filter_map(move |message| {
            let is_wanted = match &message {
                Message::Event(row) => filter.matches(row),
                Message::Missed => true,
            };
            std::future::ready(is_wanted.then(|| format(&message)))
        });
        Ok(messages.take_until(self.0.drain.clone().cancelled_owned()).boxed())
    }
}

async fn next(
    (mut messages, permit): (broadcast::Receiver<Message>, Permit),
) -> Option<(Message, (broadcast::Receiver<Message>, Permit))> {
    let message = match messages.recv().await {
        Ok(message) => message,
        Err(RecvError::Lagged(_)) => Message::Missed,
        Err(RecvError::Closed) => return None,
    };
    Some((message, (messages, permit)))
}

impl Inner {
    /// Subscribes, and starts the task for the first reader.
    fn join(self: &Arc<Self>) -> broadcast::Receiver<Message> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = &*open {
            return sender.subscribe();
        }
        let (sender, receiver) = broadcast::channel(QUEUE);
        *open = Some(sender.clone());
        drop(open);
        let (feed, drain) = (Arc::clone(self), self.drain.clone());
        let began = self.clock.now();
        self.tasks.spawn(async move { drain.run_until_cancelled(feed.run(sender, began)).await });
        receiver
    }

    async fn run(&self, sender: broadcast::Sender<Message>, began: Timestamp) {
        let mut sent = Sent { since: began, rows: BTreeSet::new() };
        let mut stored = self.stored.clone();
        loop {
            tokio::time::sleep(PAUSE).await;
            let change = async {
                if stored.changed().await.is_err() {
                    // The writer has ended, and the server will.
                    std::future::pending::<()>().await;
                }
            };
            let _ = tokio::time::timeout(POLL_EVERY, change).await;
            if self.retire(&sender) {
                return;
            }
            match self.look(&mut sent).await {
                Ok(messages) => {
                    for message in messages {
                        // Fails without readers.
                        let _ = sender.send(message);
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "the event log can't be read for those who follow it");
                }
            }
        }
    }

    /// Ends the feed if it has no readers. The next reader starts a new one.
    fn retire(&self, sender: &broadcast::Sender<Message>) -> bool {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let is_unused = sender.receiver_count() == 0;
        if is_unused {
            *open = None;
        }
        is_unused
    }

    /// The rows that were not sent, the earliest first.
    async fn look(&self, sent: &mut Sent) -> Result<Vec<Message>, StoreError> {
        let from = sent.since.max(self.clock.now().plus_seconds(-LOOK_BACK_SECONDS));
        let filter = EventFilter { from: Some(from), ..EventFilter::default() };
        let rows = events::list(&self.db, &filter, MAX_ROWS).await?;
        let is_full = rows.len() == MAX_ROWS as usize;
        Ok(sent.select(rows, is_full, from))
    }
}

/// The events that were sent within the time that is looked at.
struct Sent {
    /// The time at which the feed began: older events are not new.
    since: Timestamp,
    rows: BTreeSet<(Timestamp, String)>,
}

impl Sent {
    fn select(&mut self, newest_first: Vec<EventRow>, is_full: bool, from: Timestamp) -> Vec<Message> {
        let mut messages = Vec::new();
        // All rows are new, so the one before them may be as well.
        let mut all_new = is_full;
        for row in newest_first.into_iter().rev() {
            if self.rows.insert((row.created_at, row.id.clone())) {
                messages.push(Message::Event(Arc::new(row)));
            } else {
                all_new = false;
            }
        }
        if all_new {
            messages.insert(0, Message::Missed);
        }
        self.rows = self.rows.split_off(&(from, String::new()));
        messages
    }
}

impl fmt::Debug for EventFeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EventFeed")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::Event;
    use belvedere_storage::store::events::Severity;
    use belvedere_web::http::event_stream;

    fn row(second: i64, id: &str) -> EventRow {
        EventRow {
            id: id.to_owned(),
            event_type: "script.log".to_owned(),
            severity: Severity::Info,
            actor_did: None,
            subject: None,
            detail: "{}".to_owned(),
            created_at: Timestamp(0).plus_seconds(second),
            requester: events::Requester::default(),
        }
    }

    fn shown(messages: Vec<Message>) -> Vec<String> {
        let show = |message| match message {
            Message::Event(row) => row.id.clone(),
            Message::Missed => "missed".to_owned(),
        };
        messages.into_iter().map(show).collect()
    }

    #[tokio::test]
    async fn a_reader_that_is_too_slow_is_told_that_it_missed_some() {
        let directory = tempfile::tempdir().unwrap();
        let db = Db::open(&format!("sqlite://{}/test.db", directory.path().display()), 2).await.unwrap();
        db.migrate().await.unwrap();
        let clock = Clock::system();
        let (log, _writer) =
            EventLog::start(db.clone(), clock.clone(), belvedere_base::random::Random::system());
        let (streams, drain) = (event_stream::permits(), CancellationToken::new());
        let ending = (TaskTracker::new(), drain.clone());
        let feed = EventFeed::new(db, &log, clock, streams.clone(), ending);
        let follow = |category: &str| {
            let filter = EventFilter { categories: vec![category.to_owned()], ..EventFilter::default() };
            let format = |message: &Message| match message {
                Message::Event(_) => Bytes::from_static(b"event"),
                Message::Missed => Bytes::from_static(b"missed"),
            };
            feed.follow(&Tenant::Instance, filter, format).unwrap()
        };
        let (mut slow, mut quick, other) = (follow("script"), follow("script"), follow("backfill"));
        assert_eq!(streams.used(), 3);
        for _ in 0..2 {
            for _ in 0..=QUEUE / 2 {
                let trigger = "job.run:x".to_owned();
                log.record(Event::ScriptLog { caller: None, trigger, message: String::new() });
            }
            for _ in 0..=QUEUE / 2 {
                assert_eq!(quick.next().await.unwrap(), "event");
            }
        }
        assert_eq!(slow.next().await.unwrap(), "missed");
        assert_eq!(slow.next().await.unwrap(), "event", "and then what is still there");
        drop((slow, quick));
        assert_eq!(streams.used(), 1);
        drain.cancel();
        assert!(other.collect::<Vec<_>>().await.is_empty(), "all end with the server");
    }

    #[test]
    fn each_row_is_sent_once_also_one_that_is_written_late() {
        let at = |second| Timestamp(0).plus_seconds(second);
        let mut sent = Sent { since: at(0), rows: BTreeSet::new() };
        assert_eq!(shown(sent.select(vec![row(5, "b"), row(3, "a")], false, at(0))), ["a", "b"]);
        assert_eq!(
            shown(sent.select(vec![row(5, "b"), row(4, "late"), row(3, "a")], false, at(0))),
            ["late"]
        );
        assert_eq!(shown(sent.select(vec![row(6, "d"), row(6, "c"), row(5, "b")], false, at(5))), ["c", "d"]);
        assert_eq!(sent.rows.len(), 3, "what is not looked at any more is forgotten");
        // As many rows as are read, and none of them is known.
        assert_eq!(shown(sent.select(vec![row(9, "f"), row(8, "e")], true, at(5))), ["missed", "e", "f"]);
        assert_eq!(shown(sent.select(vec![row(10, "g"), row(9, "f")], true, at(5))), ["g"]);
    }
}
