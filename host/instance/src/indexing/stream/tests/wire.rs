//! An in-memory network for the stream's reader: the test is the server.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Duration;

use futures_util::SinkExt;
use tokio::io::DuplexStream;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::{Error, Message, protocol::Role};

use crate::indexing::launch::launch;
use crate::indexing::testing::{FakeStore, Recorder};
use crate::indexing::{NoScripts, StreamConfig, StreamHandle};
use belvedere_base::clock::{Clock, Timestamp};
use belvedere_protocol::atproto::Nsid;

use super::super::*;

pub(super) type Server = WebSocketStream<DuplexStream>;

/// One attempt to connect, as the server sees it.
pub(super) struct Attempt {
    pub(super) url: Url,
    pub(super) at: Duration,
    /// The server's end of the socket; `None` when the attempt was not accepted.
    pub(super) server: Option<Server>,
}

#[derive(Clone, Copy)]
pub(super) enum Answer {
    Accept,
    Refuse,
    Hang,
}

/// Responds to the first attempts as planned, then accepts all.
#[derive(Clone)]
pub(super) struct Wire {
    pub(super) started: Instant,
    pub(super) planned: Arc<Mutex<VecDeque<Answer>>>,
    pub(super) attempts: mpsc::UnboundedSender<Attempt>,
}

impl Connect for Wire {
    type Io = DuplexStream;

    async fn connect(&self, url: &Url) -> Result<WebSocketStream<DuplexStream>, Error> {
        let answer = self.planned.lock().unwrap().pop_front().unwrap_or(Answer::Accept);
        let (client, server) = tokio::io::duplex(1 << 20);
        let server = if matches!(answer, Answer::Accept) {
            Some(WebSocketStream::from_raw_socket(server, Role::Server, None).await)
        } else {
            None
        };
        let _ = self.attempts.send(Attempt { url: url.clone(), at: self.started.elapsed(), server });
        match answer {
            Answer::Accept => Ok(WebSocketStream::from_raw_socket(client, Role::Client, None).await),
            Answer::Refuse => Err(Error::ConnectionClosed),
            Answer::Hang => std::future::pending().await,
        }
    }
}

pub(super) struct World {
    pub(super) attempts: mpsc::UnboundedReceiver<Attempt>,
    pub(super) tracked: watch::Sender<Followed>,
    pub(super) store: Arc<FakeStore>,
    pub(super) recorder: Arc<Recorder>,
    pub(super) handle: StreamHandle,
}

/// Time by which each connection goes back, in microseconds.
pub(super) const REWIND: i64 = 5_000_000;

/// The fixed clock's time: cursors near it are plausible.
pub(super) const NOW: i64 = 1_800_000_000_000_000;

pub(super) fn nsids(names: &[&str]) -> Followed {
    let nsids: Arc<[Nsid]> = names.iter().map(|n| Nsid::try_from(*n).unwrap()).collect();
    nsids.into()
}

pub(super) fn start(urls: &[&str], answers: &[Answer], collections: &[&str]) -> World {
    start_with(urls, answers, collections, Arc::default())
}

pub(super) fn start_with(
    urls: &[&str],
    answers: &[Answer],
    collections: &[&str],
    store: Arc<FakeStore>,
) -> World {
    start_config(urls, answers, collections, store, StreamConfig::default())
}

pub(super) fn start_config(
    urls: &[&str],
    answers: &[Answer],
    collections: &[&str],
    store: Arc<FakeStore>,
    config: StreamConfig,
) -> World {
    let (sender, attempts) = mpsc::unbounded_channel();
    let wire = Wire {
        started: Instant::now(),
        planned: Arc::new(Mutex::new(answers.iter().copied().collect())),
        attempts: sender,
    };
    let (tracked, watch) = watch::channel(nsids(collections));
    let recorder = Arc::new(Recorder::default());
    let urls = urls.iter().map(|&u| u.to_owned()).collect();
    let handle = launch(
        store.clone(),
        wire,
        watch,
        recorder.clone(),
        Arc::default(),
        Arc::new(NoScripts),
        Clock::fixed(Timestamp(NOW)),
        Random::seeded(3),
        StreamConfig { urls, shards: Some(2), ..config },
        CancellationToken::new(),
    );
    World { attempts, tracked, store, recorder, handle }
}

impl World {
    pub(super) async fn attempt(&mut self) -> Attempt {
        self.attempts.recv().await.unwrap()
    }

    pub(super) async fn accepted(&mut self) -> (Server, Url) {
        let attempt = self.attempt().await;
        (attempt.server.unwrap(), attempt.url)
    }
}

pub(super) fn cursor_of(url: &Url) -> Option<i64> {
    url.query_pairs().find(|(k, _)| k == "cursor").map(|(_, v)| v.parse().unwrap())
}

pub(super) fn wanted_of(url: &Url) -> Vec<String> {
    url.query_pairs().filter(|(k, _)| k == "wantedCollections").map(|(_, v)| v.into_owned()).collect()
}

pub(super) fn identity(time_us: i64) -> String {
    format!(r#"{{"did":"did:plc:a","time_us":{time_us},"kind":"identity","identity":{{}}}}"#)
}

pub(super) async fn send(server: &mut Server, time_us: i64) {
    server.send(Message::text(identity(time_us))).await.unwrap();
}

pub(super) async fn send_commit(server: &mut Server, time_us: i64) {
    let commit =
        r#"{"collection":"app.example.note","rkey":"self","rev":"3mptbypluud2a","operation":"delete"}"#;
    let frame = format!(r#"{{"did":"did:plc:a","time_us":{time_us},"kind":"commit","commit":{commit}}}"#);
    server.send(Message::text(frame)).await.unwrap();
}

/// Waits until the store has a cursor.
pub(super) async fn eventually(store: &FakeStore, cursor: i64) {
    while store.cursor() != Some(cursor) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

pub(super) const NOTE: &[&str] = &["app.example.note"];
