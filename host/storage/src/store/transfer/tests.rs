use belvedere_standins::database::Database;
use serde_json::json;
use sqlx::{AssertSqlSafe, Connection as _};
use tokio::sync::mpsc;

use super::catalog::{Space, Table};
use super::value::Kind;
use super::*;
use crate::store::records::collection_counts;
use crate::store::script_sql;
use belvedere_web::fair_share::Tenant;

const ROLE: ScriptRole = ScriptRole::Own { password: None };

async fn migrated(url: &str) -> Db {
    let db = Db::open(url, 4).await.unwrap();
    db.migrate().await.unwrap();
    db
}

async fn move_to(source: &str, target: &str) -> Result<Report, MoveError> {
    let target = Target { url: target, resources: Resources::little(4), role: &ROLE };
    run(source, target, |_| {}, async |_| Ok(())).await
}

async fn execute(db: &Db, sql: &str) {
    let sql = AssertSqlSafe(sql.to_owned());
    match db {
        Db::Sqlite(db) => drop(sqlx::raw_sql(sql).execute(&db.writer).await.unwrap()),
        Db::Postgres(db) => drop(sqlx::raw_sql(sql).execute(&db.pool).await.unwrap()),
    }
}

async fn count(db: &Db, table: &str) -> i64 {
    let sql = AssertSqlSafe(format!("SELECT count(*) FROM {table}"));
    match db {
        Db::Sqlite(db) => sqlx::query_scalar(sql).fetch_one(&db.writer).await.unwrap(),
        Db::Postgres(db) => sqlx::query_scalar(sql).fetch_one(&db.pool).await.unwrap(),
    }
}

/// Puts a row into every table of the server, whichever there are. All texts are the same and so are all numbers, so that
/// foreign keys refer to something.
async fn fill_every_table(db: &Db, tables: &[Table]) {
    execute(db, "PRAGMA foreign_keys = off").await;
    for table in tables {
        let names = table.columns.iter().map(|column| format!("\"{}\"", column.name));
        let values = table.columns.iter().map(|column| match column.kind {
            Kind::Bool | Kind::Int => "1",
            Kind::Float | Kind::Numeric => "1.5",
            Kind::Text => "'é\t\\x\n'",
            Kind::Bytes => "x'00ff0a'",
            Kind::Json => r#"'{"text":"a\nb \\ \u00e9","n":[1,null,true],"$type":"com.example.note"}'"#,
        });
        let (names, values): (Vec<_>, Vec<_>) = (names.collect(), values.collect());
        let sql =
            format!("INSERT INTO \"{}\" ({}) VALUES ({})", table.name, names.join(", "), values.join(", "));
        execute(db, &sql).await;
    }
}

/// Every table of the catalog: a migration that adds one needs no change here, nor in the code.
#[tokio::test]
async fn every_table_is_moved_there_and_back() {
    let (a, b, c) = (Database::new_sqlite(), Database::new_postgres().await, Database::new_sqlite());
    let empty = Database::new_postgres().await;
    let db = migrated(&a.url).await;
    migrated(&empty.url).await.close().await;
    let mut ends = (
        Place::of(&a.url).unwrap().open(false).await.unwrap(),
        Place::of(&empty.url).unwrap().open(false).await.unwrap(),
    );
    let (sqlite, postgres) = (ends.0.catalog().await.unwrap(), ends.1.catalog().await.unwrap());
    assert_eq!(sqlite.keys().collect::<Vec<_>>(), postgres.keys().collect::<Vec<_>>());
    let tables = catalog::pair(&sqlite, &postgres, false).unwrap();
    assert_eq!(tables, catalog::pair(&postgres, &sqlite, true).unwrap(), "no column is on one side only");
    assert!(tables.iter().all(|table| table.space == Space::Server));
    // Left out are sqlx's table, which the target has of its own, and the counts, which its triggers make.
    assert_eq!(
        tables.len() as i64 + 3,
        count(&db, "sqlite_schema WHERE type = 'table' AND name <> 'sqlite_sequence'").await
    );
    fill_every_table(&db, &tables).await;
    db.close().await;

    let there = move_to(&a.url, &b.url).await.unwrap();
    assert_eq!(there.tables.len(), tables.len());
    for (name, sum) in &there.tables {
        assert!(sum.rows > 0, "{name} was not filled");
    }
    let back = move_to(&b.url, &c.url).await.unwrap();
    assert_eq!(there.tables, back.tables);
    assert_eq!((there.replaced, there.notices.len(), back.notices.len()), (0, 0, 0));

    // Byte for byte, records included.
    let record = async |url: &str| -> String {
        let Db::Sqlite(db) = Db::open(url, 1).await.unwrap() else { unreachable!("it is SQLite") };
        sqlx::query_scalar("SELECT record FROM records").fetch_one(&db.reader).await.unwrap()
    };
    let original = record(&a.url).await;
    assert_eq!(record(&c.url).await, original);

    // PostgreSQL keeps no text of records that a version before 0050 has written.
    let d = Database::new_sqlite();
    let moved = Db::open(&b.url, 1).await.unwrap();
    execute(&moved, "UPDATE records SET record_text = NULL").await;
    moved.close().await;
    move_to(&b.url, &d.url).await.unwrap();
    let made = record(&d.url).await;
    let values = [&made, &original].map(|text| serde_json::from_str::<serde_json::Value>(text).unwrap());
    assert_eq!(values[0], values[1]);
    assert!(made != original && !made.contains(": "), "without PostgreSQL's spaces: {made}");
}

/// Sequences continue, indexes and foreign keys are there again, and the planner finds them.
#[tokio::test]
async fn the_target_works_like_a_new_database() {
    let (a, b) = (Database::new_sqlite(), Database::new_postgres().await);
    let db = migrated(&a.url).await;
    execute(
        &db,
        "INSERT INTO dids (id, did) VALUES (7, 'did:plc:a'); INSERT INTO collections VALUES (3, 'a.b.c')",
    )
    .await;
    db.close().await;
    move_to(&a.url, &b.url).await.unwrap();

    let fresh = Database::new_postgres().await;
    let (moved, fresh) = (Db::open(&b.url, 2).await.unwrap(), migrated(&fresh.url).await);
    let indexes = async |db: &Db, sql: &'static str| -> Vec<String> {
        let Db::Postgres(db) = db else { unreachable!("it is PostgreSQL") };
        sqlx::query_scalar(sql).fetch_all(&db.pool).await.unwrap()
    };
    for sql in [
        "SELECT pg_get_indexdef(indexrelid) FROM pg_index WHERE indisvalid AND indrelid::regclass::text NOT LIKE 'pg_%' ORDER BY 1",
        "SELECT conrelid::regclass || pg_get_constraintdef(oid) FROM pg_constraint WHERE contype = 'f' AND convalidated ORDER BY 1",
    ] {
        let expected = indexes(&fresh, sql).await;
        assert!(expected.len() > 5);
        assert_eq!(indexes(&moved, sql).await, expected);
    }
    execute(&moved, "INSERT INTO dids (did) VALUES ('did:plc:b')").await;
    let new: i64 = match &moved {
        Db::Postgres(db) => sqlx::query_scalar("SELECT id FROM dids WHERE did = 'did:plc:b'")
            .fetch_one(&db.pool)
            .await
            .unwrap(),
        Db::Sqlite(_) => unreachable!("it is PostgreSQL"),
    };
    assert_eq!(new, 8);
    assert_eq!(moved.pending_migrations().await.unwrap(), 0);
}

const OWN: &str = "CREATE TABLE script_own (id INTEGER PRIMARY KEY, name TEXT NOT NULL DEFAULT 'it''s', done BOOLEAN, \
     data JSON, blob BLOB, amount REAL, mixed INTEGER, UNIQUE (name, done))";

#[tokio::test]
async fn tables_of_scripts_keep_their_rows_keys_and_indexes() {
    let (a, b, c) = (Database::new_sqlite(), Database::new_postgres().await, Database::new_sqlite());
    let db = migrated(&a.url).await;
    for sql in [
        OWN,
        "CREATE INDEX script_own_amount ON script_own (amount DESC, name)",
        "CREATE INDEX script_own_part ON script_own (name) WHERE done",
        "INSERT INTO script_own VALUES (5, 'a', TRUE, '{\"x\": [1, 2]}', NULL, 1.5, 'text')",
        "INSERT INTO script_own (done, amount, mixed) VALUES (FALSE, 2, 9007199254740993)",
    ] {
        script_sql::run(&db, &Tenant::Instance, sql, &[]).await.unwrap();
    }
    db.close().await;
    let there = move_to(&a.url, &b.url).await.unwrap();
    let notices = there.notices.join("\n");
    assert!(notices.contains("script_own_part") && notices.contains("mixed"), "{notices}");
    assert_eq!(there.notices.len(), 2, "{notices}");
    let back = move_to(&b.url, &c.url).await.unwrap();
    assert_eq!(there.tables, back.tables);

    for url in [&b.url, &c.url] {
        let db = Db::open(url, 2).await.unwrap();
        let run = async |sql: &str| script_sql::run(&db, &Tenant::Instance, sql, &[]).await;
        // Scripts own the table, and its key goes on by itself.
        run("INSERT INTO script_own (done) VALUES (TRUE)").await.unwrap();
        let rows = run("SELECT id, name, done, data, mixed FROM script_own ORDER BY id").await.unwrap();
        let rows: serde_json::Value = serde_json::from_slice(&rows.rows).unwrap();
        assert_eq!(rows[0]["data"], json!({ "x": [1, 2] }), "{url}");
        assert_eq!((&rows[0]["mixed"], &rows[1]["mixed"]), (&json!("text"), &json!("9007199254740993")));
        assert_eq!((&rows[2]["id"], &rows[2]["name"]), (&json!(7), &json!("it's")), "{rows}");
        let twice = run("INSERT INTO script_own (done) VALUES (TRUE)").await.unwrap_err().to_string();
        assert!(twice.to_lowercase().contains("unique"), "{twice}");
        run("DROP INDEX script_own_amount").await.unwrap();
        run("ALTER TABLE script_own DROP COLUMN amount").await.unwrap();
    }
}

#[tokio::test]
async fn what_postgres_can_not_store_is_replaced_and_counted() {
    let (a, b) = (Database::new_sqlite(), Database::new_postgres().await);
    let db = migrated(&a.url).await;
    execute(
        &db,
        "INSERT INTO records VALUES (1, 1, 1, 'r', NULL, 1, 1, 1, 1, '{\"a\":\"x\\u0000\\\\u0000\"}'); \
         INSERT INTO events (created_at, id, event_type, severity, actor_did, subject, detail) VALUES (1, 'e', 'a.b', 'info', NULL, 'nul' || char(0), '{}'); \
         INSERT INTO events (created_at, id, event_type, severity, actor_did, subject, detail) VALUES (2, 'e', 'a.b', 'info', NULL, CAST(x'ff41' AS TEXT), '{}')",
    )
    .await;
    db.close().await;
    let report = move_to(&a.url, &b.url).await.unwrap();
    assert_eq!(report.replaced, 2);
    let Db::Postgres(db) = Db::open(&b.url, 1).await.unwrap() else { unreachable!("it is PostgreSQL") };
    let text: String =
        sqlx::query_scalar("SELECT record ->> 'a' FROM records").fetch_one(&db.pool).await.unwrap();
    assert_eq!(text, "x\u{fffd}\\u0000");
    let subjects: Vec<String> = sqlx::query_scalar("SELECT subject FROM events ORDER BY created_at")
        .fetch_all(&db.pool)
        .await
        .unwrap();
    assert_eq!(subjects, ["nul\u{fffd}", "\u{fffd}A"]);
}

/// Stops a move at every kind of moment, for both directions: the target says so, and the next move completes it.
#[tokio::test]
async fn an_interrupted_move_is_noticed_and_begins_again() {
    for to_postgres in [true, false] {
        let (sqlite, postgres) = (Database::new_sqlite(), Database::new_postgres().await);
        let (from, to) = if to_postgres { (&sqlite, &postgres) } else { (&postgres, &sqlite) };
        let db = migrated(&from.url).await;
        script_sql::run(&db, &Tenant::Instance, "CREATE TABLE script_own (n INTEGER)", &[]).await.unwrap();
        script_sql::run(&db, &Tenant::Instance, "INSERT INTO script_own VALUES (1)", &[]).await.unwrap();
        for n in 0..3 * BATCH_ROWS / 500 {
            let values: Vec<String> = (0..500).map(|i| format!("('k{n}.{i}', 'v', 1)")).collect();
            execute(&db, &format!("INSERT INTO settings VALUES {}", values.join(", "))).await;
        }
        execute(
            &db,
            "INSERT INTO collections (nsid) VALUES ('com.example.note');
             INSERT INTO dids (did, status) VALUES ('did:plc:a', 0), ('did:plc:b', 1)",
        )
        .await;
        let verified = if to_postgres { "0" } else { "false" };
        for (did, key) in [(1, "a"), (1, "b"), (2, "a")] {
            execute(
                &db,
                &format!(
                    "INSERT INTO records \
                         (collection_id, did_id, rkey, cid_verified, rev, indexed_at, updated_at, record) \
                     VALUES (1, {did}, '{key}', {verified}, 1, 1, 1, '{{}}')"
                ),
            )
            .await;
        }
        db.close().await;
        for stop_at in ["copying", "building indexes", "comparing", "indexes of record fields"] {
            let (stop, mut stopped) = mpsc::channel(1);
            let target = Target { url: &to.url, resources: Resources::little(2), role: &ROLE };
            let report = |progress: &Progress| {
                if progress.stage == stop_at
                    && (progress.table == "settings"
                        || progress.table.is_empty()
                        || stop_at.starts_with("build"))
                {
                    let _ = stop.try_send(());
                }
            };
            // The move never comes back to life: as after kill -9, its connections end.
            tokio::select! {
                biased;
                _ = stopped.recv() => {}
                moved = run(&from.url, target, report, async |_| Ok(())) => panic!("{stop_at}: {moved:?}"),
            }
            let refused = Db::open(&to.url, 1).await.unwrap_err().to_string();
            assert!(
                refused.contains("incomplete") && refused.contains("belvedere move"),
                "{stop_at}: {refused}"
            );
        }
        let report = move_to(&from.url, &to.url).await.unwrap();
        assert!(
            report
                .tables
                .iter()
                .any(|(name, sum)| name == "settings" && sum.rows > 3 * BATCH_ROWS as u64 - 500)
        );
        let db = Db::open(&to.url, 1).await.unwrap();
        assert!(count(&db, "settings").await >= 11_500);
        let counted = collection_counts(&db).await.unwrap();
        assert_eq!(counted.iter().map(|of| of.records).collect::<Vec<_>>(), [2]);
        let own = script_sql::run(&db, &Tenant::Instance, "SELECT n FROM script_own", &[]).await.unwrap();
        assert_eq!(own.count, 1);
        db.close().await;
        assert!(matches!(move_to(&from.url, &to.url).await, Err(MoveError::TargetUsed)));
    }
}

#[tokio::test]
async fn a_source_in_use_and_a_wrong_target_are_refused() {
    let (a, b, c) = (Database::new_postgres().await, Database::new_sqlite(), Database::new_postgres().await);
    let server = migrated(&a.url).await;
    let refused = move_to(&a.url, &b.url).await.unwrap_err();
    assert!(matches!(refused, MoveError::SourceInUse), "{refused}");
    server.close().await;
    assert!(matches!(move_to(&a.url, &c.url).await, Err(MoveError::SameKind)));
    // A table of another program is not left behind silently.
    let mut connection = sqlx::PgConnection::connect(&a.url).await.unwrap();
    sqlx::raw_sql("CREATE TABLE mine (a INTEGER)").execute(&mut connection).await.unwrap();
    let refused = move_to(&a.url, &b.url).await.unwrap_err().to_string();
    assert!(refused.contains(": mine."), "{refused}");
    sqlx::raw_sql("DROP TABLE mine").execute(&mut connection).await.unwrap();
    // Nor is a column, though it has the name of the text beside the records' value.
    sqlx::raw_sql("ALTER TABLE settings ADD COLUMN record_text TEXT").execute(&mut connection).await.unwrap();
    let refused = move_to(&a.url, &b.url).await.unwrap_err().to_string();
    assert!(refused.contains(": settings.record_text."), "{refused}");
    sqlx::raw_sql("ALTER TABLE settings DROP COLUMN record_text").execute(&mut connection).await.unwrap();
    // Neither is a target overwritten that has anything.
    let mut other = sqlx::PgConnection::connect(&c.url).await.unwrap();
    sqlx::raw_sql("CREATE VIEW something AS SELECT 1 AS a").execute(&mut other).await.unwrap();
    move_to(&a.url, &b.url).await.unwrap();
    assert!(matches!(move_to(&b.url, &c.url).await, Err(MoveError::TargetUsed)));
}

/// A row that arrives otherwise than it was sent is noticed.
#[tokio::test]
async fn a_difference_is_an_error_and_the_target_stays_incomplete() {
    let (a, b) = (Database::new_sqlite(), Database::new_postgres().await);
    let db = migrated(&a.url).await;
    execute(&db, "INSERT INTO settings VALUES ('key', 'value', 1)").await;
    db.close().await;
    let target = Target { url: &b.url, resources: Resources::little(2), role: &ROLE };
    let (tell, told) = std::sync::mpsc::channel();
    let other = std::thread::spawn({
        let url = b.url.clone();
        move || {
            told.recv().unwrap();
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let mut connection = sqlx::PgConnection::connect(&url).await.unwrap();
                let sql = "UPDATE settings SET value = 'other' WHERE key = 'key'";
                sqlx::raw_sql(sql).execute(&mut connection).await.unwrap();
                connection.close().await.unwrap();
            });
        }
    });
    let mut other = Some(other);
    let report = |progress: &Progress| {
        if progress.stage == "building indexes"
            && let Some(other) = other.take()
        {
            tell.send(()).unwrap();
            other.join().unwrap();
        }
    };
    let error = run(&a.url, target, report, async |_| Ok(())).await.unwrap_err();
    assert!(matches!(&error, MoveError::Differs { table, .. } if table == "settings"), "{error}");
    Db::open(&b.url, 1).await.unwrap_err();
}
