//! The numbers of records and links stay those of the rows after every kind of change, in random order: with the triggers, with none,
//! and while two hosts and one of the version before write.

use proptest::prelude::*;

use super::fixtures::*;

use crate::store::index::link_counts::begin_one;
use crate::store::index::{self, AccountStatus, Batch, Change, purge_leftovers};
use crate::store::moderation::{self, Action, Decision, ModerationFilter, Subject};
use crate::store::testing::{TestDb, drop_counting_triggers, postgres, sqlite, wrong_counts};
use crate::store::{Db, StoreError, intern, records};
use belvedere_base::clock::Timestamp;

const ACCOUNTS: u32 = 4;
const KEYS: u32 = 5;
const COLLECTIONS: [&str; 2] = [NOTE, LIKE];
/// Targets whose links are counted from the beginning.
const TARGETS: [&str; 2] = ["at://did:plc:target/com.example.note/1", "did:plc:target"];

#[derive(Clone, Debug)]
struct Place {
    account: u32,
    collection: &'static str,
    key: u32,
}

impl Place {
    fn uri(&self) -> belvedere_protocol::atproto::RecordUri {
        uri(self.account, self.collection, &format!("k{}", self.key))
    }
}

#[derive(Clone, Debug)]
enum Step {
    /// Records with links to some of the targets, at some places; deletions; and accounts.
    Batch(Vec<(Place, u64, Option<u8>)>, Vec<(u32, AccountStatus, u64)>),
    Delete(Place),
    DeleteCollection(&'static str),
    Moderate(Place, Action),
    ModerateAccount(u32, Action),
    /// Lifts the newest decision.
    Lift,
    PurgeLeftovers,
    /// The statements of a host of the version before, or of an operator.
    Other(Other),
}

#[derive(Clone, Debug)]
enum Other {
    Insert(Place),
    Delete(u32),
    Status(u32, i16),
}

fn place() -> impl Strategy<Value = Place> {
    let collection = prop::sample::select(COLLECTIONS.to_vec());
    (0..ACCOUNTS, collection, 0..KEYS).prop_map(|(account, collection, key)| Place {
        account,
        collection,
        key,
    })
}

fn batch() -> impl Strategy<Value = Step> {
    let status = prop::sample::select(vec![
        AccountStatus::Active,
        AccountStatus::Deactivated,
        AccountStatus::TakenDown,
        AccountStatus::Deleted,
    ]);
    let records = prop::collection::vec((place(), 1..9_u64, prop::option::weighted(0.7, any::<u8>())), 0..10);
    let accounts = prop::collection::vec((0..ACCOUNTS, status, 0..9_u64), 0..2);
    (records, accounts).prop_map(|(records, accounts)| Step::Batch(records, accounts))
}

fn other() -> impl Strategy<Value = Step> {
    prop_oneof![
        place().prop_map(Other::Insert),
        (0..KEYS).prop_map(Other::Delete),
        (0..ACCOUNTS, 0..3_i16).prop_map(|(account, status)| Other::Status(account, status)),
    ]
    .prop_map(Step::Other)
}

fn action() -> impl Strategy<Value = Action> {
    prop::sample::select(vec![Action::Hide, Action::Takedown])
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => batch(),
        1 => place().prop_map(Step::Delete),
        1 => prop::sample::select(COLLECTIONS.to_vec()).prop_map(Step::DeleteCollection),
        2 => (place(), action()).prop_map(|(place, action)| Step::Moderate(place, action)),
        1 => (0..ACCOUNTS, action()).prop_map(|(account, action)| Step::ModerateAccount(account, action)),
        2 => Just(Step::Lift),
        1 => Just(Step::PurgeLeftovers),
        3 => other(),
    ]
}

/// The bits of `links` say which targets are linked to, and where.
fn change((place, version, links): &(Place, u64, Option<u8>)) -> Change {
    let Some(links) = links else { return take(&place.uri(), *version) };
    let targets: Vec<&str> = TARGETS
        .iter()
        .enumerate()
        .filter(|(n, _)| (links >> n) & 1 == 1)
        .map(|(_, target)| *target)
        .collect();
    let mut change = put_with_refs(&place.uri(), *version, "{}", &targets);
    for found in &mut change.record.as_mut().unwrap().refs {
        found.paths = ["subject.uri", "", "reply.parent.uri reply.root.uri", "b"]
            [usize::from((links >> 2) & 3)]
        .to_owned();
    }
    change
}

async fn moderate(db: &Db, subject: Subject, action: Action) -> Result<(), StoreError> {
    let (reason, by) = ("spam".to_owned(), "did:plc:moderator".to_owned());
    let decision = Decision { subject, action, reason, by, expires_at: None, replaces: None };
    moderation::moderate(db, &decision, Timestamp(500)).await.map(drop)
}

async fn take_step(db: &Db, step: &Step, now: i64) -> Result<(), StoreError> {
    match step {
        Step::Batch(changes, accounts) => {
            let accounts = accounts.iter().map(|(n, status, until)| account(*n, *status, rev(*until)));
            let changes = changes.iter().map(change).collect();
            let batch =
                Batch { changes, accounts: accounts.collect(), now: Timestamp(now), ..Batch::default() };
            index::apply(db, &batch).await.map(drop)
        }
        Step::Delete(place) => records::delete(db, &place.uri()).await.map(drop),
        Step::DeleteCollection(collection) => records::delete_collection(db, &nsid(collection)).await.end,
        Step::Moderate(place, action) => moderate(db, Subject::Record(place.uri()), *action).await,
        Step::ModerateAccount(account, action) => {
            moderate(db, Subject::Account(did(*account)), *action).await
        }
        Step::Lift => {
            let open = ModerationFilter { active: Some(true), ..ModerationFilter::default() };
            let rows = moderation::list(db, &open, 1).await?;
            let Some(row) = rows.first() else { return Ok(()) };
            moderation::lift(db, row.id, None, None, Timestamp(now)).await.map(drop)
        }
        Step::PurgeLeftovers => purge_leftovers(db, Timestamp(i64::MAX)).await.map(drop),
        Step::Other(other) => take_other(db, other).await,
    }
}

async fn take_other(db: &Db, other: &Other) -> Result<(), StoreError> {
    let verified = if matches!(db, Db::Sqlite(_)) { "0" } else { "false" };
    let sql = match other {
        Other::Insert(place) => format!(
            "INSERT INTO records (collection_id, did_id, rkey, cid_verified, rev, indexed_at, updated_at, record) \
             SELECT c.id, d.id, 'k{}', {verified}, 1, 1, 1, '{{}}' FROM collections c CROSS JOIN dids d \
             WHERE c.nsid = '{}' AND d.did = '{}' ON CONFLICT DO NOTHING",
            place.key,
            place.collection,
            did(place.account)
        ),
        Other::Delete(key) => format!(
            "DELETE FROM records WHERE rkey = 'k{key}'; \
             DELETE FROM record_refs WHERE record_id NOT IN (SELECT id FROM records)"
        ),
        Other::Status(account, status) => format!(
            "UPDATE dids SET status = {status} WHERE did = '{}' AND network_status IS NULL",
            did(*account)
        ),
    };
    let sql = sqlx::AssertSqlSafe(format!("BEGIN; {sql}; COMMIT"));
    let done = match db {
        Db::Sqlite(db) => sqlx::raw_sql(sql).execute(&db.writer).await.map(drop),
        Db::Postgres(db) => {
            let mut connection = db.pool.acquire().await?;
            let done = sqlx::raw_sql(sql).execute(&mut *connection).await.map(drop);
            if done.is_err() {
                connection.close_on_drop();
            }
            done
        }
    };
    Ok(done?)
}

/// Begins to count the targets in both collections.
async fn prepare(db: &Db) {
    let collections: Vec<_> = COLLECTIONS.iter().map(|name| nsid(name)).collect();
    let ids = intern::collections(db, collections.iter()).await.unwrap();
    intern::did_ids(db, (0..ACCOUNTS).map(did).collect::<Vec<_>>().iter()).await.unwrap();
    for (n, collection) in collections.iter().enumerate() {
        apply(db, 0, vec![change(&(Place { account: 0, collection: COLLECTIONS[n], key: 0 }, 1, Some(3)))])
            .await;
        for target in TARGETS {
            begin_one(db, ids[collection], target).await.unwrap();
        }
    }
}

async fn check(db: TestDb, steps: Vec<Step>, has_triggers: bool) {
    prepare(&db).await;
    assert_eq!(count(&db, "link_counts").await, 8);
    if !has_triggers {
        drop_counting_triggers(&db).await.unwrap();
    }
    for (now, step) in (1..).zip(steps) {
        if !has_triggers && matches!(step, Step::Other(_)) {
            continue;
        }
        take_step(&db, &step, now).await.unwrap();
        assert_eq!(
            wrong_counts(&db).await.unwrap(),
            [""; 0],
            "after {step:?}, with triggers: {has_triggers}"
        );
    }
}

fn run(cases: u32, open: impl AsyncFn() -> TestDb) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(steps in prop::collection::vec(step(), 1..25), has_triggers in any::<bool>())| {
        runtime.block_on(async { check(open().await, steps, has_triggers).await });
    });
}

#[test]
fn sqlite_counts_what_is_there() {
    run(60, sqlite);
}

#[test]
fn postgres_counts_what_is_there() {
    run(15, postgres);
}

/// Steps of one host, each again until PostgreSQL ends none of its transactions as a deadlock.
async fn run_host(db: Db, steps: Vec<Step>) {
    for (now, step) in (1..).zip(steps) {
        while let Err(error) = take_step(&db, &step, now).await {
            assert!(error.is_conflict_of_transactions(), "{step:?}: {error}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn two_hosts_and_one_of_the_version_before_count_together() {
    use proptest::strategy::ValueTree as _;
    use proptest::test_runner::TestRunner;

    let db = postgres().await;
    prepare(&db).await;
    let second = Db::open(&db.url, 4).await.unwrap();
    let third = Db::open(&db.url, 4).await.unwrap();
    let mut runner = TestRunner::default();
    let mut steps = |of: BoxedStrategy<Step>, number: usize| {
        prop::collection::vec(of, number).new_tree(&mut runner).unwrap().current()
    };
    let hosts = [
        tokio::spawn(run_host(Db::clone(&db), steps(step().boxed(), 150))),
        tokio::spawn(run_host(second, steps(step().boxed(), 150))),
        tokio::spawn(run_host(third, steps(other().boxed(), 300))),
    ];
    while !hosts.iter().all(tokio::task::JoinHandle::is_finished) {
        assert_eq!(wrong_counts(&db).await.unwrap(), [""; 0]);
    }
    for host in hosts {
        host.await.unwrap();
    }
    assert_eq!(wrong_counts(&db).await.unwrap(), [""; 0]);
}
