//! Reads from streaming replicas of PostgreSQL. The tests start a primary and its replicas themselves.

mod failures;
mod own_writes;
mod settings;
mod which_reads;

use belvedere_standins::postgres::OwnServer;
use http::Method;
use serde_json::Value;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};

use crate::fixtures::World;
use crate::support::instance::Instance;

/// The name of the database.
const DATABASE: &str = "notes";

/// The largest bound, for replicas that a test holds back.
const PATIENT: (&str, &str) = ("DATABASE_READ_MAX_LAG_SECONDS", "300");

/// A primary with an empty database, and a replica with further settings.
async fn servers(settings: &[&str]) -> (OwnServer, OwnServer) {
    let primary = OwnServer::start().await;
    primary.execute("postgres", &format!("CREATE DATABASE {DATABASE}")).await;
    let replica = primary.replica(settings).await;
    (primary, replica)
}

/// A host on the primary with these replicas, which indexes and lists notes.
async fn world(primary: &OwnServer, replicas: &str, more: &[(&'static str, &str)]) -> World {
    let own = [&[("DATABASE_READ_URLS", replicas), ("RUST_LOG", "warn,belvedere=info")], more].concat();
    World::on_with(&primary.url(DATABASE), None, &own).await.with_notes().await
}

/// The replicas as a host shows them.
async fn replicas(server: &Instance) -> Vec<Value> {
    let overview = server.admin(Method::GET, "/admin/overview", None).await;
    overview.body["replicas"].as_array().unwrap_or_else(|| panic!("{}", overview.text)).clone()
}

async fn first(server: &Instance) -> Value {
    replicas(server).await.swap_remove(0)
}

/// Waits until a host uses its first replica, or does not.
async fn wait_until_used(server: &Instance, is_used: bool) {
    server
        .eventually(&format!("the replica is used: {is_used}"), async |server| {
            first(server).await["in_use"] == is_used
        })
        .await;
}

/// The statements that a host has sent to its first replica.
async fn reads(server: &Instance) -> u64 {
    first(server).await["reads"].as_u64().unwrap()
}

/// The value that a query gives on a database server.
async fn value<T>(server: &OwnServer, sql: &str) -> T
where
    T: Send + Unpin + for<'r> sqlx::Decode<'r, sqlx::Postgres> + sqlx::Type<sqlx::Postgres>,
{
    let mut conn = PgConnection::connect(&server.url(DATABASE)).await.unwrap();
    let found = sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(&mut conn).await.unwrap();
    conn.close().await.unwrap();
    found
}

/// Makes a replica stay at the primary's present state.
async fn hold(primary: &OwnServer, replica: &OwnServer) {
    // A message of a transaction is flushed with it, and only what is flushed reaches a replica.
    let sql = "SELECT pg_logical_emit_message(true, 'test', 'x')::text";
    let present: String = value(primary, sql).await;
    let has_replayed = format!("SELECT pg_last_wal_replay_lsn() >= '{present}'::pg_lsn");
    while !value::<bool>(replica, &has_replayed).await {}
    replica.execute(DATABASE, "SELECT pg_wal_replay_pause()").await;
    loop {
        // It pauses when the next change arrives.
        primary.execute(DATABASE, "SELECT pg_logical_emit_message(false, 'test', 'x')").await;
        if value::<String>(replica, "SELECT pg_get_wal_replay_pause_state()").await == "paused" {
            return;
        }
    }
}

async fn go_on(replica: &OwnServer) {
    replica.execute(DATABASE, "SELECT pg_wal_replay_resume()").await;
}
