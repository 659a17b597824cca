//! Databases in shards. The tests of a cluster run where `BELVEDERE_TEST_CITUS_URL` names a database on the coordinator of a Citus
//! cluster, whose nodes it has, as a superuser that needs no password on any of them. They are skipped otherwise, and say so.

use std::str::FromStr;

use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection as _, PgConnection};

use super::fixtures::*;
use crate::store::Db;
use crate::store::index::{AccountStatus, Validity};
use crate::store::partitions::Partition;
use crate::store::records::collection_counts;
use crate::store::select::Select;
use crate::store::shards::{self, ShardsError};
use crate::store::testing::{both, wrong_counts};

const NOTE: &str = "com.example.note";
const LIKE: &str = "com.example.like";
const TARGET: &str = "at://did:plc:target/com.example.note/1";

/// A database of its own on all nodes of the cluster; `None` without a cluster.
struct Cluster {
    coordinator: PgConnectOptions,
    nodes: Vec<PgConnectOptions>,
    name: String,
}

#[expect(
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "tests have no configuration, and no log"
)]
fn cluster_url() -> Option<String> {
    let url = std::env::var("BELVEDERE_TEST_CITUS_URL").ok().filter(|url| !url.is_empty());
    if url.is_none() {
        eprintln!("skipped: BELVEDERE_TEST_CITUS_URL names no Citus cluster");
    }
    url
}

async fn execute_on(options: &PgConnectOptions, statements: &[String]) {
    let mut conn = options.connect().await.unwrap();
    for sql in statements {
        sqlx::raw_sql(AssertSqlSafe(sql.clone())).execute(&mut conn).await.unwrap();
    }
    conn.close().await.unwrap();
}

impl Cluster {
    async fn create(name: &str) -> Option<Self> {
        let url = cluster_url()?;
        let given = PgConnectOptions::from_str(&url).unwrap();
        let mut conn = PgConnection::connect_with(&given).await.unwrap();
        let sql = "SELECT nodename, nodeport, shouldhaveshards FROM pg_dist_node ORDER BY groupid";
        let found: Vec<(String, i32, bool)> = sqlx::query_as(sql).fetch_all(&mut conn).await.unwrap();
        assert!(!found.is_empty(), "{url} has no nodes");
        let node = |(host, port, _): &(String, i32, bool)| {
            given.clone().host(host).port(u16::try_from(*port).unwrap())
        };
        let nodes: Vec<PgConnectOptions> = found.iter().map(node).collect();
        let own = ["SET citus.enable_create_database_propagation = off".to_owned()];
        for node in &nodes {
            let make =
                [format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)"), format!("CREATE DATABASE {name}")];
            execute_on(node, &[&own[..], &make].concat()).await;
            execute_on(&node.clone().database(name), &["CREATE EXTENSION citus".to_owned()]).await;
        }
        let mut add = Vec::new();
        for (n, (host, port, takes_shards)) in found.iter().enumerate() {
            let function = if n == 0 { "citus_set_coordinator_host" } else { "citus_add_node" };
            add.push(format!("SELECT {function}('{host}', {port})"));
            add.push(format!(
                "SELECT citus_set_node_property('{host}', {port}, 'shouldhaveshards', {takes_shards})"
            ));
        }
        let coordinator = nodes[0].clone().database(name);
        execute_on(&coordinator, &add).await;
        Some(Self { coordinator, nodes, name: name.to_owned() })
    }

    async fn open(&self) -> Db {
        let db = Db::open(self.coordinator.to_url_lossy().as_str(), 4).await.unwrap();
        db.migrate().await.unwrap();
        db
    }

    async fn remove(self) {
        let own = "SET citus.enable_create_database_propagation = off".to_owned();
        for node in &self.nodes {
            execute_on(node, &[own.clone(), format!("DROP DATABASE {} WITH (FORCE)", self.name)]).await;
        }
    }
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
    let db = cluster.open().await;
    fill(&db).await;
    let before = contents(&db).await;
    assert!(matches!(shards::shards(&db).await, Err(ShardsError::NotInShards)));
    let planned = shards::planned(&db).await.unwrap();
    assert!(planned.iter().any(|of| of.table == "records" && !of.is_copied && of.bytes > 0), "{planned:?}");
    shards::distribute(&db).await.unwrap();
    assert!(matches!(shards::distribute(&db).await, Err(ShardsError::AlreadyInShards)));
    db.close().await;

    let db = cluster.open().await;
    assert_eq!(contents(&db).await, before);
    change_all(&db).await;
    let found = shards::shards(&db).await.unwrap();
    assert_eq!(found.len(), 16);
    let records: i64 = found.iter().flat_map(|shard| &shard.collections).map(|(_, records)| records).sum();
    assert_eq!(records, count(&db, "records").await);
    assert_eq!(wrong_counts(&db).await.unwrap(), Vec::<String>::new());

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

/// A statement that Citus divides costs a round trip for each part, and one without a node reads nothing of its shard in order.
#[tokio::test]
async fn frequent_statements_run_on_one_node() {
    let Some(cluster) = Cluster::create("belvedere_test_statements").await else { return };
    let db = cluster.open().await;
    fill(&db).await;
    shards::distribute(&db).await.unwrap();
    db.close().await;
    let db = cluster.open().await;
    let collection = crate::store::intern::collection(&db, &nsid(NOTE)).await.unwrap().unwrap();
    let Partition::Shard(_) = collection.partition else { panic!("{collection:?}") };
    let (nsid, did) = (nsid(NOTE), did(1));
    let list = Select::page(&nsid, collection, 20);
    let own = Select { did: Some(&did), ..Select::page(&nsid, collection, 20) };
    for select in [list, own] {
        let sql = select.statement_on(crate::store::Backend::Postgres);
        let plan = crate::store::select::plan(&db, sql).await.unwrap();
        assert!(plan.contains("Task Count: 1") && !plan.contains("Subplan"), "{plan}");
        assert!(plan.contains("_list"), "{plan}");
    }
    db.close().await;
    cluster.remove().await;
}

#[tokio::test]
async fn other_databases_are_not_distributed() {
    let [sqlite, postgres] = both().await;
    assert!(matches!(shards::planned(&sqlite).await, Err(ShardsError::NotPostgres)));
    if count(&postgres, "pg_extension WHERE extname = 'citus'").await == 0 {
        assert!(matches!(shards::distribute(&postgres).await, Err(ShardsError::NoCitus)));
        assert!(matches!(shards::shards(&postgres).await, Err(ShardsError::NoCitus)));
    }
}
