//! A Jetstream server to test and measure against: serves `/subscribe` with cursors and collection filters from
//! events in memory, and misbehaves on demand. Used by the host crate's tests, the integration tests and the
//! benchmarks (`#[path]`), so it needs nothing of our own code: its CIDs are made by an encoder of its own.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::allow_attributes,
    reason = "included as a module in several places, none of which needs all of it"
)]

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Map, Value, json};
use shrike::cbor::{Cid, Codec};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tokio_tungstenite::tungstenite::http::StatusCode;
use tokio_tungstenite::tungstenite::{Bytes, Message, Utf8Bytes};

/// How the server treats whoever connects from now on, or is connected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    #[default]
    Serve,
    /// Connected, but no event is sent. Pings are answered.
    Pause,
    /// Connected, but nothing is read or written any more: a half-open socket.
    BlackHole,
    /// Accepts the connection and closes it before the upgrade.
    CloseAtOnce,
    /// Upgrades, then closes.
    CloseAfterUpgrade,
    /// Answers the upgrade with 503.
    Refuse,
}

/// What a client asked for.
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
    /// `None`: sent to everyone, as identity and account events are.
    collection: Option<Arc<str>>,
    message: Message,
}

#[derive(Debug, Default)]
struct State {
    events: Vec<Event>,
    subscriptions: Vec<Subscription>,
    connections: usize,
    /// Events older than this are gone, as after a server's retention.
    floor: i64,
}

/// Grows with every change of any kind, so that one watch wakes everybody.
#[derive(Clone, Copy, Debug, Default)]
struct Signal {
    version: u64,
    mode: Mode,
    /// Clients of an older generation are cut off.
    generation: u64,
}

/// The running server. Ends when dropped.
#[derive(Debug)]
pub struct Standin {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
    signal: watch::Sender<Signal>,
    task: JoinHandle<()>,
}

impl Drop for Standin {
    fn drop(&mut self) {
        self.task.abort();
        self.drop_clients();
    }
}

impl Standin {
    /// Listens on a free loopback port.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("a bound socket has an address");
        let state = Arc::<Mutex<State>>::default();
        let (signal, watch) = watch::channel(Signal::default());
        let accepted = state.clone();
        let task = tokio::spawn(async move {
            loop {
                let Ok((socket, _)) = listener.accept().await else { continue };
                lock(&accepted).connections += 1;
                tokio::spawn(serve(socket, accepted.clone(), watch.clone()));
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

    /// Cuts every connection without a closing handshake.
    pub fn drop_clients(&self) {
        self.signal.send_modify(|s| {
            s.generation += 1;
            s.version += 1;
        });
    }

    /// Every successful upgrade, oldest first.
    pub fn subscriptions(&self) -> Vec<Subscription> {
        lock(&self.state).subscriptions.clone()
    }

    /// TCP connections accepted so far.
    pub fn connections(&self) -> usize {
        lock(&self.state).connections
    }

    /// Forgets events before `time_us`, as a server does after its retention.
    pub fn forget_before(&self, time_us: i64) {
        lock(&self.state).floor = time_us;
    }

    /// Appends one message as it is: a frame, or garbage. `collection` is what the filters see.
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

    fn wake(&self) {
        self.signal.send_modify(|s| s.version += 1);
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Messages written between two looks at the state.
const BURST: usize = 1024;

async fn serve(socket: TcpStream, state: Arc<Mutex<State>>, mut signal: watch::Receiver<Signal>) {
    let mode = signal.borrow().mode;
    let generation = signal.borrow().generation;
    if mode == Mode::CloseAtOnce {
        return;
    }
    let _ = socket.set_nodelay(true);
    let mut asked = Subscription::default();
    #[allow(clippy::result_large_err, clippy::allow_attributes, reason = "the library's signature")]
    let callback = |request: &Request, response: Response| -> Result<Response, ErrorResponse> {
        asked = subscription(request.uri().query().unwrap_or_default());
        if mode == Mode::Refuse || request.uri().path() != "/subscribe" {
            let mut refusal = ErrorResponse::new(Some("not now".to_owned()));
            *refusal.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
            return Err(refusal);
        }
        Ok(response)
    };
    let Ok(socket) = tokio_tungstenite::accept_hdr_async(socket, callback).await else { return };
    lock(&state).subscriptions.push(asked.clone());
    let (mut sink, mut source) = socket.split();
    if mode == Mode::CloseAfterUpgrade {
        let _ = sink.close().await;
        return;
    }
    let mut position = {
        let state = lock(&state);
        match asked.cursor {
            Some(cursor) => state.events.partition_point(|e| e.time_us < cursor.max(state.floor)),
            None => state.events.len(),
        }
    };
    loop {
        let now = *signal.borrow_and_update();
        if now.generation != generation {
            return;
        }
        if now.mode == Mode::BlackHole {
            // Holds the socket, reads nothing, answers nothing, until the mode or the generation changes.
            if signal.changed().await.is_err() {
                return;
            }
            continue;
        }
        let mut burst = Vec::new();
        if now.mode == Mode::Serve {
            let state = lock(&state);
            while position < state.events.len() && burst.len() < BURST {
                let event = &state.events[position];
                position += 1;
                if event.collection.as_deref().is_none_or(|c| asked.wants(c)) {
                    burst.push(event.message.clone());
                }
            }
        }
        if burst.is_empty() {
            tokio::select! {
                changed = signal.changed() => if changed.is_err() { return },
                message = source.next() => match message {
                    Some(Ok(Message::Close(_)) | Err(_)) | None => return,
                    // The library queues the answers to pings; flushing sends them.
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

fn subscription(query: &str) -> Subscription {
    let mut asked = Subscription::default();
    for (key, value) in url::form_urlencoded::parse(query.as_bytes()) {
        match &*key {
            "wantedCollections" => asked.wanted.push(value.into_owned()),
            "cursor" => asked.cursor = value.parse().ok(),
            "maxMessageSizeBytes" => asked.max_size = value.parse().ok(),
            "compress" => asked.compress = value == "true",
            _ => {}
        }
    }
    asked
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

/// One event, encoded.
#[derive(Clone, Debug)]
pub struct Frame {
    pub time_us: i64,
    pub collection: Option<Arc<str>>,
    pub text: Utf8Bytes,
}

/// Where a commit goes.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    pub did: &'a str,
    pub collection: &'a str,
    pub rkey: &'a str,
    pub rev: &'a str,
}

impl Frame {
    fn commit(time_us: i64, at: Place<'_>, operation: &str, record: Option<(&Value, String)>) -> Self {
        let mut commit =
            json!({ "rev": at.rev, "operation": operation, "collection": at.collection, "rkey": at.rkey });
        if let Some((record, cid)) = record {
            commit["record"] = record.clone();
            commit["cid"] = cid.into();
        }
        let event = json!({ "did": at.did, "time_us": time_us, "kind": "commit", "commit": commit });
        Self { time_us, collection: Some(at.collection.into()), text: event.to_string().into() }
    }

    /// A create with the right CID.
    pub fn create(time_us: i64, at: Place<'_>, record: &Value) -> Self {
        Self::commit(time_us, at, "create", Some((record, cid_of(record))))
    }

    /// An update with the right CID.
    pub fn update(time_us: i64, at: Place<'_>, record: &Value) -> Self {
        Self::commit(time_us, at, "update", Some((record, cid_of(record))))
    }

    /// A create whose CID is another record's.
    pub fn forged(time_us: i64, at: Place<'_>, record: &Value) -> Self {
        Self::commit(time_us, at, "create", Some((record, cid_of(&json!({ "another": "record" })))))
    }

    pub fn delete(time_us: i64, at: Place<'_>) -> Self {
        Self::commit(time_us, at, "delete", None)
    }

    /// `status` as on the wire: `deactivated`, `takendown`, `deleted`; `None` for an active account.
    pub fn account(time_us: i64, did: &str, status: Option<&str>) -> Self {
        let mut account =
            json!({ "did": did, "seq": 1, "time": "2026-01-01T00:00:00Z", "active": status.is_none() });
        if let Some(status) = status {
            account["status"] = status.into();
        }
        let event = json!({ "did": did, "time_us": time_us, "kind": "account", "account": account });
        Self { time_us, collection: None, text: event.to_string().into() }
    }

    pub fn identity(time_us: i64, did: &str, handle: &str) -> Self {
        let identity = json!({ "did": did, "seq": 1, "handle": handle, "time": "2026-01-01T00:00:00Z" });
        let event = json!({ "did": did, "time_us": time_us, "kind": "identity", "identity": identity });
        Self { time_us, collection: None, text: event.to_string().into() }
    }
}

/// `n` creates of about 400 bytes in one collection, spread over `repos` repos, one microsecond apart from
/// `first_time_us` on, with right CIDs, ascending revs and one reference each. The same arguments give the same
/// frames.
pub fn synthetic(
    n: usize,
    repos: usize,
    collection: &str,
    first_time_us: i64,
) -> impl Iterator<Item = Frame> + use<> {
    let name: Arc<str> = Arc::from(collection);
    (0..n).map(move |i| {
        let time_us = first_time_us + i as i64;
        let did = synthetic_did(i % repos);
        let rev = tid(time_us as u64, 0);
        let record = synthetic_record(&name, i);
        let place = Place { did: &did, collection: &name, rkey: &rev, rev: &rev };
        Frame::create(time_us, place, &record)
    })
}

pub fn synthetic_did(repo: usize) -> String {
    let mut name = [b'a'; 24];
    let mut rest = repo;
    for byte in name.iter_mut().rev() {
        *byte = b"abcdefghijklmnopqrstuvwxyz234567"[rest % 32];
        rest /= 32;
    }
    format!("did:plc:{}", String::from_utf8_lossy(&name))
}

/// The record of the `i`th synthetic event.
pub fn synthetic_record(collection: &str, i: usize) -> Value {
    json!({
        "$type": collection,
        "createdAt": format!("2026-01-01T{:02}:{:02}:{:02}.000Z", i / 3600 % 24, i / 60 % 60, i % 60),
        "langs": ["en"],
        "likes": i % 1000,
        "subject": { "uri": format!("at://{}/app.example.post/{}", synthetic_did(i % 977), tid(i as u64 % 5000 + 1, 3)) },
        "text": format!("synthetic note number {i}, long enough to look like something that a person could have \
                         written on an ordinary day"),
    })
}

/// A timestamp identifier: 53 bits of microseconds, 10 bits of clock id, in base32-sortable.
pub fn tid(micros: u64, clock: u64) -> String {
    let value = micros << 10 | clock;
    (0..13)
        .rev()
        .map(|i| char::from(b"234567abcdefghijklmnopqrstuvwxyz"[(value >> (5 * i) & 31) as usize]))
        .collect()
}

/// The CID of a record, by a DAG-CBOR encoder that shares nothing with the one under test.
pub fn cid_of(record: &Value) -> String {
    let mut cbor = Vec::with_capacity(512);
    encode(record, &mut cbor);
    Cid::compute(Codec::Drisl, &cbor).to_string()
}

/// No floats, `$link` or `$bytes`: the tests' records have none.
fn encode(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Null => out.push(0xf6),
        Value::Bool(b) => out.push(if *b { 0xf5 } else { 0xf4 }),
        Value::Number(n) => match n.as_i64() {
            Some(n) if n < 0 => head(1, !n as u64, out),
            Some(n) => head(0, n as u64, out),
            None => panic!("the stand-in writes no floats"),
        },
        Value::String(s) => text(s, out),
        Value::Array(items) => {
            head(4, items.len() as u64, out);
            for item in items {
                encode(item, out);
            }
        }
        Value::Object(fields) => match fields.get("$link").and_then(Value::as_str) {
            Some(cid) if fields.len() == 1 => link(cid, out),
            _ => object(fields, out),
        },
    }
}

/// A CID as DAG-CBOR has it: tag 42 around its bytes, with a zero in front.
fn link(cid: &str, out: &mut Vec<u8>) {
    let base32 = cid.strip_prefix('b').expect("a CID in base32").to_ascii_uppercase();
    let bytes = data_encoding::BASE32_NOPAD.decode(base32.as_bytes()).expect("a CID in base32");
    head(6, 42, out);
    head(2, bytes.len() as u64 + 1, out);
    out.push(0);
    out.extend(bytes);
}

/// Keys in DAG-CBOR's order: shorter first, then bytewise.
fn object(fields: &Map<String, Value>, out: &mut Vec<u8>) {
    head(5, fields.len() as u64, out);
    let mut sorted: Vec<_> = fields.iter().collect();
    sorted.sort_by(|a, b| (a.0.len(), a.0).cmp(&(b.0.len(), b.0)));
    for (key, value) in sorted {
        text(key, out);
        encode(value, out);
    }
}

fn text(s: &str, out: &mut Vec<u8>) {
    head(3, s.len() as u64, out);
    out.extend_from_slice(s.as_bytes());
}

fn head(major: u8, n: u64, out: &mut Vec<u8>) {
    let major = major << 5;
    match n {
        0..24 => out.push(major | n as u8),
        24..0x100 => out.extend([major | 0x18, n as u8]),
        0x100..0x1_0000 => {
            out.push(major | 0x19);
            out.extend((n as u16).to_be_bytes());
        }
        0x1_0000..0x1_0000_0000 => {
            out.push(major | 0x1a);
            out.extend((n as u32).to_be_bytes());
        }
        _ => {
            out.push(major | 0x1b);
            out.extend(n.to_be_bytes());
        }
    }
}

/// Polls `check` until it holds.
///
/// # Panics
/// When it does not within 20 seconds.
pub async fn eventually(what: &str, mut check: impl AsyncFnMut() -> bool) {
    for _ in 0..2000 {
        if check().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("never happened: {what}");
}

/// Bytes as a binary message.
pub fn binary(bytes: impl Into<Bytes>) -> Message {
    Message::Binary(bytes.into())
}
