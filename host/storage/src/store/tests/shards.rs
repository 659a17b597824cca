//! Databases in shards. The tests of a cluster are skipped, and say so, where `BELVEDERE_TEST_CITUS_URL` names none.

use belvedere_standins::citus::Cluster;
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, Row as _};

use super::fixtures::*;
use crate::query::{Backlinks, Filter, Links, Query};
use crate::store::index::{AccountStatus, Validity};
use crate::store::nodes::{self, NodeStatus};
use crate::store::partitions::COUNT;
use crate::store::reads::Reads;
use crate::store::records::{self, PAGE_BYTES, Room, backlinks, collection_counts, links};
use crate::store::script_sql::{self, ScriptSqlError};
use crate::store::select::{Select, bound};
use crate::store::shards::{self, ShardsError};
use crate::store::testing::{both, wrong_counts};
use crate::store::{Backend, Db, StoreError, intern, query, sizes};
use belvedere_web::fair_share::Tenant;

const NOTE: &str = "com.example.note";
const LIKE: &str = "com.example.like";
const TARGET: &str = "at://did:plc:target/com.example.note/1";

pub(super) async fn open(cluster: &Cluster) -> Db {
    let db = Db::open(&cluster.url(), 4).await.unwrap();
    db.migrate().await.unwrap();
    db
}

async fn contents(db: &Db) -> (Vec<String>, Vec<String>, Vec<(String, u64)>, Vec<(String, String)>) {
    (list(db, NOTE).await, list(db, LIKE).await, counts(db).await, refs(db).await)
}

async fn fill(db: &Db) {
    for n in 1..=3 {
        let notes = (0..30).map(|k| put(&uri(n, NOTE, &format!("k{k}")), 1, &format!(r#"{{"n":{k}}}"#)));
        let like = put_with_refs(&uri(n, LIKE, "like"), 1, "{}", &[TARGET]);
        apply(db, i64::from(n), notes.chain([like]).collect()).await;
    }
    let mut invalid = put(&uri(1, NOTE, "invalid"), 1, "{}");
    invalid.record.as_mut().unwrap().validity = Validity::Invalid("text is missing".into());
    apply(db, 4, vec![invalid, take(&uri(2, NOTE, "k1"), 2)]).await;
    set_status(db, 3, AccountStatus::Suspended).await;
}

async fn change_all(db: &Db) {
    apply(db, 5, vec![put(&uri(1, NOTE, "k0"), 5, r#"{"n":100}"#), take(&uri(1, NOTE, "invalid"), 5)]).await;
    apply(db, 6, vec![put(&uri(2, NOTE, "k1"), 1, r#"{"n":1}"#), take(&uri(1, LIKE, "like"), 6)]).await;
    set_status(db, 3, AccountStatus::Active).await;
    set_status(db, 2, AccountStatus::Deleted).await;
}

#[tokio::test]
async fn a_database_is_distributed_and_its_shards_move() {
    let Some(cluster) = Cluster::create("belvedere_test_shards").await else { return };
    let db = open(&cluster).await;
    fill(&db).await;
    let before = contents(&db).await;
    assert!(matches!(shards::shards(&db).await, Err(ShardsError::NotInShards)));
    let planned = shards::planned(&db).await.unwrap();
    assert!(planned.iter().any(|of| of.table == "records" && !of.is_copied && of.bytes > 0), "{planned:?}");
    shards::distribute(&db).await.unwrap();
    assert!(matches!(shards::distribute(&db).await, Err(ShardsError::AlreadyInShards)));
    db.close().await;

    let db = open(&cluster).await;
    assert_eq!(contents(&db).await, before);
    change_all(&db).await;
    let found = shards::shards(&db).await.unwrap();
    assert_eq!(found.len(), 16);
    let records: i64 = found.iter().flat_map(|shard| &shard.collections).map(|(_, records)| records).sum();
    assert_eq!(records, count(&db, "records").await);
    assert_eq!(wrong_counts(&db).await.unwrap(), Vec::<String>::new());
    let (total, tables) = sizes::read(&db).await.unwrap();
    let of_records = tables.iter().find(|table| table.name == "records").unwrap();
    assert!(of_records.bytes.unwrap() > 0 && of_records.index_bytes.unwrap() > 0, "{tables:?}");
    assert!(total > of_records.bytes.unwrap() && !tables.iter().any(|table| table.name.ends_with("_00")));

    // The same on one SQLite.
    let [other, _] = both().await;
    fill(&other).await;
    change_all(&other).await;
    assert_eq!(contents(&db).await, contents(&other).await);
    assert_eq!(collection_counts(&db).await.unwrap(), collection_counts(&other).await.unwrap());

    let expected = contents(&db).await;
    for node in shards::nodes(&db).await.unwrap().into_iter().filter(|node| node.takes_shards) {
        shards::move_to(&db, 3, &node.name).await.unwrap();
        assert_eq!(shards::shards(&db).await.unwrap()[3].node, node.name);
        assert_eq!(contents(&db).await, expected);
    }
    assert!(matches!(shards::move_to(&db, 16, "a:1").await, Err(ShardsError::NoShard(16))));
    assert!(matches!(shards::move_to(&db, 3, "a:1").await, Err(ShardsError::UnknownNode(_))));
    db.close().await;
    cluster.remove().await;
}

/// Two hosts that start at the same time distribute a new database once. One with records is not distributed by a start.
#[tokio::test]
async fn a_new_database_is_distributed_at_the_first_start() {
    let Some(cluster) = Cluster::create("belvedere_test_new_shards").await else { return };
    let [first, second] = [open(&cluster).await, open(&cluster).await];
    let (of_first, of_second) = tokio::join!(shards::distribute_new(&first), shards::distribute_new(&second));
    assert!(of_first.unwrap() && of_second.unwrap(), "both have to be opened again");
    for db in [first, second] {
        db.close().await;
    }
    let db = open(&cluster).await;
    assert!(!shards::distribute_new(&db).await.unwrap());
    fill(&db).await;
    assert_eq!(shards::shards(&db).await.unwrap().len(), 16);
    db.close().await;
    cluster.remove().await;

    let cluster = Cluster::create("belvedere_test_old_shards").await.unwrap();
    let db = open(&cluster).await;
    fill(&db).await;
    assert!(!shards::distribute_new(&db).await.unwrap());
    assert!(matches!(shards::shards(&db).await, Err(ShardsError::NotInShards)));
    db.close().await;
    cluster.remove().await;
}

/// A statement that Citus divides costs a round trip for each part, and pulls rows to the coordinator.
#[tokio::test]
async fn frequent_statements_run_on_one_node() {
    let Some(cluster) = Cluster::create("belvedere_test_statements").await else { return };
    let db = open(&cluster).await;
    fill(&db).await;
    shards::distribute(&db).await.unwrap();
    db.close().await;
    cluster.count_tasks().await;
    let db = open(&cluster).await;
    let backlinks = Backlinks {
        links: Links { collection: nsid(LIKE), path: None },
        target: TARGET.to_owned(),
        did: None,
        limit: 20,
        after: None,
        uris_only: false,
    };
    let of = |filter: serde_json::Value| Query {
        limit: 20,
        filter: Some(Filter::from_json(&filter).unwrap()),
        ..Query::of(nsid(NOTE))
    };
    let filtered = of(serde_json::json!({ "field": "n", "value": 7 }));
    for looks_at_nodes in [false, true] {
        if looks_at_nodes {
            assert!(!db.look_at_nodes().await.is_empty());
        }
        let mut tasks = Tasks::of(&cluster).await;
        assert!(get(&db, &uri(1, NOTE, "k3")).await.is_some());
        tasks.are_few("a record").await;
        assert!(records::get_full(&db, &uri(1, NOTE, "k3")).await.unwrap().is_some());
        tasks.are_few("a record with all columns").await;
        let many = [uri(1, NOTE, "k4"), uri(1, NOTE, "k5")];
        assert_eq!(records::get_many_full(&db, &many, Room::of(PAGE_BYTES)).await.unwrap().rows.len(), 2);
        tasks.are_few("several records").await;
        assert!(!list(&db, NOTE).await.is_empty());
        tasks.are_few("a list").await;
        let own = Query { did: Some(did(1)), ..Query::of(nsid(NOTE)) };
        assert!(!query::read(&db, &own, &US).await.unwrap().rows.is_empty());
        tasks.are_few("the records of an account").await;
        assert!(!query::read(&db, &filtered, &US).await.unwrap().rows.is_empty());
        tasks.are_few("a filter").await;
        assert!(query::count(&db, &filtered, &US).await.unwrap() > 0);
        tasks.are_few("a count").await;
        assert!(records::count(&db, &nsid(NOTE), Some(&did(1)), &US).await.unwrap() > 0);
        tasks.are_few("a count of an account").await;
        assert!(!backlinks::read(&db, &backlinks, &US).await.unwrap().rows.is_empty());
        tasks.are_few("backlinks").await;
        assert!(links::count(&db, &backlinks.links, &[TARGET.to_owned()], &US).await.unwrap()[0] > 0);
        tasks.are_few("a count of links").await;
    }

    let mut tasks = Tasks::of(&cluster).await;
    let notes = |version| (0..10).map(move |k| put(&uri(1, NOTE, &format!("k{k}")), version, r#"{"n":1}"#));
    apply(&db, 20, notes(20).collect()).await;
    tasks.are_few("a batch").await;
    apply(&db, 21, vec![take(&uri(1, NOTE, "k0"), 21)]).await;
    tasks.are_few("a deletion").await;
    assert_eq!(wrong_counts(&db).await.unwrap(), Vec::<String>::new());
    let before = cluster.tasks().await;
    assert!(count(&db, "records").await > 0);
    assert!(cluster.tasks().await - before >= SHARDS, "the whole table is counted");
    db.close().await;
    cluster.remove().await;
}

/// The tasks of a cluster since the last look. A statement that is divided has one for each shard.
struct Tasks<'a> {
    cluster: &'a Cluster,
    before: i64,
}

const SHARDS: i64 = COUNT as i64;

impl<'a> Tasks<'a> {
    async fn of(cluster: &'a Cluster) -> Self {
        Self { cluster, before: cluster.tasks().await }
    }

    async fn are_few(&mut self, of: &str) {
        let now = self.cluster.tasks().await;
        let tasks = now - std::mem::replace(&mut self.before, now);
        assert!(tasks < SHARDS, "{of}: {tasks} tasks");
    }
}

/// The plan of a list on the node that has it.
async fn plan_on_node(db: &Db) -> String {
    let collection = intern::collection(db, &nsid(NOTE)).await.unwrap().unwrap();
    let Db::Postgres(postgres) = db else { panic!("{db:?}") };
    let nsid = nsid(NOTE);
    let sql = Select::page(&nsid, collection, 20).statement_on(Backend::Postgres).with_prefix("EXPLAIN");
    let pool = postgres.pool_of(collection.partition, Reads::Hot);
    let lines = bound!(sql).persistent(false).fetch_all(pool.reads()).await.unwrap();
    lines.iter().map(|line| line.get::<String, _>(0)).collect::<Vec<_>>().join("\n")
}

/// A shard is read from the node that has it, also when it has just been moved or written.
#[tokio::test]
async fn reads_go_to_the_node_of_a_shard() {
    let Some(cluster) = Cluster::create("belvedere_test_nodes").await else { return };
    let db = open(&cluster).await;
    fill(&db).await;
    assert!(db.look_at_nodes().await.is_empty(), "it is not in shards");
    shards::distribute(&db).await.unwrap();
    db.close().await;
    let db = open(&cluster).await;
    let expected = contents(&db).await;
    assert!(db.nodes().is_empty(), "nothing was looked at yet");

    let sum = |nodes: &[NodeStatus]| {
        let of = |count: fn(&NodeStatus) -> u64| nodes.iter().map(count).sum::<u64>();
        (of(|node| node.server.reads), of(|node| node.server.repeated))
    };
    let found = db.look_at_nodes().await;
    let mut numbers: Vec<u8> = found.iter().flat_map(|node| node.shards.clone()).collect();
    numbers.sort_unstable();
    let on_workers = shards::shards(&db)
        .await
        .unwrap()
        .into_iter()
        .filter(|shard| found.iter().any(|node| node.server.server == shard.node));
    assert_eq!(numbers, on_workers.map(|shard| shard.number).collect::<Vec<_>>());
    assert!(found.iter().all(|node| node.server.unused.is_none() && !node.is_lost), "{found:?}");
    assert_eq!(contents(&db).await, expected);
    let (first, repeated) = sum(&db.nodes());
    assert!(first > 0 && repeated == 0, "{:?}", db.nodes());
    let plan = plan_on_node(&db).await;
    assert!(plan.contains("_list_") && !plan.contains("Citus"), "it reads the node's own table: {plan}");

    for n in 0..20 {
        let uri = uri(1, NOTE, &format!("new{n}"));
        apply(&db, 10 + n, vec![put(&uri, 1, "{}")]).await;
        assert!(records::get(&db, &uri).await.unwrap().is_some(), "a write is read at once");
    }
    let expected = contents(&db).await;
    let names: Vec<String> = found.iter().map(|node| node.server.server.clone()).collect();
    let number = found[0].shards[0];
    for name in &names {
        shards::move_to(&db, number, name).await.unwrap();
        assert_eq!(contents(&db).await, expected, "this host does not know that it was moved");
        let node = db.look_at_nodes().await.into_iter().find(|node| node.shards.contains(&number)).unwrap();
        assert_eq!(&node.server.server, name);
        assert_eq!(contents(&db).await, expected);
    }
    assert!(sum(&db.nodes()).0 > first, "{:?}", db.nodes());

    // A migration begins with this.
    let Db::Postgres(postgres) = &db else { panic!("{db:?}") };
    nodes::prepare_migrations(postgres).await.unwrap();
    assert_eq!(contents(&db).await, expected);
    assert!(plan_on_node(&db).await.contains("Citus"));
    db.look_at_nodes().await;
    assert!(!plan_on_node(&db).await.contains("Citus"), "they are made again");
    assert_eq!(contents(&db).await, expected);
    db.close().await;
    cluster.remove().await;
}

pub(super) async fn raw(db: &Db, sql: &str) -> Result<serde_json::Value, ScriptSqlError> {
    let answer = script_sql::run(db, &Tenant::client("a"), sql, &[]).await?;
    Ok(serde_json::from_slice(&answer.rows).unwrap())
}

/// Statements of scripts that read each view, with and without a collection, and join it with tables of their own.
const OF_SCRIPTS: [&str; 8] = [
    "SELECT uri, record, valid FROM records WHERE collection = 'com.example.note' ORDER BY uri",
    "SELECT * FROM records WHERE uri = 'at://did:plc:000000000000000000000001/com.example.note/k3'",
    "SELECT collection, count(*) AS n FROM records GROUP BY collection ORDER BY collection",
    "SELECT source_uri FROM record_refs WHERE target_uri = 'at://did:plc:target/com.example.note/1' ORDER BY source_uri",
    "SELECT r.uri FROM record_refs f JOIN records r ON r.uri = f.source_uri WHERE f.collection = 'com.example.like' \
     AND r.collection = 'com.example.like' ORDER BY r.uri",
    "SELECT did, status FROM accounts ORDER BY did",
    "SELECT count(*) AS n FROM labels",
    "SELECT s.n, r.rkey FROM script_seen s JOIN records r ON r.rkey = s.rkey WHERE r.collection = 'com.example.note' \
     ORDER BY s.n, r.uri",
];

/// The role of scripts reads in shards what it reads of one database, also of a shard that was moved, and nothing else.
#[tokio::test]
async fn scripts_read_the_index_in_shards_under_their_role() {
    let Some(cluster) = Cluster::create("belvedere_test_scripts").await else { return };
    let db = open(&cluster).await;
    fill(&db).await;
    shards::distribute(&db).await.unwrap();
    db.close().await;
    let db = open(&cluster).await;
    assert!(!db.has_script_tables().await.unwrap());
    assert!(matches!(raw(&db, OF_SCRIPTS[0]).await, Err(ScriptSqlError::InShards)));
    db.look_at_nodes().await;
    assert!(db.has_script_tables().await.unwrap());

    let [other, _] = both().await;
    fill(&other).await;
    for db in [&db, &other] {
        raw(db, "CREATE TABLE script_seen (n BIGINT, rkey TEXT)").await.unwrap();
        raw(db, "INSERT INTO script_seen VALUES (1, 'k1'), (2, 'k2'), (3, 'none')").await.unwrap();
    }
    let same = async || {
        for sql in OF_SCRIPTS {
            let mut of = [raw(&db, sql).await.unwrap(), raw(&other, sql).await.unwrap()];
            for row in of.iter_mut().flat_map(|rows| rows.as_array_mut().unwrap()) {
                let row = row.as_object_mut().unwrap();
                row.remove("indexed_at");
                row.remove("indexed_us");
                // SQLite has no booleans.
                if let Some(valid) = row.get_mut("valid").filter(|valid| valid.is_boolean()) {
                    *valid = u8::from(valid.as_bool().unwrap()).into();
                }
            }
            assert!(of[0] == of[1] && of[0] != serde_json::json!([]), "{sql}: {of:#?}");
        }
    };
    same().await;
    let number = db.nodes()[0].shards[0];
    for node in db.nodes() {
        let is_elsewhere = !db
            .nodes()
            .iter()
            .any(|of| of.server.server == node.server.server && of.shards.contains(&number));
        shards::move_to(&db, number, &node.server.server).await.unwrap();
        if is_elsewhere {
            let sql = "SELECT count(*) AS n FROM records";
            let error = raw(&db, sql).await.unwrap_err();
            assert!(matches!(error, ScriptSqlError::Store(StoreError::Unavailable(_))), "{error:?}");
        }
        db.look_at_nodes().await;
        same().await;
    }
    change_all(&db).await;
    change_all(&other).await;
    same().await;
    let Db::Postgres(postgres) = &db else { panic!("{db:?}") };
    let sql = "SELECT md5(string_agg(pg_get_viewdef(oid), '' ORDER BY relname)) FROM pg_class \
               WHERE relnamespace = 'script_views'::regnamespace AND relkind = 'v'";
    let views: String = sqlx::query_scalar(sql).fetch_one(&postgres.pool).await.unwrap();
    nodes::prepare_migrations(postgres).await.unwrap();
    db.look_at_nodes().await;
    same().await;
    let again: String = sqlx::query_scalar(sql).fetch_one(&postgres.pool).await.unwrap();
    assert_eq!(views, again, "what is defined again is the same");

    let name = format!("{}_scripts", cluster.coordinator.get_database().unwrap());
    let mut as_role = cluster.coordinator.clone().username(&name).connect().await.unwrap();
    for table in ["shard_scripts.records", "shard_scripts.dids", "public.records_00", "public.oauth_sessions"]
    {
        let sql = format!("SELECT * FROM {table}");
        let error = sqlx::query(AssertSqlSafe(sql)).fetch_all(&mut as_role).await.unwrap_err();
        assert!(error.to_string().contains("permission denied"), "{table}: {error}");
    }
    as_role.close().await.unwrap();
    other.close().await;
    db.close().await;
    cluster.remove().await;
}

#[tokio::test]
async fn other_databases_are_not_distributed() {
    let [sqlite, postgres] = both().await;
    assert!(matches!(shards::planned(&sqlite).await, Err(ShardsError::NotPostgres)));
    if count(&postgres, "pg_extension WHERE extname = 'citus'").await == 0 {
        assert!(matches!(shards::distribute(&postgres).await, Err(ShardsError::NoCitus)));
        assert!(matches!(shards::distribute_new(&postgres).await, Err(ShardsError::NoCitus)));
        assert!(matches!(shards::shards(&postgres).await, Err(ShardsError::NoCitus)));
    }
}
