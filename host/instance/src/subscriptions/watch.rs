//! Live queries: the last answer of a query, and the connections that follow it (ADR 169). The answer is made by the caller.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::OnceCell;

use belvedere_protocol::atproto::event_stream::Subprotocol;
use belvedere_protocol::atproto::{Did, Nsid};
use belvedere_web::fair_share::{Bounds, FairPool, Full, Permit, Tenant};
use belvedere_web::http::websocket::Frame;

use super::queue::{self, Ended, Numbered, Receiver, Sender};
use super::sharing::{Place, Sharing};
use super::{Messages, Next, page, render};

/// Live queries of a host: each holds an answer of up to [`MAX_ANSWER`], 64 MiB of all together.
const MAX_WATCHES: usize = 512;

/// Live queries of one tenant.
const MAX_WATCHES_PER_TENANT: usize = 128;

/// Bytes of an answer that is watched.
pub const MAX_ANSWER: usize = 128 << 10;

/// Everything that an answer depends on, and the client that pays for it. Connections with the same key share one watch.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WatchKey {
    pub nsid: Nsid,
    pub params: Vec<(String, String)>,
    pub did: Option<Did>,
    pub client: Option<Arc<str>>,
}

/// Answers of live queries that a host makes again at the same time: other requests need the processors too.
const MAX_ANSWERS: usize = 4;

/// The live queries of this host. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Watches {
    shared: Sharing<WatchKey, Watch>,
    answers: FairPool,
}

impl Default for Watches {
    fn default() -> Self {
        Self {
            shared: Sharing::new("live_queries", MAX_WATCHES, MAX_WATCHES_PER_TENANT),
            answers: FairPool::new("live_query_answers", Bounds::without_refusals(MAX_ANSWERS)),
        }
    }
}

impl Watches {
    /// The watch with a key. It is there while a connection or the caller has it.
    ///
    /// # Errors
    /// When there would be too many: of the tenant, or in total.
    pub fn get(&self, key: &WatchKey, tenant: &Tenant) -> Result<Arc<Watch>, Full> {
        let make = |place| Watch { place, begun: OnceCell::new(), state: Mutex::default() };
        let watch = self.shared.get(key, tenant, make)?;
        metrics::gauge!("belvedere_live_queries").set(self.shared.count() as f64);
        Ok(watch)
    }

    /// A permit to answer a query of this tenant again, which queries of other tenants can't take from it.
    ///
    /// # Errors
    /// None today: a call waits for as long as it takes.
    pub async fn permit(&self, tenant: &Tenant) -> Result<Permit, Full> {
        self.answers.enter(tenant).await
    }
}

/// One query whose answer is kept up to date.
#[derive(Debug)]
pub struct Watch {
    place: Place<WatchKey, Self>,
    begun: OnceCell<()>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    answer: Bytes,
    /// The number of the answer: 1 for the first.
    seq: i64,
    /// The message that has the whole answer, once a connection needed it.
    whole: Option<Frame>,
    connections: Vec<Sender>,
    end: Option<End>,
}

/// The reason why a live query ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Its lexicon or its view has changed: the client connects again.
    Changed,
    /// The name of the error for the client, and its text: plain ASCII without quotes.
    Error(&'static str, &'static str),
}

impl Watch {
    /// Runs `begin` unless it has succeeded before. It calls [`Self::show`].
    ///
    /// # Errors
    /// Those of `begin`.
    pub async fn begin<E>(&self, begin: impl Future<Output = Result<(), E>>) -> Result<(), E> {
        self.begun.get_or_try_init(|| begin).await.map(|&()| ())
    }

    /// A connection that first gets the whole answer.
    pub fn join(self: &Arc<Self>) -> PageStream {
        let (sender, receiver) = queue::queue();
        let mut state = self.state();
        let seq = state.seq;
        if state.end.is_none() {
            let whole = state.whole.take().unwrap_or_else(|| {
                let answer = String::from_utf8_lossy(&state.answer);
                self.frame(seq, &page::whole(&answer), true)
            });
            state.whole = Some(whole.clone());
            // The queue is empty.
            sender.send(Numbered::one(seq, whole));
            state.connections.push(sender);
        }
        drop(state);
        PageStream { watch: Arc::clone(self), queue: receiver }
    }

    /// Replaces the answer, and sends the differences.
    pub fn show(&self, answer: Bytes) {
        let mut state = self.state();
        let is_first = state.seq == 0;
        let differences = {
            let (old, new) = (String::from_utf8_lossy(&state.answer), String::from_utf8_lossy(&answer));
            if is_first { Vec::new() } else { page::differences(&old, &new) }
        };
        if differences.is_empty() && !is_first {
            return;
        }
        state.seq += 1;
        let (seq, last) = (state.seq, differences.len().saturating_sub(1));
        let frames = differences.iter().enumerate();
        let frames: Vec<Frame> = frames.map(|(at, one)| self.frame(seq, one, at == last)).collect();
        (state.answer, state.whole) = (answer, None);
        let send = |sender: &Sender| {
            let sent = frames.iter().all(|frame| sender.send(Numbered::one(seq, frame.clone())));
            if sent {
                metrics::counter!("belvedere_subscription_messages_total").increment(frames.len() as u64);
            }
            sent
        };
        state.connections.retain(send);
    }

    /// Ends all connections. Later ones get a new watch.
    pub fn end(&self, end: End) {
        self.place.withdraw();
        let mut state = self.state();
        state.end = Some(end);
        state.connections.clear();
    }

    fn frame(&self, seq: i64, (name, fields): &page::Difference, is_last: bool) -> Frame {
        let (nsid, more) = (&self.place.key.nsid, if is_last { "" } else { r#""more":true,"# });
        Frame::text(format!(
            r#"{{"$type":"message","payload":{{"$type":"{nsid}#{name}","seq":{seq},{more}{fields}}}}}"#
        ))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The messages of a connection to a live query.
#[derive(Debug)]
pub struct PageStream {
    watch: Arc<Watch>,
    queue: Receiver,
}

impl Messages for PageStream {
    const ARE_CHARGED: bool = false;

    async fn next(&mut self) -> Next {
        match self.queue.receive().await {
            Ok(messages) => {
                Next::Frames(messages.iter().flat_map(|message| message.frames.iter().cloned()).collect())
            }
            // The whole answer follows, so the missed differences do not matter.
            Err(Ended::Overrun) => {
                self.queue = self.watch.join().queue;
                Next::Frames(Vec::new())
            }
            Err(Ended::Closed) => {
                let end = self.watch.state().end;
                match end {
                    Some(End::Error(name, message)) => self.error(name, message),
                    Some(End::Changed) | None => Next::Closed,
                }
            }
        }
    }

    fn error(&self, name: &'static str, message: &str) -> Next {
        Next::Error(render::error(Subprotocol::V1Json, name, message), name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(limit: &str) -> WatchKey {
        WatchKey {
            nsid: Nsid::try_from("com.example.list").unwrap(),
            params: vec![("limit".to_owned(), limit.to_owned())],
            did: None,
            client: None,
        }
    }

    fn answer(text: &str) -> String {
        format!(r#"{{"a":"{text}","more":"{}"}}"#, "x".repeat(200))
    }

    fn texts(next: Next) -> Vec<String> {
        let Next::Frames(frames) = next else { panic!("{next:?}") };
        frames.iter().map(|frame| format!("{frame:?}")).collect()
    }

    #[tokio::test]
    async fn connections_with_the_same_key_share_a_watch() {
        let watches = Watches::default();
        let watch = watches.get(&key("1"), &Tenant::Instance).unwrap();
        assert!(Arc::ptr_eq(&watch, &watches.get(&key("1"), &Tenant::Instance).unwrap()));
        assert!(!Arc::ptr_eq(&watch, &watches.get(&key("2"), &Tenant::Instance).unwrap()));
        let failed = watch.begin(async { Err::<(), _>("no database") }).await;
        assert_eq!(failed, Err("no database"));
        for body in ["first", "never"] {
            let begin = async {
                watch.show(Bytes::from(answer(body)));
                Ok::<(), ()>(())
            };
            watch.begin(begin).await.unwrap();
        }
        let mut early = watch.join();
        assert!(texts(early.next().await)[0].contains("first"), "the whole answer first");
        watch.show(Bytes::from(answer("second")));
        let mut late = watch.join();
        assert!(texts(early.next().await)[0].contains("list#fields"));
        assert!(texts(late.next().await)[0].contains("list#page"));
        watch.end(End::Error("NotFound", "gone"));
        assert!(matches!(early.next().await, Next::Error(_, "NotFound")));
        assert!(
            matches!(watch.join().next().await, Next::Error(_, "NotFound")),
            "also who was about to join"
        );
        let next = watches.get(&key("1"), &Tenant::Instance).unwrap();
        assert!(!Arc::ptr_eq(&watch, &next), "who comes later is not told about the end of an earlier one");
        drop((watch, early, late));
        assert!(Arc::ptr_eq(&next, &watches.get(&key("1"), &Tenant::Instance).unwrap()));
        drop(next);
        assert_eq!(watches.shared.count(), 0);
    }

    #[tokio::test]
    async fn answers_of_one_tenant_leave_permits_to_others() {
        let watches = Watches::default();
        let [a, b] = ["did:plc:a", "did:plc:b"].map(Tenant::of_did);
        let mut held = Vec::new();
        for _ in 0..MAX_ANSWERS / 2 {
            held.push(watches.permit(&a).await.unwrap());
        }
        let waits = watches.permit(&a);
        let mut waits = std::pin::pin!(waits);
        assert!(futures_util::poll!(&mut waits).is_pending(), "it has its half");
        let _other = watches.permit(&b).await.unwrap();
        drop(held);
        drop(waits.await.unwrap());
    }
}
