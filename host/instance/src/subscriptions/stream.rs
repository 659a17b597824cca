//! The messages of one connection: first those since its cursor, from the table, then those of its queue.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::time::Instant;

use belvedere_storage::store::StoreError;
use belvedere_storage::store::record_changes;

use super::queue::{Ended, Receiver};
use super::script_feed::{self, ScriptFeed};
use super::{Messages, Next, Subscriptions, Wanted, render};
use belvedere_web::http::websocket::Frame;

/// Time in which a connection whose queue was full must have read the table up to the present. A burst of changes, such as a
/// backfill's, takes seconds.
const TOO_SLOW_AFTER: Duration = Duration::from_mins(1);

/// The messages of a connection.
#[derive(Debug)]
pub struct ChangeStream {
    subscriptions: Subscriptions,
    wanted: Wanted,
    /// The messages of the subscription's script.
    feed: Option<Arc<ScriptFeed>>,
    state: State,
    /// The messages of changes of the table for which the script runs.
    running: Running,
    /// The time at which its queue was full, until it has caught up.
    overrun_at: Option<Instant>,
}

/// A page of changes for which the script runs, and its last number. It is kept between calls, so that none of it runs twice.
#[derive(Default)]
struct Running(Option<(i64, BoxFuture<'static, Vec<Frame>>)>);

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Running")
    }
}

#[derive(Debug)]
enum State {
    Start {
        cursor: Option<i64>,
    },
    /// Reads the table after this number.
    CatchUp {
        seq: i64,
        queue: Option<Receiver>,
    },
    /// Everything up to this number has been sent.
    Live {
        seq: i64,
        queue: Receiver,
    },
    Ended,
}

impl ChangeStream {
    pub(super) fn new(
        subscriptions: Subscriptions,
        wanted: Wanted,
        feed: Option<Arc<ScriptFeed>>,
        cursor: Option<i64>,
    ) -> Self {
        let state = State::Start { cursor };
        Self { subscriptions, wanted, feed, state, running: Running::default(), overrun_at: None }
    }

    async fn start(&mut self, cursor: Option<i64>) -> Result<Next, StoreError> {
        let Some(cursor) = cursor else {
            let (seq, queue) = self.subscriptions.join(&self.wanted, self.feed.as_ref()).await?;
            self.state = State::Live { seq, queue };
            return Ok(Next::Frames(Vec::new()));
        };
        let bounds = record_changes::bounds(self.subscriptions.db()).await?;
        let (first, last) = bounds.unwrap_or((1, 0));
        if cursor > last {
            return Ok(self.error("FutureCursor", "the cursor is in the future"));
        }
        let mut frames = Vec::new();
        if cursor > 0 && cursor < first - 1 {
            let lexicons = self.subscriptions.registry().snapshot();
            let Wanted { selection, subprotocol } = &self.wanted;
            frames.extend(render::outdated_cursor(&lexicons, &selection.nsid, *subprotocol));
        }
        self.state = State::CatchUp { seq: cursor, queue: None };
        Ok(Next::Frames(frames))
    }

    /// Reads a page. If there is no more, it takes a queue and reads what was committed meanwhile.
    async fn catch_up(&mut self, seq: i64) -> Result<Next, StoreError> {
        if self.overrun_at.is_some_and(|at| at.elapsed() >= TOO_SLOW_AFTER) {
            return Ok(super::too_slow(self));
        }
        let (subscriptions, wanted) = (&self.subscriptions, &self.wanted);
        if let Some((until, run)) = &mut self.running.0 {
            let (until, frames) = (*until, run.await);
            self.running = Running::default();
            self.read_up_to(until);
            return Ok(Next::Frames(frames));
        }
        let Wanted { selection, subprotocol } = wanted;
        if subscriptions.is_scripted(&selection.nsid) != self.feed.is_some() {
            self.state = State::Ended;
            return Ok(Next::Closed);
        }
        let page = record_changes::page(subscriptions.db(), seq, Some(&selection.collection)).await?;
        let Some(page) = page else {
            let has_queue = matches!(self.state, State::CatchUp { queue: Some(_), .. });
            let joined =
                if has_queue { None } else { Some(subscriptions.join(wanted, self.feed.as_ref()).await?.1) };
            self.state = match (std::mem::replace(&mut self.state, State::Ended), joined) {
                (_, Some(queue)) => State::CatchUp { seq, queue: Some(queue) },
                (State::CatchUp { queue: Some(queue), .. }, None) => {
                    self.overrun_at = None;
                    State::Live { seq, queue }
                }
                (other, None) => other,
            };
            return Ok(Next::Frames(Vec::new()));
        };
        let changes = script_feed::wanted(subscriptions, selection, &page.changes);
        if let Some(feed) = &self.feed {
            let wanted = (Arc::clone(selection), feed.tenant().clone());
            let run = script_feed::frames(subscriptions.clone(), wanted, *subprotocol, changes);
            self.running = Running(Some((page.until, Box::pin(run))));
            return Ok(Next::Frames(Vec::new()));
        }
        let lexicons = subscriptions.registry().snapshot();
        let frames = changes
            .iter()
            .filter_map(|change| render::change(&lexicons, &selection.nsid, change, *subprotocol))
            .collect();
        self.read_up_to(page.until);
        Ok(Next::Frames(frames))
    }

    fn read_up_to(&mut self, until: i64) {
        if let State::CatchUp { seq, .. } = &mut self.state {
            *seq = until;
        }
    }

    async fn live(&mut self) -> Next {
        let State::Live { seq, queue } = &mut self.state else { return Next::Closed };
        let received = queue.receive().await;
        let ended = match received {
            Ok(messages) => {
                let sent = *seq;
                *seq = messages.last().map_or(sent, |last| last.seq.max(sent));
                // The table had those as well.
                let new = messages.iter().filter(|message| message.seq > sent);
                return Next::Frames(new.flat_map(|message| message.frames.iter().cloned()).collect());
            }
            Err(ended) => ended,
        };
        let seq = *seq;
        match ended {
            Ended::Closed => {
                self.state = State::Ended;
                Next::Closed
            }
            // The table has what the queue had no room for.
            Ended::Overrun => {
                self.overrun_at = Some(Instant::now());
                self.state = State::CatchUp { seq, queue: None };
                Next::Frames(Vec::new())
            }
        }
    }
}

impl Messages for ChangeStream {
    const ARE_CHARGED: bool = true;

    async fn next(&mut self) -> Next {
        let step = match self.state {
            State::Start { cursor } => self.start(cursor).await,
            State::CatchUp { seq, .. } => self.catch_up(seq).await,
            State::Live { .. } => return self.live().await,
            State::Ended => return Next::Closed,
        };
        step.unwrap_or_else(|error| {
            tracing::warn!(%error, "changes can't be read for a subscription");
            Next::Unreadable
        })
    }

    fn error(&self, name: &'static str, message: &str) -> Next {
        Next::Error(render::error(self.wanted.subprotocol, name, message), name)
    }
}
