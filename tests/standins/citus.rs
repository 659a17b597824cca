//! Databases on a Citus cluster, for the tests of shards. `BELVEDERE_TEST_CITUS_URL` names a database on the coordinator of a cluster,
//! whose nodes it has, as a superuser that needs no password on any of them.

use std::str::FromStr;

use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, PgConnection};

use crate::database::given;

/// A database of its own on all nodes of the cluster.
#[derive(Debug)]
pub struct Cluster {
    /// The database on the coordinator.
    pub coordinator: PgConnectOptions,
    /// Each server of the cluster, the coordinator first.
    nodes: Vec<PgConnectOptions>,
    name: String,
    /// Holds the lock of the cluster.
    lock: PgConnection,
}

/// One test at a time: the names that Citus gives to what moves a shard do not differ between databases.
const LOCK: &str = "SELECT pg_advisory_lock(4918534420476)";

/// A node's host and port, and whether it takes shards.
type Found = (String, i32, bool);

#[expect(clippy::print_stderr, reason = "tests have no log")]
fn url() -> Option<String> {
    let url = given("BELVEDERE_TEST_CITUS_URL").and_then(|url| url.into_string().ok());
    if url.is_none() {
        eprintln!("skipped: BELVEDERE_TEST_CITUS_URL names no Citus cluster");
    }
    url
}

async fn execute(options: &PgConnectOptions, statements: &[String]) {
    let mut conn = options.connect().await.expect("the node responds");
    for sql in statements {
        sqlx::raw_sql(AssertSqlSafe(sql.clone())).execute(&mut conn).await.expect("the statement runs");
    }
    conn.close().await.expect("the connection closes");
}

const ON_THIS_NODE: &str = "SET citus.enable_create_database_propagation = off";

impl Cluster {
    /// An empty database in place of one with the same name; `None` without a cluster.
    pub async fn create(name: &str) -> Option<Self> {
        let given = PgConnectOptions::from_str(&url()?).expect("BELVEDERE_TEST_CITUS_URL is a URL");
        let mut conn = given.connect().await.expect("the coordinator responds");
        let sql = "SELECT nodename, nodeport, shouldhaveshards FROM pg_dist_node ORDER BY groupid";
        let found: Vec<Found> = sqlx::query_as(sql).fetch_all(&mut conn).await.expect("it is a coordinator");
        assert!(!found.is_empty(), "the cluster of BELVEDERE_TEST_CITUS_URL has no nodes");
        sqlx::query(LOCK).execute(&mut conn).await.expect("no other test keeps the lock");
        let node = |(host, port, _): &Found| {
            given.clone().host(host).port(u16::try_from(*port).expect("it is a port"))
        };
        let nodes: Vec<PgConnectOptions> = found.iter().map(node).collect();
        for node in &nodes {
            let make = [
                ON_THIS_NODE.to_owned(),
                format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)"),
                format!("CREATE DATABASE {name}"),
            ];
            execute(node, &make).await;
            execute(&node.clone().database(name), &["CREATE EXTENSION citus".to_owned()]).await;
        }
        let coordinator = nodes[0].clone().database(name);
        execute(&coordinator, &additions(&found)).await;
        Some(Self { coordinator, nodes, name: name.to_owned(), lock: conn })
    }

    /// The URL of the database on the coordinator.
    pub fn url(&self) -> String {
        self.coordinator.to_url_lossy().into()
    }

    /// The URL of each server's maintenance database, that of the coordinator first.
    pub fn servers(&self) -> Vec<String> {
        self.nodes.iter().map(|node| node.to_url_lossy().into()).collect()
    }

    /// Makes the servers count their tasks, in connections that are made afterwards.
    pub async fn count_tasks(&self) {
        for node in &self.nodes {
            let set = format!("ALTER DATABASE {} SET citus.enable_stat_counters = on", self.name);
            execute(node, &[ON_THIS_NODE.to_owned(), set]).await;
        }
    }

    /// The number of tasks that any server has sent to one that has a shard, itself among them.
    pub async fn tasks(&self) -> i64 {
        let mut sum = 0;
        for node in &self.nodes {
            let mut conn = node.connect().await.expect("the node responds");
            let sql = "SELECT query_execution_single_shard + query_execution_multi_shard FROM citus_stat_counters \
                       WHERE name = $1";
            let count = sqlx::query_scalar::<_, i64>(sql).bind(&self.name).fetch_optional(&mut conn).await;
            sum += count.expect("the cluster counts its statements").unwrap_or_default();
            conn.close().await.expect("the connection closes");
        }
        sum
    }

    pub async fn remove(self) {
        for node in &self.nodes {
            let name = &self.name;
            execute(node, &[ON_THIS_NODE.to_owned(), format!("DROP DATABASE {name} WITH (FORCE)")]).await;
        }
        self.lock.close().await.expect("the connection closes");
    }
}

/// The statements that make the first node the coordinator of the others.
fn additions(found: &[Found]) -> Vec<String> {
    let mut statements = Vec::new();
    for (n, (host, port, takes_shards)) in found.iter().enumerate() {
        let function = if n == 0 { "citus_set_coordinator_host" } else { "citus_add_node" };
        statements.push(format!("SELECT {function}('{host}', {port})"));
        statements.push(format!(
            "SELECT citus_set_node_property('{host}', {port}, 'shouldhaveshards', {takes_shards})"
        ));
    }
    statements
}
