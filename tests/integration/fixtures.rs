//! A running server on either database, with stand-ins for Jetstream, PLC and DNS.

use std::ops::Range;

use belvedere_base::clock::Clock;
use belvedere_standins::database::sqlite_url;
use belvedere_standins::jetstream::{FakeJetstream, Frame, Place, tid};
use belvedere_standins::postgres;
use belvedere_standins::repos::{Fault, RepoNetwork, Site};
use belvedere_storage::store::{Db, testing};
use serde_json::{Value, json};
use sqlx::AssertSqlSafe;
use tempfile::TempDir;

use crate::support::instance::{Instance, query_lexicon, record_lexicon};
use crate::support::plc::Plc;

pub const NOTES: &str = "com.example.note";
pub const LIST: &str = "com.example.listNotes";
pub const ALICE: &str = "did:plc:alicealicealicealicealic";
pub const BOB: &str = "did:plc:bobbobbobbobbobbobbobbob";

/// A new database, a stream, and a server that uses both.
pub struct World {
    pub server: Instance,
    pub stream: FakeJetstream,
    /// Has no accounts until a test adds some.
    pub plc: Plc,
    /// The relay and a PDS. Has no repos until a test adds some.
    pub network: RepoNetwork,
    database: String,
    last_event: i64,
    clock: Clock,
    _directory: Option<TempDir>,
}

impl World {
    pub async fn sqlite() -> Self {
        let (url, directory) = sqlite_url();
        Self::on(&url, Some(directory)).await
    }

    pub async fn postgres() -> Self {
        Self::on(&postgres::create_database().await, None).await
    }

    pub async fn on(url: &str, directory: Option<TempDir>) -> Self {
        Self::on_with(url, directory, &[]).await
    }

    /// Like [`Self::on`], with more environment variables.
    pub async fn on_with(url: &str, directory: Option<TempDir>, more: &[(&'static str, &str)]) -> Self {
        let stream = FakeJetstream::start().await;
        let (plc, network) = (Plc::start().await, RepoNetwork::start(1).await);
        // Trusts X-Forwarded-For, so that a test can act as callers from several addresses.
        let own =
            [("PLC_URL", &*plc.url()), ("RELAY_URL", &*network.url()), ("TRUSTED_PROXIES", "127.0.0.1")];
        let server = Instance::start_with(url, &stream.url(), &[&own, more].concat()).await;
        let database = url.to_owned();
        Self {
            server,
            stream,
            plc,
            network,
            database,
            last_event: 0,
            clock: Clock::system(),
            _directory: directory,
        }
    }

    pub fn is_postgres(&self) -> bool {
        self.database.starts_with("postgres")
    }

    pub fn database_url(&self) -> &str {
        &self.database
    }

    /// Executes a statement directly in the database.
    pub async fn execute(&self, sql: &'static str) {
        let db = Db::open(&self.database, 1).await.unwrap();
        execute(&db, sql).await;
        db.close().await;
    }

    /// The numbers of records and links that are not those of the rows.
    pub async fn wrong_counts(&self) -> Vec<String> {
        let db = Db::open(&self.database, 1).await.unwrap();
        let wrong = testing::wrong_counts(&db).await.unwrap();
        db.close().await;
        wrong
    }

    /// The recorded runs of scripts as they are stored.
    pub async fn recorded(&self) -> Vec<Vec<u8>> {
        let sql = "SELECT data FROM recorded_runs ORDER BY id";
        let db = Db::open(&self.database, 1).await.unwrap();
        let rows: Vec<(Vec<u8>,)> = match &db {
            Db::Sqlite(db) => sqlx::query_as(sql).fetch_all(&db.writer).await.unwrap(),
            Db::Postgres(db) => sqlx::query_as(sql).fetch_all(&db.pool).await.unwrap(),
        };
        db.close().await;
        rows.into_iter().map(|(data,)| data).collect()
    }

    /// Uploads the record lexicon of notes and a query over them.
    pub async fn with_notes(self) -> Self {
        self.server.upload(record_lexicon(NOTES), None).await;
        self.server.upload(query_lexicon(LIST), Some(NOTES)).await;
        self.wait_for_stream_of(NOTES).await;
        self
    }

    /// Creates an account with a note for each record key, which only a backfill finds.
    pub fn repo(&self, did: &str, rkeys: &[&str]) {
        self.plc.host(did, &self.network.pds_url(0));
        self.network.account(did, 0);
        for rkey in rkeys {
            self.network.put(did, NOTES, rkey, json!({ "$type": NOTES, "text": rkey }));
        }
    }

    /// The relay tells its callers to come back in two minutes: a backfill stays in its discovery.
    pub fn limit_relay(&self) {
        let limited = Fault::Status(429, vec![("retry-after", "120".to_owned())], "{}".to_owned());
        self.network.faults(Site::Relay, move |_| Some(limited.clone()));
    }

    fn next_event(&mut self) -> (i64, String) {
        // The current time, as on the real stream: a server that was killed before its first commit subscribes
        // from the time of its start.
        self.last_event = self.clock.now().0.max(self.last_event + 1);
        (self.last_event, tid(self.last_event as u64, 0))
    }

    /// Waits until the server subscribes to a collection: it does not receive earlier events.
    pub async fn wait_for_stream_of(&self, collection: &str) {
        let follows =
            async |_: &Instance| self.stream.subscriptions().last().is_some_and(|s| s.wants(collection));
        self.server.eventually(&format!("the stream follows {collection}"), follows).await;
    }

    /// Writes a note and waits until it is indexed.
    pub async fn note(&mut self, did: &str, rkey: &str, more: Value) -> String {
        let mut record = json!({ "$type": NOTES });
        record.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let (at, rev) = self.next_event();
        self.stream.push(Frame::create(at, Place { did, collection: NOTES, rkey, rev: &rev }, &record));
        let uri = format!("at://{did}/{NOTES}/{rkey}");
        self.wait_for(&uri, true).await;
        uri
    }

    pub async fn delete_note(&mut self, did: &str, rkey: &str) {
        let (at, rev) = self.next_event();
        self.stream.push(Frame::delete(at, Place { did, collection: NOTES, rkey, rev: &rev }));
        self.wait_for(&format!("at://{did}/{NOTES}/{rkey}"), false).await;
    }

    /// An account event of the stream.
    pub fn account(&mut self, did: &str, status: Option<&str>) {
        let (at, _) = self.next_event();
        self.stream.push(Frame::account(at, did, status));
    }

    pub fn push(&mut self, frame: impl FnOnce(i64, &str) -> Frame) {
        let (at, rev) = self.next_event();
        self.stream.push(frame(at, &rev));
    }

    /// Waits until a record can be read or, without `there`, until it can't.
    pub async fn wait_for(&self, uri: &str, there: bool) {
        let path = format!("{LIST}?uri={uri}");
        self.server
            .eventually(&format!("{uri} there: {there}"), async |server| {
                (server.xrpc(&path).await.status == 200) == there
            })
            .await;
    }
}

/// Starts a server with its own variables that indexes and lists the notes of a stream.
pub async fn start_with_notes(
    database: &str,
    stream: &FakeJetstream,
    more: &[(&'static str, &str)],
) -> Instance {
    let server = Instance::start_with(database, &stream.url(), more).await;
    server.upload(record_lexicon(NOTES), None).await;
    server.upload(query_lexicon(LIST), Some(NOTES)).await;
    let follows = async |_: &Instance| stream.subscriptions().last().is_some_and(|s| s.wants(NOTES));
    server.eventually("the stream follows notes", follows).await;
    server
}

/// Executes statements directly in a database. In shards the tables of records are views of the shards, so a statement that changes one
/// is executed for each shard.
pub async fn execute(db: &Db, sql: &str) {
    const SHARDS: usize = 16;
    const DIVIDED: [&str; 3] = ["records", "record_refs", "invalid_records"];
    let postgres = match db {
        Db::Sqlite(db) => {
            sqlx::raw_sql(AssertSqlSafe(sql)).execute(&db.writer).await.unwrap();
            return;
        }
        Db::Postgres(db) => db,
    };
    let in_shards = "SELECT to_regclass('tombstones_00') IS NOT NULL";
    let in_shards: bool = sqlx::query_scalar(in_shards).fetch_one(&postgres.pool).await.unwrap();
    for statement in sql.split(';') {
        let changed = statement.split_whitespace().find(|word| !["UPDATE", "DELETE", "FROM"].contains(word));
        let divided = DIVIDED.into_iter().find(|table| in_shards && changed == Some(table));
        let of_shard = |table: &str, n: usize| statement.replacen(table, &format!("{table}_{n:02}"), 1);
        let statements = match divided {
            Some(table) => (0..SHARDS).map(|n| of_shard(table, n)).collect(),
            None => vec![statement.to_owned()],
        };
        for statement in statements {
            sqlx::raw_sql(AssertSqlSafe(statement)).execute(&postgres.pool).await.unwrap();
        }
    }
}

/// Sends notes of one account, `k0000` and so on, without waiting until they are indexed.
pub fn push_notes(stream: &FakeJetstream, numbers: Range<i64>) {
    for n in numbers {
        let at = Clock::system().now().0 + n;
        let (rkey, rev) = (format!("k{n:04}"), tid(at as u64, 0));
        let note = json!({ "$type": NOTES, "n": n, "text": "é\n\t\\ 🦋" });
        stream.push(Frame::create(
            at,
            Place { did: ALICE, collection: NOTES, rkey: &rkey, rev: &rev },
            &note,
        ));
    }
}

/// Turns each test function into two tests: `name::sqlite` and `name::postgres`.
#[macro_export]
macro_rules! in_both_worlds {
    ($($name:ident),* $(,)?) => {
        $(mod $name {
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn sqlite() {
                super::$name($crate::fixtures::World::sqlite().await).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn postgres() {
                super::$name($crate::fixtures::World::postgres().await).await;
            }
        })*
    };
}
