//! Backfills against a network of stand-ins: after each, the index equals the network, or the job says what it could
//! not read.

mod cars;
mod catch_up;
mod crash;
mod documents;
mod faults;
mod growth;
mod jobs;
mod kills;
mod left_out;
mod lies;
mod lists;
mod relays;
mod markers;
mod model;
mod plan;
mod reconcile;
mod slow;
mod verify;

use std::collections::BTreeMap;

use belvedere_base::clock::Clock;
use belvedere_base::random::Random;
use belvedere_standins::database::sqlite_url;
use belvedere_standins::jetstream::{FakeJetstream, Frame, Place};
use belvedere_standins::postgres;
use belvedere_standins::repos::RepoNetwork;
use belvedere_storage::store::Db;
use belvedere_storage::store::backfill::{self, JobRow, NewJob, RepoRow, Requested};
use belvedere_storage::store::status::Request;
use http::Method;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::fixtures::{NOTES, execute};
use crate::support::instance::{Instance, record_lexicon};

/// A server, and a network that it can backfill from. Jobs are created in the database: the server notices them.
struct Scene {
    server: Instance,
    stream: FakeJetstream,
    network: RepoNetwork,
    db: Db,
    _directory: Option<TempDir>,
}

/// Creates one test for each database: `name::sqlite` and `name::postgres`.
macro_rules! in_both_scenes {
    ($($name:ident),* $(,)?) => {
        $(mod $name {
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn sqlite() {
                super::$name($crate::backfill::Scene::sqlite().await).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn postgres() {
                super::$name($crate::backfill::Scene::postgres().await).await;
            }
        })*
    };
}
use in_both_scenes;

impl Scene {
    async fn sqlite() -> Self {
        let (url, directory) = sqlite_url();
        Self::on(&url, Some(directory)).await
    }

    async fn postgres() -> Self {
        Self::on(&postgres::create_database().await, None).await
    }

    /// Four PDSs without accounts, and a server that tracks notes.
    async fn on(url: &str, directory: Option<TempDir>) -> Self {
        let stream = FakeJetstream::start().await;
        let network = RepoNetwork::start(4).await;
        let names = network.url();
        let more = [("PLC_URL", names.as_str()), ("RELAY_URL", names.as_str())];
        let server = Instance::start_with(url, &stream.url(), &more).await;
        let db = Db::open(url, 2).await.unwrap();
        let scene = Self { server, stream, network, db, _directory: directory };
        scene.track(NOTES).await;
        scene
    }

    async fn track(&self, collection: &str) {
        let body = json!({ "lexicon_json": record_lexicon(collection), "backfill": false });
        let answer = self.server.admin(Method::POST, "/admin/lexicons", Some(&body)).await;
        assert!(answer.status.is_success(), "{}", answer.text);
        let follows =
            async |_: &Instance| self.stream.subscriptions().last().is_some_and(|s| s.wants(collection));
        self.server.eventually("the stream follows the collection", follows).await;
    }

    /// Queues a job and returns its id.
    async fn create(&self, collection: Option<&str>, did: Option<&str>) -> String {
        let job = NewJob {
            id: Random::system().uuid(),
            collection: collection.map(str::to_owned),
            did: did.map(str::to_owned),
            ..NewJob::default()
        };
        backfill::create(&self.db, &job, Clock::system().now()).await.unwrap();
        job.id
    }

    async fn job(&self, id: &str) -> JobRow {
        backfill::get(&self.db, id).await.unwrap().unwrap()
    }

    async fn request(&self, id: &str, request: Request) {
        let requested = backfill::request(&self.db, id, request).await.unwrap();
        assert!(matches!(requested, Requested::Done(_)), "{requested:?}");
    }

    async fn wait_for_status(&self, id: &str, status: &str) -> JobRow {
        let reached = async |_: &Instance| self.job(id).await.status.as_str() == status;
        self.server.eventually(&format!("the job is {status}"), reached).await;
        self.job(id).await
    }

    /// Waits until a job has ended, in whatever way.
    async fn ended(&self, id: &str) -> JobRow {
        let has_ended = async |_: &Instance| self.job(id).await.completed_at.is_some();
        self.server.eventually("the job has ended", has_ended).await;
        self.job(id).await
    }

    /// Runs a job of notes to its end.
    async fn backfill(&self) -> (String, JobRow) {
        let id = self.create(Some(NOTES), None).await;
        let job = self.ended(&id).await;
        (id, job)
    }

    async fn repos(&self, id: &str) -> Vec<RepoRow> {
        backfill::repos(&self.db, id, backfill::Phase::All, None, 10_000).await.unwrap()
    }

    /// The kinds of errors of a job's repos.
    async fn errors(&self, id: &str) -> BTreeMap<String, String> {
        let failed = backfill::errors(&self.db, id, None, 1_000).await.unwrap();
        failed.into_iter().map(|repo| (repo.did, repo.error_kind.unwrap())).collect()
    }

    /// The errors of a job's repos, in the order of their DIDs.
    async fn error_texts(&self, id: &str) -> Vec<String> {
        let failed = backfill::errors(&self.db, id, None, 1_000).await.unwrap();
        failed.into_iter().map(|repo| repo.error.unwrap()).collect()
    }

    /// A job of those that failed, run to its end.
    async fn retry(&self, id: &str) -> (String, JobRow) {
        let new = NewJob { id: Random::system().uuid(), ..NewJob::default() };
        let retried = backfill::retry_failed(&self.db, id, &[], &new, Clock::system().now()).await.unwrap();
        assert!(retried.is_some_and(|repos| repos > 0), "{retried:?}");
        let job = self.ended(&new.id).await;
        (new.id, job)
    }

    /// The records of the index: their URIs and CIDs.
    async fn index(&self, collection: &str) -> BTreeMap<String, String> {
        let rows = self.rows(collection).await.into_iter();
        rows.map(|(uri, row)| (uri, row["cid"].as_str().unwrap_or_default().to_owned())).collect()
    }

    /// The records of the index by URI, as the admin API shows them.
    async fn rows(&self, collection: &str) -> BTreeMap<String, Value> {
        let mut found = BTreeMap::new();
        let mut cursor = String::new();
        loop {
            let path = format!("/admin/records?collection={collection}&limit=100{cursor}");
            let page = self.server.admin(Method::GET, &path, None).await;
            assert_eq!(page.status, 200, "{}", page.text);
            for record in page.body["records"].as_array().unwrap() {
                found.insert(record["uri"].as_str().unwrap_or_default().to_owned(), record.clone());
            }
            match page.body["cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return found,
            }
        }
    }

    /// The index equals the network.
    async fn assert_equal(&self, collection: &str) {
        let (index, network) = (self.index(collection).await, self.network.records(collection));
        let missing: Vec<_> = network.keys().filter(|uri| !index.contains_key(*uri)).collect();
        let extra: Vec<_> = index.keys().filter(|uri| !network.contains_key(*uri)).collect();
        let stale: Vec<_> =
            index.iter().filter(|(uri, cid)| network.get(*uri).is_some_and(|other| other != *cid)).collect();
        assert!(
            missing.is_empty() && extra.is_empty() && stale.is_empty(),
            "missing {missing:?}, extra {extra:?}, stale {stale:?}"
        );
    }

    /// The record in the index, as the admin API shows it.
    async fn record(&self, did: &str, rkey: &str) -> Option<Value> {
        let path = format!("/admin/records?collection={NOTES}&limit=100");
        let page = self.server.admin(Method::GET, &path, None).await;
        let uri = format!("at://{did}/{NOTES}/{rkey}");
        page.body["records"].as_array().unwrap().iter().find(|record| record["uri"] == uri.as_str()).cloned()
    }

    /// Sends a commit on the stream.
    fn push(&self, did: &str, rkey: &str, rev: &str, record: Option<&Value>) {
        let at = Clock::system().now().0;
        let place = Place { did, collection: NOTES, rkey, rev };
        self.stream.push(match record {
            Some(record) => Frame::update(at, place, record),
            None => Frame::delete(at, place),
        });
    }

    /// Executes a statement directly in the database.
    async fn execute(&self, sql: String) {
        execute(&self.db, &sql).await;
    }

    /// The types of the events about backfills, the oldest first.
    async fn events(&self) -> Vec<String> {
        let page = self.server.admin(Method::GET, "/admin/events?category=backfill", None).await;
        let events = page.body["events"].as_array().unwrap();
        events.iter().rev().map(|event| event["event_type"].as_str().unwrap().to_owned()).collect()
    }
}

/// The DID of an account.
fn account(n: usize) -> String {
    format!(
        "did:plc:account{}",
        "abcdefghijklmnopqrstuvwxyz234567".chars().cycle().skip(n).take(17).collect::<String>()
    )
}

fn note(text: &str) -> Value {
    json!({ "$type": NOTES, "text": text })
}
