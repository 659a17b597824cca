//! A Jetstream server to test and measure against: serves `/subscribe` with cursors and collection filters from
//! events in memory, and misbehaves on demand. Its CIDs come from an encoder that is not belvedere's.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tokio_tungstenite::tungstenite::http::StatusCode;
use tokio_tungstenite::tungstenite::{Bytes, Message};

pub use crate::frames::*;

/// The server's treatment of current and future connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    #[default]
    Serve,
    /// Keeps connections open but sends no events. Answers pings.
    Pause,
    /// Keeps connections open but reads and writes nothing, like a half-open socket.
    BlackHole,
    /// Accepts the connection and closes it before the upgrade.
    CloseAtOnce,
    /// Upgrades, then closes.
    CloseAfterUpgrade,
    /// Answers the upgrade with 503.
    Refuse,
}

/// The faults of the server's messages. Applies to future events and subscriptions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamFault {
    /// Begins this many microseconds before the cursor.
    BeginsEarlier(i64),
    /// Leaves out all commits.
    WithholdsCommits,
    /// Sends bytes that are not a zstd frame to clients that asked for compressed ones.
    DamagesCompressed,
    /// Sends texts that are not events.
    SendsGarbage,
}

/// The parameters of a client's subscription.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subscription {
    pub wanted: Vec<String>,
    pub cursor: Option<i64>,
    pub max_size: Option<u64>,
    pub compress: bool,
}

#[derive(Clone, Debug)]
struct Event {
    time_us: i64,
    /// `None`: sent to all clients, as identity and account events are.
    collection: Option<Arc<str>>,
    message: Message,
}

#[derive(Debug, Default)]
struct State {
    events: Vec<Event>,
    /// The number of events before these that were forgotten.
    forgotten: usize,
    subscriptions: Vec<Subscription>,
    connections: usize,
    /// Events older than this are not sent, as after a server's retention.
    floor: i64,
    /// Sent to a client whose cursor is after the last event, before its connection is closed.
    later_cursor_error: Option<Message>,
    fault: Option<StreamFault>,
}

/// The state that every connection's task watches.
#[derive(Clone, Copy, Debug, Default)]
struct Signal {
    /// Incremented with every change of this or of [`State`], so that it wakes every task.
    version: u64,
    mode: Mode,
    /// Connections from an older generation are dropped.
    generation: u64,
}

/// The running server. Ends when dropped.
#[derive(Debug)]
pub struct FakeJetstream {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
    signal: watch::Sender<Signal>,
    task: JoinHandle<()>,
}

impl Drop for FakeJetstream {
    fn drop(&mut self) {
        self.task.abort();
        self.drop_clients();
    }
}

impl FakeJetstream {
    /// Listens on a free loopback port.
    pub async fn start() -> Self {
        Self::start_at("/subscribe").await
    }

    /// Like [`Self::start`], for subscriptions at another path.
    pub(crate) async fn start_at(path: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("a bound socket has an address");
        let state = Arc::<Mutex<State>>::default();
        let (signal, receiver) = watch::channel(Signal::default());
        let shared = state.clone();
        let task = tokio::spawn(async move {
            loop {
                let Ok((socket, _)) = listener.accept().await else { continue };
                lock(&shared).connections += 1;
                tokio::spawn(serve(socket, path, shared.clone(), receiver.clone()));
            }
        });
        Self { address, state, signal, task }
    }

    pub fn url(&self) -> String {
        format!("ws://{}", self.address)
    }

    pub fn set_mode(&self, mode: Mode) {
        self.signal.send_modify(|s| {
            s.mode = mode;
            s.version += 1;
        });
    }

    pub fn set_fault(&self, fault: StreamFault) {
        lock(&self.state).fault = Some(fault);
    }

    pub fn repair(&self) {
        lock(&self.state).fault = None;
    }

    /// Drops every connection without a closing handshake.
    pub fn drop_clients(&self) {
        self.signal.send_modify(|s| {
            s.generation += 1;
            s.version += 1;
        });
    }

    /// The subscription of every successful upgrade, oldest first.
    pub fn subscriptions(&self) -> Vec<Subscription> {
        lock(&self.state).subscriptions.clone()
    }

    /// The number of TCP connections accepted so far.
    pub fn connections(&self) -> usize {
        lock(&self.state).connections
    }

    /// Forgets events before `time_us`, as a server does after its retention.
    pub fn forget_before(&self, time_us: i64) {
        lock(&self.state).floor = time_us;
    }

    /// Forgets all events. Connections stay, and receive what is pushed from now on.
    pub fn forget(&self) {
        let mut state = lock(&self.state);
        state.forgotten += state.events.len();
        state.events.clear();
    }

    /// Answers cursors after the last event with an error, and closes the connection.
    pub(crate) fn refuse_later_cursors(&self, error: Message) {
        lock(&self.state).later_cursor_error = Some(error);
    }

    /// Appends one message unchanged, a frame or garbage. The clients' filters are applied to `collection`.
    pub fn push_raw(&self, time_us: i64, collection: Option<&str>, message: Message) {
        let event = Event { time_us, collection: collection.map(Arc::from), message };
        lock(&self.state).events.push(event);
        self.wake();
    }

    pub fn push(&self, frame: Frame) {
        self.push_all([frame]);
    }

    pub fn push_all(&self, frames: impl IntoIterator<Item = Frame>) {
        let mut state = lock(&self.state);
        for Frame { time_us, collection, text } in frames {
            state.events.push(Event { time_us, collection, message: Message::Text(text) });
        }
        drop(state);
        self.wake();
    }

    /// Stores an event at its place in time, without sending it to present connections: newer ones have overtaken it.
    pub fn insert_unsent(&self, frame: Frame) {
        let Frame { time_us, collection, text } = frame;
        let mut state = lock(&self.state);
        let at = state.events.partition_point(|event| event.time_us <= time_us);
        state.events.insert(at, Event { time_us, collection, message: Message::Text(text) });
        // Connections have read everything before, and go on behind it.
        self.signal.send_modify(|s| s.generation += 1);
    }

    fn wake(&self) {
        self.signal.send_modify(|s| s.version += 1);
    }
}

impl State {
    /// The message that a client gets of an event.
    fn sent(&self, event: &Event, to: &Subscription) -> Option<Message> {
        match self.fault {
            Some(StreamFault::WithholdsCommits) if event.collection.is_some() => None,
            Some(StreamFault::DamagesCompressed) if to.compress => Some(binary(&b"damaged"[..])),
            Some(StreamFault::SendsGarbage) => Some(Message::text("<html>")),
            _ => Some(event.message.clone()),
        }
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// The maximal number of messages written before the signal is checked again.
const BURST: usize = 1024;

async fn serve(
    socket: TcpStream,
    path: &'static str,
    state: Arc<Mutex<State>>,
    mut signal: watch::Receiver<Signal>,
) {
    let mode = signal.borrow().mode;
    let generation = signal.borrow().generation;
    if mode == Mode::CloseAtOnce {
        return;
    }
    let _ = socket.set_nodelay(true);
    let mut subscription = Subscription::default();
    #[allow(clippy::result_large_err, clippy::allow_attributes, reason = "the library's signature")]
    let callback = |request: &Request, response: Response| -> Result<Response, ErrorResponse> {
        subscription = parse_subscription(request.uri().query().unwrap_or_default());
        if mode == Mode::Refuse || request.uri().path() != path {
            let mut refusal = ErrorResponse::new(Some("not now".to_owned()));
            *refusal.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
            return Err(refusal);
        }
        Ok(response)
    };
    let Ok(socket) = tokio_tungstenite::accept_hdr_async(socket, callback).await else { return };
    lock(&state).subscriptions.push(subscription.clone());
    let (mut sink, mut source) = socket.split();
    if mode == Mode::CloseAfterUpgrade {
        let _ = sink.close().await;
        return;
    }
    let later_cursor_error = {
        let state = lock(&state);
        let end = state.events.last().map_or(0, |event| event.time_us + 1);
        state.later_cursor_error.clone().filter(|_| subscription.cursor.is_some_and(|cursor| cursor > end))
    };
    if let Some(error) = later_cursor_error {
        let _ = sink.send(error).await;
        let _ = sink.close().await;
        return;
    }
    let mut position = {
        let state = lock(&state);
        let earlier = if let Some(StreamFault::BeginsEarlier(by)) = state.fault { by } else { 0 };
        let after = match subscription.cursor.map(|cursor| cursor - earlier) {
            Some(cursor) => state.events.partition_point(|e| e.time_us < cursor.max(state.floor)),
            None => state.events.len(),
        };
        state.forgotten + after
    };
    loop {
        let now = *signal.borrow_and_update();
        if now.generation != generation {
            return;
        }
        if now.mode == Mode::BlackHole {
            // Keeps the socket open and reads nothing until the mode or the generation changes.
            if signal.changed().await.is_err() {
                return;
            }
            continue;
        }
        let mut burst = Vec::new();
        if now.mode == Mode::Serve {
            let state = lock(&state);
            position = position.max(state.forgotten);
            while let Some(event) = state.events.get(position - state.forgotten) {
                if burst.len() >= BURST {
                    break;
                }
                position += 1;
                if event.collection.as_deref().is_none_or(|c| subscription.wants(c)) {
                    burst.extend(state.sent(event, &subscription));
                }
            }
        }
        if burst.is_empty() {
            tokio::select! {
                changed = signal.changed() => if changed.is_err() { return },
                message = source.next() => match message {
                    Some(Ok(Message::Close(_)) | Err(_)) | None => return,
                    // The library queues pongs; flushing sends them.
                    Some(Ok(_)) => if sink.flush().await.is_err() { return },
                },
            }
            continue;
        }
        for message in burst {
            if sink.feed(message).await.is_err() {
                return;
            }
        }
        if sink.flush().await.is_err() {
            return;
        }
    }
}

fn parse_subscription(query: &str) -> Subscription {
    let mut subscription = Subscription::default();
    for (key, value) in url::form_urlencoded::parse(query.as_bytes()) {
        match &*key {
            "wantedCollections" => subscription.wanted.push(value.into_owned()),
            "cursor" => subscription.cursor = value.parse().ok(),
            "maxMessageSizeBytes" => subscription.max_size = value.parse().ok(),
            "compress" => subscription.compress = value == "true",
            _ => {}
        }
    }
    subscription
}

impl Subscription {
    /// Whether an event of this collection is sent to this client.
    pub fn wants(&self, collection: &str) -> bool {
        self.wanted.is_empty()
            || self.wanted.iter().any(|w| match w.strip_suffix('*') {
                Some(prefix) => collection.starts_with(prefix),
                None => w == collection,
            })
    }
}

/// Polls `check` until it returns true.
///
/// # Panics
/// After 20 seconds.
pub async fn eventually(what: &str, mut check: impl AsyncFnMut() -> bool) {
    for _ in 0..2000 {
        if check().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("timed out waiting for: {what}");
}

/// A binary message with the bytes.
pub fn binary(bytes: impl Into<Bytes>) -> Message {
    Message::Binary(bytes.into())
}
