#![no_main]

//! Runs statements generated from a grammar on a real SQLite and a real PostgreSQL: no result or error may contain the
//! secret in a table that does not belong to scripts. `BELVEDERE_TEST_POSTGRES_URL` names the PostgreSQL
//! (`tests/support/postgres.sh run cargo fuzz run script_sql`); without it only SQLite is tested, with a warning.

use std::sync::OnceLock;

use belvedere_storage::store::Db;
use belvedere_storage::store::script_sql;
use libfuzzer_sys::fuzz_target;
use serde_json::json;
use belvedere_standins::sql_statements::hostile::{SECRET, statement};
use tokio::runtime::Runtime;

const SERVER: &str = "BELVEDERE_TEST_POSTGRES_URL";

struct Fixture {
    runtime: Runtime,
    databases: Vec<Db>,
}

async fn open(url: &str) -> Db {
    let db = Db::open(url, 2).await.expect("the database opens");
    db.migrate().await.expect("the migrations apply");
    for sql in [
        "CREATE TABLE IF NOT EXISTS canary (secret text)".to_owned(),
        format!("INSERT INTO canary VALUES ('{SECRET}')"),
    ] {
        let sql = sqlx::AssertSqlSafe(sql);
        match &db {
            Db::Sqlite(db) => {
                drop(sqlx::query(sql).execute(&db.writer).await.expect("the secret is inserted"))
            }
            Db::Postgres(db) => {
                drop(sqlx::query(sql).execute(&db.pool).await.expect("the secret is inserted"))
            }
        }
    }
    for sql in [
        "CREATE TABLE IF NOT EXISTS script_own (x text, n integer)",
        "INSERT INTO script_own VALUES ('a', 1)",
    ] {
        script_sql::run(&db, sql, &[]).await.expect("the scripts' table is created");
    }
    db
}

fn fixture() -> &'static Fixture {
    static FIXTURE: OnceLock<Fixture> = OnceLock::new();
    FIXTURE.get_or_init(|| {
        let runtime = Runtime::new().expect("a runtime starts");
        let directory = std::env::temp_dir().join(format!("belvedere-fuzz-{}", std::process::id()));
        let mut urls = vec![format!("sqlite://{}/test.db", directory.display())];
        match std::env::var(SERVER) {
            Ok(url) => urls.push(url),
            Err(_) => eprintln!(
                "{SERVER} is not set: PostgreSQL is not tested. Run `tests/support/postgres.sh run cargo fuzz run script_sql`."
            ),
        }
        let databases = runtime.block_on(async {
            let mut databases = Vec::new();
            for url in &urls {
                databases.push(open(url).await);
            }
            databases
        });
        Fixture { runtime, databases }
    })
}

fuzz_target!(|data: &[u8]| {
    let fixture = fixture();
    let sql = statement(data);
    let params = if sql.contains("$1") { vec![json!("x")] } else { Vec::new() };
    for db in &fixture.databases {
        let output = match fixture.runtime.block_on(script_sql::run(db, &sql, &params)) {
            Ok(answer) => String::from_utf8_lossy(&answer.rows).into_owned(),
            Err(error) => error.to_string(),
        };
        assert!(!output.contains(SECRET), "{sql}: {output}");
    }
});
