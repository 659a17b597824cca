//! Tests of the whole pipeline: with a model of the store, with SQLite and PostgreSQL, with a server that fails.

mod corpus;
mod crash;
mod histories;
mod model;
mod network;
mod overdue;
mod pipeline;
mod replay;
mod terms;
mod writing;

use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::lexicons::Followed;
use belvedere_base::clock::{Clock, Timestamp};
use belvedere_base::random::Random;
use belvedere_protocol::atproto::Nsid;
use belvedere_storage::query::Query;
use belvedere_storage::store::{Db, query};
use belvedere_web::fair_share::Tenant;

use super::commit::{Committer, Sink};
use super::message::Message;
use super::settings::Timing;
use super::status::LiveStatus;
use super::testing::Recorder;
use super::writer::Writer;
use super::{NoScripts, StreamConfig, StreamHandle, start};
use crate::core::Core;

const NOTE: &str = "app.example.note";

/// A plausible cursor: times in tests are neither far in the past nor in the future.
const BASE: i64 = 1_750_000_000_000_000;

fn nsids(names: &[&str]) -> Followed {
    let nsids: Arc<[Nsid]> = names.iter().map(|n| Nsid::try_from(*n).unwrap()).collect();
    nsids.into()
}

/// Timing with waits short enough for tests.
fn fast() -> Timing {
    Timing {
        backoff_floor: Duration::from_millis(5),
        backoff_cap: Duration::from_millis(50),
        debounce: Duration::from_millis(20),
        commit_delay: Duration::from_millis(2),
        cursor_interval: Duration::from_millis(20),
        commit_retry: Duration::from_millis(2),
        commit_retry_cap: Duration::from_millis(20),
        ..Timing::default()
    }
}

/// Starts a writer that takes messages from a test, without a stream.
fn start_writer(sink: impl Sink, messages: mpsc::Receiver<Message>) {
    let (clock, timing) = (Clock::system(), fast());
    let committer = Committer::new(
        sink,
        Arc::new(LiveStatus::new(clock.clone(), timing)),
        Arc::new(Recorder::default()),
        clock.clone(),
        Random::seeded(1),
        timing,
        CancellationToken::new(),
    );
    let (stop, superseded) = (CancellationToken::new(), watch::Sender::new(None));
    tokio::spawn(Writer { queue: messages, committer, clock, timing, stop, superseded }.run());
}

struct Server {
    handle: StreamHandle,
    tracked: watch::Sender<Followed>,
    recorder: Arc<Recorder>,
}

/// Starts the stream on `db`, as the server does.
fn run(db: &Db, urls: Vec<String>, collections: &[&str], shards: usize) -> Server {
    let (tracked, watch) = watch::channel(nsids(collections));
    let recorder = Arc::new(Recorder::default());
    // Just before the tests' events, so that a first start begins there.
    let core = Core::testing(db, &Clock::fixed(Timestamp(BASE - 1)));
    let config = StreamConfig { urls, zstd_dictionary: None, shards: Some(shards), timing: fast() };
    let handle = start(&core, watch, Arc::new(NoScripts), recorder.clone(), config);
    Server { handle, tracked, recorder }
}

fn address(dir: &TempDir) -> String {
    format!("sqlite:{}", dir.path().join("index.db").display())
}

async fn database(dir: &TempDir) -> Db {
    migrated(&address(dir)).await
}

async fn migrated(url: &str) -> Db {
    let db = Db::open(url, 4).await.unwrap();
    db.migrate().await.unwrap();
    db
}

/// All records of a collection that a query can see: AT URI to record text.
async fn visible(db: &Db, collection: &str) -> std::collections::BTreeMap<String, String> {
    let mut all = Query { limit: 1_000_000, ..Query::of(Nsid::try_from(collection).unwrap()) };
    let mut rows = Vec::new();
    loop {
        let page = query::read(db, &all, &Tenant::Instance).await.unwrap();
        rows.extend(page.rows);
        all.after = page.next;
        if all.after.is_none() {
            break;
        }
    }
    rows.into_iter().map(|row| (row.uri(), String::from_utf8(row.record.to_vec()).unwrap())).collect()
}
