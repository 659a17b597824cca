//! The stream of the stand-in network, in the form of Jetstream.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use tokio::sync::watch;

use belvedere_base::clock::Timestamp;
use belvedere_web::http::websocket::{Gone, Socket};

/// Events that are kept for subscribers that connect again.
const MAX_KEPT: usize = 100_000;

#[derive(Debug, Default)]
pub(super) struct Events {
    kept: Mutex<Kept>,
    /// The number of all events.
    count: watch::Sender<usize>,
}

#[derive(Debug, Default)]
struct Kept {
    /// The number of events that are not kept any more.
    forgotten: usize,
    events: VecDeque<(i64, Arc<str>)>,
    last_time: i64,
}

impl Events {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an event. Each is later than the one before.
    pub(super) fn push(&self, mut event: Value, now: Timestamp) {
        let mut kept = self.kept();
        kept.last_time = now.0.max(kept.last_time + 1);
        event["time_us"] = kept.last_time.into();
        let time = kept.last_time;
        kept.events.push_back((time, event.to_string().into()));
        if kept.events.len() > MAX_KEPT {
            kept.events.pop_front();
            kept.forgotten += 1;
        }
        let count = kept.forgotten + kept.events.len();
        drop(kept);
        self.count.send_replace(count);
    }

    /// The number of the first event at or after a time; without one, that of the next event.
    fn position(&self, cursor: Option<i64>) -> usize {
        let kept = self.kept();
        let at = cursor
            .map_or(kept.events.len(), |cursor| kept.events.partition_point(|(time, _)| *time < cursor));
        kept.forgotten + at
    }

    /// The event with this number, or the oldest one that is kept after it; with the number of the next one.
    fn at(&self, position: usize) -> Option<(Arc<str>, usize)> {
        let kept = self.kept();
        let at = position.saturating_sub(kept.forgotten);
        let (_, text) = kept.events.get(at)?;
        Some((Arc::clone(text), kept.forgotten + at + 1))
    }

    /// Sends all events from a cursor on, until the subscriber is gone.
    pub(super) async fn feed(&self, socket: &mut Socket, cursor: Option<i64>) -> Gone {
        let mut count = self.count.subscribe();
        let mut position = self.position(cursor);
        loop {
            count.mark_unchanged();
            while let Some((event, next)) = self.at(position) {
                position = next;
                if let Err(gone) = socket.send_text(&event).await {
                    return gone;
                }
            }
            match socket.wait_for(count.changed()).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return Gone,
                Err(gone) => return gone,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_cursor_is_the_time_of_the_first_event_that_is_sent() {
        let events = Events::default();
        assert_eq!(events.position(None), 0);
        for _ in 0..3 {
            events.push(json!({}), Timestamp(10));
        }
        assert_eq!((events.position(None), events.position(Some(0)), events.position(Some(11))), (3, 0, 1));
        let (text, next) = events.at(1).unwrap();
        assert_eq!((&*text, next), (r#"{"time_us":11}"#, 2));
        assert!(events.at(3).is_none());
    }
}
