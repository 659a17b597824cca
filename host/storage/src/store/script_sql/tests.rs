//! Tests that each of the two walls is enough: the guard refuses the hostile statements without a database, and the
//! database refuses them without the guard.

mod reads;

use serde_json::json;
use sqlx::{AssertSqlSafe, Executor, SqliteConnection};

use super::authorizer::{self, Rights};
use super::guard::{self, Catalog};
use crate::store::testing::{self, TestDb};
use crate::store::{Backend, Db};
use belvedere_web::fair_share::Tenant;

const SECRET: &str = "canary-b7d1f0";

/// Statements that read or change the table `{t}`, which does not belong to scripts. The table `{own}` does.
const ON_A_TABLE: &[&str] = &[
    "SELECT * FROM {t}",
    "SELECT secret FROM {t}",
    "SELECT c.secret FROM {t} AS c",
    "SELECT count(*) FROM {t}",
    "SELECT 1 FROM {t}",
    "SELECT (SELECT secret FROM {t} LIMIT 1)",
    "SELECT 1 WHERE EXISTS (SELECT 1 FROM {t})",
    "SELECT 1 LIMIT (SELECT count(*) FROM {t})",
    "SELECT 1 ORDER BY (SELECT secret FROM {t})",
    "SELECT 1 UNION SELECT secret FROM {t}",
    "SELECT count(*) OVER (ORDER BY (SELECT secret FROM {t}))",
    "WITH records AS (SELECT * FROM {t}) SELECT * FROM records",
    "WITH records_lean(uri) AS (SELECT secret FROM {t}) SELECT uri FROM records_lean",
    "WITH own_columns AS (SELECT * FROM {t}) SELECT * FROM own_columns",
    "WITH script_x AS (SELECT * FROM {t}) SELECT * FROM script_x",
    "WITH cte_1 AS (SELECT * FROM {t}) SELECT * FROM cte_1",
    "WITH RECURSIVE r(s) AS (SELECT secret FROM {t} UNION SELECT s FROM r) SELECT s FROM r",
    "SELECT * FROM (SELECT * FROM {t}) AS records",
    "SELECT * FROM (WITH records AS (SELECT * FROM {t}) SELECT * FROM records) AS x",
    "SELECT s.secret FROM {own} AS o LEFT JOIN {t} AS s ON 1 = 1",
    "INSERT INTO {own} SELECT secret, 1 FROM {t}",
    "INSERT INTO {own} VALUES ((SELECT secret FROM {t}), 1)",
    "INSERT INTO {own} VALUES ('b', 1) RETURNING (SELECT secret FROM {t})",
    "INSERT INTO {own} VALUES ('a', 1) ON CONFLICT (x) DO UPDATE SET x = (SELECT secret FROM {t})",
    "UPDATE {own} SET x = (SELECT secret FROM {t})",
    "UPDATE {own} SET x = s.secret FROM {t} AS s",
    "DELETE FROM {own} WHERE x IN (SELECT secret FROM {t})",
    "EXPLAIN SELECT secret FROM {t}",
    "CREATE TABLE script_copy AS SELECT * FROM {t}",
    "CREATE VIEW script_v AS SELECT * FROM {t}",
    "CREATE TEMP VIEW script_v AS SELECT * FROM {t}",
    "CREATE TEMP VIEW records AS SELECT * FROM {t}",
    "CREATE TEMP TABLE script_copy AS SELECT * FROM {t}",
    "CREATE TRIGGER script_g AFTER INSERT ON {own} BEGIN UPDATE script_own SET x = (SELECT secret FROM {t}); END",
    "CREATE TEMP TRIGGER records AFTER INSERT ON {own} BEGIN UPDATE script_own SET x = (SELECT secret FROM {t}); END",
    "CREATE TABLE script_copy (x text DEFAULT (SELECT secret FROM {t}))",
    "CREATE TABLE script_copy (x text CHECK (x IN (SELECT secret FROM {t})))",
    "CREATE INDEX script_i ON {own} ((SELECT secret FROM {t}))",
    "CREATE INDEX script_i ON {own} (x) WHERE x IN (SELECT secret FROM {t})",
    "CREATE INDEX script_i ON {t} (secret)",
    "INSERT INTO {t} VALUES ('x')",
    "UPDATE {t} SET secret = ''",
    "DELETE FROM {t}",
    "DROP TABLE {t}",
    "ALTER TABLE {t} ADD COLUMN script_x text",
    "ALTER TABLE {t} RENAME TO script_mine",
];

/// Other statements that go beyond what scripts may do, on SQLite.
const ON_SQLITE: &[&str] = &[
    "SELECT sql FROM sqlite_schema",
    "SELECT sql FROM SQLITE_MASTER",
    "SELECT sql FROM main.sqlite_master",
    "SELECT sql FROM belvedere.sqlite_master",
    "SELECT sql FROM belvedere.sqlite_schema",
    "SELECT sql FROM temp.sqlite_schema",
    "SELECT sql FROM sqlite_temp_master",
    "SELECT sql FROM sqlite_temp_schema",
    "WITH records AS (SELECT sql FROM belvedere.sqlite_schema) SELECT * FROM records",
    "SELECT * FROM pragma_table_info('api_keys')",
    "SELECT * FROM pragma_table_list",
    "SELECT * FROM pragma_database_list",
    "SELECT * FROM dbstat",
    "SELECT * FROM sqlite_dbpage",
    "SELECT * FROM sqlite_stmt",
    "SELECT * FROM bytecode('SELECT 1')",
    "SELECT * FROM belvedere.records",
    "SELECT * FROM belvedere.script_variables",
    "SELECT count(*) FROM script_variables",
    "SELECT did FROM belvedere.dids",
    "PRAGMA query_only = off",
    "PRAGMA writable_schema = on",
    "PRAGMA table_list",
    "PRAGMA belvedere.table_info(api_keys)",
    "PRAGMA trusted_schema = on",
    "PRAGMA max_page_count = 1000000",
    "ATTACH DATABASE '/tmp/x' AS x",
    "ATTACH ':memory:' AS records",
    "DETACH DATABASE belvedere",
    "VACUUM",
    "VACUUM INTO '/tmp/belvedere-copy'",
    "BEGIN",
    "SAVEPOINT x",
    "COMMIT",
    "ANALYZE",
    "ANALYZE belvedere.records",
    "REINDEX belvedere.records_list",
    "SELECT load_extension('x')",
    "SELECT fts3_tokenizer('simple')",
    "SELECT readfile('/etc/passwd')",
    "SELECT writefile('/tmp/x', 'y')",
    "SELECT zeroblob(10)",
    "SELECT printf('%d', 1)",
    "SELECT sqlite_rename_test('main', '', 'table', 'x', 0, '', 0)",
    "SELECT sqlite_compileoption_get(1)",
    "CREATE TABLE records (uri text)",
    "CREATE TABLE own_columns (uri text)",
    "CREATE TEMP TABLE script_x (a text)",
    "CREATE TABLE temp.script_x (a text)",
    "CREATE TABLE belvedere.script_x (a text)",
    "CREATE VIEW records AS SELECT 1",
    "CREATE VIRTUAL TABLE script_v USING fts5(a)",
    "CREATE INDEX belvedere.script_i ON api_keys (key_hash)",
    "CREATE TRIGGER belvedere.script_g AFTER INSERT ON api_keys BEGIN DELETE FROM api_keys; END",
    "CREATE TEMP TRIGGER script_g AFTER INSERT ON belvedere.api_keys BEGIN SELECT 1; END",
    "CREATE VIEW belvedere.script_v AS SELECT 1",
    "DROP INDEX belvedere.records_list",
    "DROP VIEW temp.records",
    "DROP TABLE sqlite_sequence",
    "INSERT INTO sqlite_schema VALUES ('table', 'x', 'x', 0, '')",
    "UPDATE main.sqlite_master SET sql = ''",
    "ALTER TABLE script_own RENAME TO \"sqlite_x\"",
];

/// The same on PostgreSQL.
const ON_POSTGRES: &[&str] = &[
    "SELECT * FROM public.api_keys",
    "TABLE public.api_keys",
    "SELECT * FROM pg_catalog.pg_authid",
    "SELECT * FROM pg_shadow",
    "SELECT pg_read_file('PG_VERSION')",
    "SELECT * FROM pg_ls_dir('.')",
    "SELECT lo_import('/etc/hostname')",
    "SELECT dblink('host=x', 'SELECT 1')",
    "SELECT query_to_xml('SELECT * FROM public.api_keys', true, true, '')",
    "SELECT table_to_xml('public.api_keys', true, true, '')",
    "SELECT * FROM ts_stat('SELECT key_hash::tsvector FROM public.api_keys')",
    "SELECT t.ts_stat FROM unnest(ARRAY['SELECT key_hash::tsvector FROM public.api_keys']) AS t",
    "SELECT current_setting('data_directory')",
    "COPY public.api_keys TO STDOUT",
    "COPY script_tables.script_own FROM PROGRAM 'id'",
    "SET ROLE postgres",
    "SET SESSION AUTHORIZATION postgres",
    "CREATE TABLE public.script_x (a text)",
    "CREATE SCHEMA script_s",
    "CREATE FUNCTION public.f() RETURNS int LANGUAGE sql AS 'SELECT 1'",
    "CREATE OR REPLACE VIEW script_views.labels AS SELECT key_hash AS src FROM public.api_keys",
    "DROP VIEW script_views.records",
    "ALTER VIEW script_views.records OWNER TO CURRENT_USER",
    "LOCK TABLE public.records",
    "MERGE INTO script_tables.script_own USING public.api_keys ON true WHEN MATCHED THEN DELETE",
];

fn with_table(form: &str, own: &str, table: &str) -> String {
    form.replace("{own}", own).replace("{t}", table)
}

fn hostile(own: &str, tables: &[&str], others: &[&str]) -> Vec<String> {
    let on_a_table =
        tables.iter().flat_map(|table| ON_A_TABLE.iter().map(|form| with_table(form, own, table)));
    on_a_table.chain(others.iter().map(|sql| (*sql).to_owned())).collect()
}

async fn with_secret(db: &TestDb) {
    for sql in
        ["CREATE TABLE canary (secret text)".to_owned(), format!("INSERT INTO canary VALUES ('{SECRET}')")]
    {
        match &**db {
            Db::Sqlite(db) => drop(db.writer.execute(AssertSqlSafe(sql)).await.unwrap()),
            Db::Postgres(db) => drop(db.pool.execute(AssertSqlSafe(sql)).await.unwrap()),
        }
    }
    super::run(db, &Tenant::Instance, "CREATE TABLE script_own (x text UNIQUE, n integer)", &[])
        .await
        .unwrap();
    super::run(db, &Tenant::Instance, "INSERT INTO script_own VALUES ('a', 1)", &[]).await.unwrap();
}

#[test]
fn the_guard_alone_refuses_hostile_statements() {
    let mut catalog = Catalog::default();
    catalog.add("script_own", "x", false);
    catalog.add("script_own", "n", false);
    for (backend, others) in [(Backend::Sqlite, ON_SQLITE), (Backend::Postgres, ON_POSTGRES)] {
        let tables = [
            "canary",
            "Canary",
            "\"canary\"",
            "public.canary",
            "belvedere.canary",
            "main.canary",
            "temp.canary",
        ];
        for sql in hostile("script_own", &tables, others) {
            if let Ok(statement) = guard::check(&sql, &[], backend, &catalog) {
                panic!("{backend:?} {sql} became {}", statement.sql);
            }
        }
        let refused = guard::check("SELECT secret FROM canary", &[], backend, &catalog).unwrap_err();
        assert!(refused.to_string().contains("table canary"), "{refused}");
    }
}

async fn refused_by_sqlite(connection: &mut SqliteConnection, sql: &str) -> String {
    match connection.fetch_all(AssertSqlSafe(sql.to_owned())).await {
        Err(refused) => refused.to_string(),
        Ok(rows) => panic!("{sql} has {} rows", rows.len()),
    }
}

/// Hostile statements that fail before the authorizer is asked, as SQLite has no such thing or syntax, with its error.
const FAIL_EARLIER: [(&str, &str); 14] = [
    ("CREATE INDEX script_i ON belvedere.", "near \".\": syntax error"),
    ("CREATE INDEX script_i ON BELVEDERE.", "near \".\": syntax error"),
    ("CREATE INDEX script_i ON ", "no such table: main."),
    ("CREATE INDEX script_i ON script_own ", "subqueries prohibited in"),
    ("CREATE TABLE script_copy (x text CHECK ", "subqueries prohibited in"),
    ("CREATE TABLE script_copy (x text DEFAULT (SELECT", "near \"SELECT\": syntax error"),
    ("SELECT * FROM sqlite_dbpage", "no such table: sqlite_dbpage"),
    ("SELECT * FROM sqlite_stmt", "no such table: sqlite_stmt"),
    ("SELECT * FROM bytecode(", "no such table: bytecode"),
    ("SELECT readfile(", "no such function: readfile"),
    ("SELECT writefile(", "no such function: writefile"),
    ("INSERT INTO sqlite_schema", "may not be modified"),
    ("UPDATE main.sqlite_master", "may not be modified"),
    ("ALTER TABLE script_own RENAME TO \"sqlite_x\"", "reserved for internal use"),
];

/// Whether the authorizer refused. A statement that fails for another reason could pass in another form.
fn is_refusal(sql: &str, error: &str) -> bool {
    let unauthorized = ["is prohibited", "not authorized", "authorization denied"];
    unauthorized.iter().any(|text| error.contains(text))
        || FAIL_EARLIER.iter().any(|(start, text)| sql.starts_with(start) && error.contains(text))
}

#[tokio::test]
async fn sqlite_alone_refuses_hostile_statements() {
    let db = testing::sqlite().await;
    with_secret(&db).await;
    let Db::Sqlite(sqlite) = &*db else { unreachable!("the test opened SQLite") };
    let tables = ["canary", "Canary", "\"canary\"", "[canary]", "belvedere.canary", "BELVEDERE.\"canary\""];
    let statements = hostile("script_own", &tables, ON_SQLITE);
    let mut reader = sqlite.script_sql.readers.get().await.unwrap();
    let mut writer = sqlite.script_sql.writers.get().await.unwrap();
    let mut other_errors = Vec::new();
    for sql in &statements {
        authorizer::allow(&mut writer, Rights::Write).await.unwrap();
        for refused in [refused_by_sqlite(&mut reader, sql).await, refused_by_sqlite(&mut writer, sql).await]
        {
            if !is_refusal(sql, &refused) {
                other_errors.push(format!("{sql}: {refused}"));
            }
        }
    }
    authorizer::allow(&mut writer, Rights::Define).await.unwrap();
    // A statement that defines a table may read the definitions of own tables, as SQLite itself does for it.
    let reads_definitions = |sql: &str| {
        (sql.contains("FROM main.") || sql.starts_with("SELECT sql FROM")) && !sql.contains("belvedere.")
    };
    for sql in statements.iter().filter(|sql| !reads_definitions(sql)) {
        if !sql.starts_with("SELECT printf") && !sql.starts_with("SELECT sqlite_rename") {
            let refused = refused_by_sqlite(&mut writer, sql).await;
            if !is_refusal(sql, &refused) {
                other_errors.push(format!("{sql}, with the right to define: {refused}"));
            }
        }
    }
    assert_eq!(other_errors, Vec::<String>::new());
    for table in tables {
        let refused = refused_by_sqlite(&mut reader, &format!("SELECT secret FROM {table}")).await;
        assert!(refused.contains("canary.secret is prohibited"), "{refused}");
    }
    let refused = refused_by_sqlite(&mut reader, "SELECT load_extension('x')").await;
    assert!(refused.contains("not authorized to use function: load_extension"), "{refused}");

    // The views and the own tables are not refused.
    for sql in [
        "SELECT count(*) FROM temp.records",
        "SELECT * FROM temp.records r, temp.labels l, temp.record_refs, temp.lexicons WHERE r.uri = l.uri",
        "WITH records AS (SELECT uri FROM temp.records_lean) SELECT count(*) FROM records r, main.script_own",
        "SELECT e.value FROM main.script_own o, json_each(json_array(o.x)) e",
        "SELECT o.x FROM main.script_own o LEFT JOIN temp.records r ON 1 = 1",
        "SELECT count(*) FROM main.script_own o LEFT JOIN temp.record_refs f ON o.x > 0",
        "SELECT DISTINCT o.x FROM main.script_own o LEFT JOIN temp.labels l ON 1 = 1",
    ] {
        reader.fetch_all(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
    let found = super::run(&db, &Tenant::Instance, "SELECT x FROM script_own", &[]).await.unwrap();
    assert_eq!(serde_json::from_slice::<serde_json::Value>(&found.rows).unwrap(), json!([{ "x": "a" }]));
}

#[tokio::test]
async fn the_role_alone_refuses_hostile_statements() {
    let db = testing::postgres().await;
    with_secret(&db).await;
    let Db::Postgres(postgres) = &*db else { unreachable!("the test opened PostgreSQL") };
    let statements =
        hostile("script_tables.script_own", &["public.canary", "public.\"canary\""], ON_POSTGRES);
    let connections = &postgres.script_sql;
    for pool in [&connections.readers, &connections.cheap, &connections.writers] {
        let mut connection = pool.get().await.unwrap();
        for sql in &statements {
            // PostgreSQL checks the rights of a view when it is read.
            if let Ok(rows) = connection.fetch_all(AssertSqlSafe(sql.clone())).await {
                assert!(
                    sql.starts_with("CREATE TEMP VIEW") && rows.is_empty(),
                    "{sql} has {} rows",
                    rows.len()
                );
                let view = if sql.contains("records") { "records" } else { "script_v" };
                let read = format!("SELECT * FROM pg_temp.{view}");
                let refused = connection.fetch_all(AssertSqlSafe(read)).await.unwrap_err().to_string();
                assert!(refused.contains("permission denied for table canary"), "{sql}: {refused}");
            }
        }
        let refused = connection.fetch_all("SELECT secret FROM public.canary").await.unwrap_err().to_string();
        assert!(refused.contains("permission denied for table canary"), "{refused}");
    }
}
