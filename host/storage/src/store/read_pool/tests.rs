use belvedere_standins::postgres;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{Row as _, SqliteConnection};

use super::*;
use crate::store::Db;
use crate::store::error::is_timeout;
use crate::store::scans::SCAN_TIME_LIMIT;
use crate::store::script_sql::statement_limits;

/// SQLite uses a partial index for a bound parameter only if it may look at the parameter's value, and then
/// prepares the statement again for each value.
#[tokio::test]
async fn plans_do_not_look_at_parameters() {
    assert!(statement_limits::install());
    let pool = ReadPool::<SqliteConnection>::new(SqliteConnectOptions::new().in_memory(true), 1)
        .setup_statements(vec![
            "CREATE TABLE t (part INTEGER, n INTEGER)".to_owned(),
            "CREATE INDEX of_one ON t (n) WHERE part = 1".to_owned(),
        ]);
    let mut connection = pool.get().await.unwrap();
    let plan = async |connection: &mut SqliteConnection, sql: &'static str| {
        let row = sqlx::query(sql).bind(1).fetch_one(connection).await.unwrap();
        row.get::<String, _>("detail")
    };
    let bound = plan(&mut connection, "EXPLAIN QUERY PLAN SELECT n FROM t WHERE part = $1 AND n > 5").await;
    assert!(!bound.contains("of_one"), "{bound}");
    let literal = plan(&mut connection, "EXPLAIN QUERY PLAN SELECT n FROM t WHERE part = 1 AND n > $1").await;
    assert!(literal.contains("of_one"), "a literal selects the partial index: {literal}");
}

#[tokio::test]
async fn a_read_ends_at_its_deadline() {
    assert!(statement_limits::install());
    let sqlite = ReadPool::<SqliteConnection>::new(SqliteConnectOptions::new().in_memory(true), 1)
        .within(Duration::from_millis(20));
    let mut connection = sqlite.get().await.unwrap();
    let forever = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n";
    let error = sqlx::query(forever).fetch_one(&mut *connection).await.unwrap_err();
    let code =
        error.as_database_error().and_then(sqlx::error::DatabaseError::code).unwrap_or_default().into_owned();
    assert!(is_timeout(&code), "{error}");

    let url = postgres::create_database().await;
    let Db::Postgres(postgres) = Db::open(&url, 1).await.unwrap() else { panic!("{url} is PostgreSQL") };
    for (pool, time_limit) in
        [(&postgres.read_pools.hot, READ_TIME_LIMIT), (&postgres.read_pools.scans, SCAN_TIME_LIMIT)]
    {
        let mut connection = pool.get().await.unwrap();
        let timeout: String =
            sqlx::query_scalar("SHOW statement_timeout").fetch_one(&mut *connection).await.unwrap();
        assert_eq!(timeout, format!("{}s", time_limit.as_secs()));
        // A read that its caller has left ends.
        let check = "SHOW client_connection_check_interval";
        let interval: String = sqlx::query_scalar(check).fetch_one(&mut *connection).await.unwrap();
        assert_eq!(interval, CONNECTION_CHECK_INTERVAL);
    }
    postgres.close().await;
    postgres::drop_database(&url);
}
