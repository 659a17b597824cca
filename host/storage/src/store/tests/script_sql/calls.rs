//! Tries every function of both databases in every syntax that can call one: the guard allows only those on its lists,
//! and on PostgreSQL the scripts' role can read no secret even without the guard.

use std::collections::BTreeSet;
use std::str::FromStr;

use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, PgConnection};

use super::*;
use crate::store::testing;

use crate::store::Backend;
use crate::store::script_sql::guard::{self, Catalog};

/// Forms that could call the function `{f}` with the argument `{a}` on PostgreSQL. In none of them is `{f}` a column.
const POSTGRES: &[&str] = &[
    "SELECT t.{f} FROM jsonb_array_elements_text('[\"{a}\"]') AS t",
    "SELECT t.\"{f}\" FROM jsonb_array_elements_text('[\"{a}\"]') AS t",
    "SELECT t.{f} FROM jsonb_array_elements_text('[\"{a}\"]') AS t(x)",
    "SELECT t.{f} FROM unnest(ARRAY['{a}']) WITH ORDINALITY AS t(x, n)",
    "SELECT t.{f} FROM unnest(ARRAY['{a}']) AS t",
    "SELECT unnest.{f} FROM unnest(ARRAY['{a}'])",
    "SELECT (t).{f} FROM unnest(ARRAY['{a}']) AS t",
    "SELECT (t.x).{f} FROM (SELECT '{a}' AS x) AS t",
    "SELECT ('{a}').{f}",
    "SELECT (ARRAY['{a}'])[1].{f}",
    "SELECT t.{f} FROM (SELECT '{a}' AS x) AS t",
    "SELECT t.{f} FROM (VALUES ('{a}')) AS t(x)",
    "SELECT t.{f} FROM records r, LATERAL (SELECT r.uri) AS t",
    "SELECT {f} FROM (SELECT '{a}' AS x) AS t",
    "SELECT r.{f} FROM records r",
    "SELECT records.{f} FROM records",
    "SELECT o.{f} FROM script_own o",
    "SELECT script_own.{f} FROM script_own",
    "WITH t(x) AS (SELECT '{a}') SELECT t.{f} FROM t",
    "WITH RECURSIVE t(x) AS (SELECT '{a}' UNION SELECT t.{f} FROM t) SELECT x FROM t",
    "SELECT 1 FROM (SELECT '{a}' AS x) AS t WHERE t.{f} IS NOT NULL",
    "SELECT 1 FROM (SELECT '{a}' AS x) AS t GROUP BY t.{f}",
    "SELECT 1 FROM (SELECT '{a}' AS x) AS t GROUP BY t.x HAVING t.{f} IS NULL",
    "SELECT 1 FROM (SELECT '{a}' AS x) AS t ORDER BY t.{f}",
    "SELECT DISTINCT ON (t.{f}) 1 FROM (SELECT '{a}' AS x) AS t",
    "SELECT count(*) OVER (PARTITION BY t.{f}) FROM (SELECT '{a}' AS x) AS t",
    "SELECT count(*) OVER (ORDER BY t.{f}) FROM (SELECT '{a}' AS x) AS t",
    "SELECT count(*) FILTER (WHERE t.{f} IS NULL) FROM (SELECT '{a}' AS x) AS t",
    "SELECT max(t.x ORDER BY t.{f}) FROM (SELECT '{a}' AS x) AS t",
    "SELECT 1 FROM (SELECT '{a}' AS x) a JOIN (SELECT '{a}' AS x) b ON a.{f} = b.x",
    "SELECT EXISTS (SELECT t.{f}) FROM (SELECT '{a}' AS x) AS t",
    "SELECT 1 FROM (SELECT '{a}' AS x) AS t LIMIT (SELECT t.{f})",
    "INSERT INTO script_own (x) VALUES ('{a}') RETURNING script_own.{f}",
    "INSERT INTO script_own (x) VALUES ('{a}') ON CONFLICT (x) DO UPDATE SET x = excluded.{f}",
    "INSERT INTO script_own (x) VALUES ('{a}') ON CONFLICT (x) DO UPDATE SET x = script_own.{f}",
    "UPDATE script_own SET x = script_own.{f}",
    "UPDATE script_own o SET x = t.{f} FROM (SELECT '{a}' AS x) t",
    "DELETE FROM script_own o WHERE o.{f} IS NULL",
    "DELETE FROM script_own RETURNING script_own.{f}",
    "CREATE TABLE script_new (x text CHECK (script_new.{f} IS NULL))",
    "CREATE INDEX script_new ON script_own ((script_own.{f}))",
    "ALTER TABLE script_own ADD COLUMN y text CHECK (script_own.{f} IS NULL)",
    "SELECT '{a}' OPERATOR(pg_catalog.{f}) '{a}'",
    "SELECT pg_catalog.{f}('{a}')",
    "SELECT public.{f}('{a}')",
];

/// Forms that call a function by its name. They are refused unless the function is on a list.
const CALLS: &[&str] = &[
    "SELECT {f}('{a}')",
    "SELECT \"{f}\"('{a}')",
    "SELECT {f}(*)",
    "SELECT {f}(DISTINCT '{a}')",
    "SELECT {f}('{a}') OVER ()",
    "SELECT {f}('{a}') FILTER (WHERE 1 = 1)",
    "SELECT {f}('{a}') FROM records GROUP BY did HAVING {f}('{a}') IS NULL",
    "SELECT 1 FROM records ORDER BY {f}('{a}')",
    "SELECT 1 FROM records WHERE {f}(uri) IS NULL",
    "SELECT x FROM (VALUES ({f}('{a}'))) AS t(x)",
    "SELECT * FROM {f}('{a}') AS t",
    "SELECT * FROM records r, {f}(r.uri) AS t",
    "SELECT * FROM records r, LATERAL {f}(r.uri) AS t",
    "SELECT * FROM records r JOIN {f}('{a}') AS t ON 1 = 1",
    "SELECT (SELECT x FROM {f}('{a}') AS t(x))",
    "INSERT INTO script_own (x) VALUES ({f}('{a}'))",
    "INSERT INTO script_own (x) SELECT {f}('{a}')",
    "UPDATE script_own SET x = {f}('{a}')",
    "CREATE TABLE script_new (x text DEFAULT {f}('{a}'))",
    "CREATE TABLE script_new (x text CHECK ({f}(x) IS NULL))",
    "CREATE INDEX script_new ON script_own ({f}(x))",
];

/// Forms that name a type.
const TYPES: &[&str] =
    &["SELECT CAST('A' AS {f})", "SELECT 'A'::{f}", "SELECT {f} 'A'", "CREATE TABLE script_new (x {f})"];

const OF_ONE_ARGUMENT: &str = "SELECT DISTINCT proname::text FROM pg_proc WHERE prokind <> 'p' \
    AND pronargs - pronargdefaults <= 1 AND (pronargs >= 1 OR provariadic <> 0) ORDER BY 1";

fn catalog() -> Catalog {
    let mut catalog = Catalog::default();
    catalog.add("script_own", "x", false);
    catalog
}

fn refused(sql: &str, function: &str, backend: Backend, catalog: &Catalog) {
    let sql = sql.replace("{f}", function).replace("{a}", "SELECT 1");
    if let Ok(statement) = guard::check(&sql, &[], backend, catalog) {
        panic!("{backend:?} {sql} became {}", statement.sql);
    }
}

fn refuse_all(functions: &BTreeSet<String>, backend: Backend, forms: &[&str]) {
    let callable: BTreeSet<&str> = guard::callable(backend).collect();
    let catalog = catalog();
    for function in functions {
        // A function's column has the function's name, RTRIM is also a collation, and INTERVAL a keyword.
        let means_something = |form: &str| {
            form.contains(&format!("{function}.{{f}}")) || (function == "rtrim" && form.contains("COLLATE"))
        };
        let forms = forms.iter().filter(|form| !means_something(form));
        forms.for_each(|form| refused(form, function, backend, &catalog));
        if callable.contains(function.as_str()) || function == "interval" {
            continue;
        }
        for call in CALLS {
            refused(call, function, backend, &catalog);
        }
    }
}

#[tokio::test]
async fn no_function_of_postgres_is_called_past_the_list() {
    let db = testing::postgres().await;
    let Db::Postgres(pool) = &*db else { unreachable!("the test opened PostgreSQL") };
    let functions: Vec<String> = sqlx::query_scalar(OF_ONE_ARGUMENT).fetch_all(&pool.pool).await.unwrap();
    assert!(functions.len() > 500, "{}", functions.len());
    let functions: BTreeSet<String> = functions.into_iter().collect();
    refuse_all(&functions, Backend::Postgres, POSTGRES);

    // Types, and functions that are casts.
    let sql = "SELECT typname::text FROM pg_type WHERE typnamespace = 'pg_catalog'::regnamespace AND typname !~ '^_' AND typname <> 'char' \
               AND format_type(oid, NULL) NOT IN ('text', 'bigint', 'boolean', 'character varying', 'date', 'double precision', \
                 'integer', 'interval', 'json', 'jsonb', 'numeric', 'real', 'smallint', 'time without time zone', \
                 'timestamp without time zone', 'timestamp with time zone', 'uuid', 'character')";
    let types: Vec<String> = sqlx::query_scalar(sql).fetch_all(&pool.pool).await.unwrap();
    assert!(types.iter().any(|name| name == "regclass"), "{types:?}");
    for name in &types {
        for form in TYPES {
            refused(form, name, Backend::Postgres, &catalog());
        }
    }
}

#[tokio::test]
async fn no_function_of_sqlite_is_called_past_the_list() {
    let db = testing::sqlite().await;
    let Db::Sqlite(pool) = &*db else { unreachable!("the test opened SQLite") };
    let mut functions = BTreeSet::new();
    for sql in [
        "SELECT DISTINCT name FROM pragma_function_list",
        "SELECT name FROM pragma_module_list",
        "SELECT 'pragma_' || name FROM pragma_pragma_list",
    ] {
        let found: Vec<String> = sqlx::query_scalar(sql).fetch_all(&pool.reader).await.unwrap();
        assert!(found.len() > 5, "{sql}");
        functions
            .extend(found.into_iter().filter(|name| name.starts_with(|c: char| c.is_ascii_alphabetic())));
    }
    assert!(functions.contains("load_extension") && functions.contains("pragma_table_info"));
    let forms = [
        "SELECT t.{f} FROM json_each('[\"{a}\"]') AS t",
        "SELECT r.{f} FROM records r",
        "SELECT t.{f} FROM (SELECT '{a}' AS x) AS t",
        "SELECT * FROM {f}",
        "SELECT * FROM temp.{f}",
        "SELECT * FROM main.{f}('{a}')",
        "SELECT '{a}' COLLATE {f}",
        "CREATE TABLE script_new (x text COLLATE {f})",
        "CREATE VIRTUAL TABLE script_new USING {f}",
    ];
    refuse_all(&functions, Backend::Sqlite, &forms);
}

/// A connection as the scripts' role, without the guard.
async fn as_role(db: &TestDb) -> PgConnection {
    let options = PgConnectOptions::from_str(&db.url).unwrap();
    let role = format!("{}_scripts", options.get_database().unwrap());
    let options = options.username(&role).disable_statement_logging().options([
        ("statement_timeout", "100ms"),
        ("lock_timeout", "50ms"),
        ("client_min_messages", "error"),
    ]);
    PgConnection::connect_with(&options).await.unwrap()
}

#[tokio::test]
async fn the_role_alone_gives_nothing_away() {
    let db = testing::postgres().await;
    plant_canary(&db).await;
    assert!(matches!(error(&db, "SELECT secret FROM canary").await, ScriptSqlError::Refused(_)));
    let Db::Postgres(pool) = &*db else { unreachable!("the test opened PostgreSQL") };
    // The method works: with it the server's own role can read the secret.
    let sql = "SELECT query_to_xml('SELECT secret FROM public.canary', true, true, '')::text";
    let seen: String = sqlx::query_scalar(sql).fetch_one(&pool.pool).await.unwrap();
    assert!(seen.contains(CANARY));

    let functions: Vec<String> = sqlx::query_scalar(OF_ONE_ARGUMENT).fetch_all(&pool.pool).await.unwrap();
    assert!(functions.len() > 500, "{}", functions.len());
    let mut role = as_role(&db).await;
    let mut answered = 0;
    for function in &functions {
        for argument in ["SELECT secret FROM public.canary", "public.canary", "PG_VERSION"] {
            for form in [
                "SELECT \"{f}\"('{a}')",
                "SELECT t.\"{f}\" FROM jsonb_array_elements_text('[\"{a}\"]') AS t",
                "SELECT * FROM \"{f}\"('{a}')",
                "SELECT t.\"{f}\" FROM (SELECT * FROM canary) AS t",
            ] {
                let sql = form.replace("{f}", function).replace("{a}", argument);
                if gives_no_canary(&mut role, &sql).await {
                    answered += 1;
                } else if role.ping().await.is_err() {
                    role = as_role(&db).await;
                }
            }
        }
    }
    assert!(answered > 100, "only {answered} statements succeeded");

    for sql in [
        "SELECT * FROM canary",
        "SELECT * FROM public.api_keys",
        "TABLE public.users",
        "COPY public.canary TO STDOUT",
        "COPY script_tables.x FROM PROGRAM 'id'",
        "SELECT set_config('role', 'belvedere', false), query_to_xml('SELECT secret FROM public.canary', true, true, '')",
        "SET ROLE belvedere",
        "SET SESSION AUTHORIZATION belvedere",
        "RESET ROLE",
        "INSERT INTO canary VALUES ('x')",
        "CREATE TABLE public.mine (a int)",
        "CREATE FUNCTION public.f() RETURNS int LANGUAGE sql AS 'SELECT 1'",
        "SELECT lo_import('/etc/hostname')",
        "SELECT pg_read_file('PG_VERSION')",
        "SELECT * FROM pg_ls_dir('.')",
        "SELECT * FROM pg_authid",
        "SELECT * FROM pg_stats WHERE tablename = 'canary'",
        "SELECT prosrc FROM pg_proc WHERE proname = 'canary'",
        "ALTER VIEW script_views.records OWNER TO CURRENT_USER",
        "CREATE OR REPLACE VIEW script_views.labels AS SELECT secret AS src FROM canary",
        "CREATE VIEW script_tables.v AS SELECT secret FROM canary",
        "SELECT * FROM script_tables.v",
    ] {
        gives_no_canary(&mut role, sql).await;
    }
    let forbidden =
        sqlx::query("SELECT secret FROM canary").execute(&mut role).await.unwrap_err().to_string();
    assert!(forbidden.contains("permission denied"), "{forbidden}");
    sqlx::query("SELECT count(*) FROM script_views.records").execute(&mut role).await.unwrap();
    role.close().await.unwrap();
}

/// Checks that a statement does not reveal the secret. Returns whether it succeeded.
async fn gives_no_canary(role: &mut PgConnection, sql: &str) -> bool {
    let wrapped = format!("SELECT json_agg(x)::text FROM ({sql}) x");
    let whole = if sql.starts_with("SELECT") { wrapped } else { sql.to_owned() };
    match sqlx::query_scalar::<_, Option<String>>(AssertSqlSafe(whole))
        .persistent(false)
        .fetch_optional(role)
        .await
    {
        Ok(found) => {
            let found = found.flatten().unwrap_or_default();
            assert!(!found.contains(CANARY), "{sql}: {found}");
            true
        }
        Err(error) => {
            assert!(!error.to_string().contains(CANARY), "{sql}: {error}");
            false
        }
    }
}
