//! Ten thousand random histories of repos, each compared with a model and with the repo itself: creates, updates,
//! deletes, account and identity events, repeated, late and replayed deliveries, killed processes, pages of backfills
//! that were read before and are stored after other changes, and changes that are not in the stream.
//!
//! Many histories share a database and a pipeline; each is of its own repo. A history that fails is shrunk alone. Its
//! seed is printed, and repeats the run in the environment variable `BELVEDERE_SEED`; `BELVEDERE_HISTORIES` is the
//! number of histories (docs/contributing.md).

mod delivery;
mod history;
mod model;

use std::collections::BTreeMap;

use belvedere_standins::database::Database;
use belvedere_standins::parameters;
use proptest::collection::vec;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::Value;

use super::{migrated, visible};
use belvedere_base::random::Random;
use belvedere_protocol::atproto::Did;
use belvedere_storage::store::Db;
use belvedere_storage::store::index::AccountStatus;
use belvedere_storage::store::testing::{self, StoredRecord};
use delivery::{FIRST_TIME, Index, link, record, rkey};
use history::{Step, any_step, play};
use model::Model;

const HISTORIES: usize = 10_000;

/// Histories that are delivered together.
const TOGETHER: usize = 500;

const MAX_STEPS: usize = 20;

/// Attempts at making a history that fails smaller.
const MAX_SHRINKS: usize = 200;

/// The index's content of a repo.
#[derive(Debug, PartialEq)]
struct Found {
    status: i64,
    /// Values by record key; each record has one link, with the value.
    rows: BTreeMap<String, u64>,
    is_marked: bool,
}

/// Delivers histories to an index. Returns the histories after which it is wrong, and why.
async fn failures(index: &mut Index, set: usize, histories: &[Vec<Step>]) -> Vec<(usize, String)> {
    index.collection = format!("app.example.set{set}");
    let prefix = format!("did:plc:{set:08}x");
    let dids: Vec<Did> =
        (0..histories.len()).map(|n| Did::try_from(format!("{prefix}{n:08}").as_str()).unwrap()).collect();
    let (deliveries, upstreams): (Vec<_>, Vec<_>) = histories.iter().map(|steps| play(steps)).unzip();
    let deliveries: Vec<_> = dids.iter().cloned().zip(deliveries).collect();
    index.deliver(&deliveries).await;

    let found = found(&index.db, &index.collection, &prefix).await;
    let visible = visible(&index.db, &index.collection).await;
    let mut failures = Vec::new();
    let mut seen = 0;
    for (n, ((did, deliveries), upstream)) in deliveries.iter().zip(&upstreams).enumerate() {
        let (model, found) = (Model::after(deliveries), &found[did.as_str()]);
        let named = |(key, value): (&u8, &u64)| (rkey(*key).to_string(), *value);
        let rows: BTreeMap<String, u64> = model.rows().iter().map(named).collect();
        let mut wrong = |what: String| failures.push((n, what));
        if (found.status, &found.rows) != (model.status as i64, &rows) {
            wrong(format!("the index has {found:?}, the model says {:?} {rows:?}", model.status));
        }
        // A replay may mark a repo that the model no longer does: it is read once more than needed.
        if (model.is_marked && !found.is_marked)
            || (found.is_marked && model.status == AccountStatus::Deleted)
        {
            wrong(format!("marked: {}, the model says {}", found.is_marked, model.is_marked));
        }
        let upstream_rows: BTreeMap<String, u64> = upstream.records.iter().map(named).collect();
        if (model.status, &rows) != (upstream.status, &upstream_rows) {
            wrong(format!("the model says {rows:?}, the repo has {:?} {upstream_rows:?}", upstream.status));
        }
        for (rkey, value) in rows.iter().filter(|_| model.status == AccountStatus::Active) {
            let uri = format!("at://{did}/{}/{rkey}", index.collection);
            let shown = visible.get(&uri).map(|text| serde_json::from_str::<Value>(text).unwrap());
            if shown != Some(record(&index.collection, *value)) {
                wrong(format!("{rkey} is shown as {shown:?}"));
            }
            seen += usize::from(shown.is_some());
        }
    }
    if seen != visible.len() {
        failures.push((0, format!("{} records are visible, but {seen} should be", visible.len())));
    }
    failures
}

async fn found(db: &Db, collection: &str, prefix: &str) -> BTreeMap<String, Found> {
    let records = testing::stored_records(db, collection, prefix).await.unwrap();
    let mut found = BTreeMap::new();
    for StoredRecord { did, status, marks, rkey, record, target } in records {
        let empty = || Found { status, rows: BTreeMap::new(), is_marked: marks > 0 };
        let repo: &mut Found = found.entry(did).or_insert_with(empty);
        if let (Some(rkey), Some(record)) = (rkey, record) {
            let record: Value = serde_json::from_str(&record).unwrap();
            let value = record["value"].as_u64().unwrap();
            assert_eq!(target, Some(link(value)), "the links are those of the record");
            assert_eq!(repo.rows.insert(rkey, value), None, "one link for each record");
        }
    }
    found
}

async fn agree(database: Database) {
    let seed = parameters::number("BELVEDERE_SEED").unwrap_or_else(|| Random::system().u64());
    let histories = parameters::number("BELVEDERE_HISTORIES").map_or(HISTORIES, |count| count as usize);
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_be_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(Config { failure_persistence: None, ..Config::default() }, rng);
    let db = migrated(&database.url).await;
    let random = Random::seeded(seed);
    let mut index = Index { db, collection: String::new(), random, time_us: FIRST_TIME, kills: 0 };
    let mut set = 0;
    while set * TOGETHER < histories {
        let count = TOGETHER.min(histories - set * TOGETHER);
        let mut trees: Vec<_> =
            (0..count).map(|_| vec(any_step(), 0..MAX_STEPS).new_tree(&mut runner).unwrap()).collect();
        let current: Vec<_> = trees.iter().map(ValueTree::current).collect();
        let failed = failures(&mut index, set, &current).await;
        set += 1;
        if let Some((n, why)) = failed.into_iter().next() {
            let (steps, why) = shrink(&mut index, set, trees.swap_remove(n), why).await;
            panic!("seed {seed}: {why}\nafter {steps:#?}\ndelivered as {:#?}", play(&steps).0);
        }
    }
    let dangling = testing::count_dangling_references(&index.db).await.unwrap();
    assert_eq!(dangling, 0, "seed {seed}");
    assert!(histories < HISTORIES || index.kills > 0, "seed {seed}");
    index.db.close().await;
}

/// Makes a failed history smaller. One that does not fail alone is returned as it is.
async fn shrink(
    index: &mut Index,
    mut set: usize,
    mut tree: impl ValueTree<Value = Vec<Step>>,
    why: String,
) -> (Vec<Step>, String) {
    let mut smallest = (tree.current(), why);
    let mut is_smaller = tree.simplify();
    for _ in 0..MAX_SHRINKS {
        if !is_smaller {
            break;
        }
        set += 1;
        let steps = tree.current();
        is_smaller = match failures(index, set, std::slice::from_ref(&steps)).await.into_iter().next() {
            Some((_, why)) => {
                smallest = (steps, why);
                tree.simplify()
            }
            None => tree.complicate(),
        };
    }
    smallest
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_agrees_with_the_model() {
    agree(Database::sqlite()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_agrees_with_the_model() {
    agree(Database::postgres().await).await;
}
