//! Tests the limits of one statement: time, memory, temporary files. Without the limits each of these statements takes
//! seconds beyond its deadline, or gigabytes.

use crate::store::testing::TestDb;
use std::time::{Duration, Instant};

use super::*;
use crate::store::testing;

use crate::store::script_sql::STATEMENT_TIME_LIMIT;

/// Every statement must end within this time, even on a busy machine. Without limits these statements took half a
/// minute and more.
const TIME_LIMIT: Duration = Duration::from_secs(STATEMENT_TIME_LIMIT.as_secs() + 5);
/// A common table expression with the numbers from 1.
const NUMBERS: &str = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000000)";

async fn ends_in_time(db: &Db, sql: &str, params: &[Value]) -> Result<Answer, ScriptSqlError> {
    let began = Instant::now();
    let result = tokio::time::timeout(TIME_LIMIT, ask(db, sql, params)).await;
    let shown = &sql[..sql.len().min(200)];
    let result = result.unwrap_or_else(|_| panic!("still running after {:?}: {shown}", began.elapsed()));
    assert!(
        !matches!(result, Err(ScriptSqlError::Store(_) | ScriptSqlError::RoleError(_))),
        "{shown}: {result:?}"
    );
    result
}

async fn assert_stopped(db: &Db, sql: &str, params: &[Value]) {
    let result = ends_in_time(db, sql, params).await;
    let stopped = matches!(
        result,
        Err(ScriptSqlError::TooSlow
            | ScriptSqlError::TooLarge
            | ScriptSqlError::Full
            | ScriptSqlError::Database(_))
    );
    assert!(stopped, "{sql}: {:?}", result.map(|answer| answer.count));
}

/// Peak memory of this process, in bytes.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().unwrap() << 10
}

#[tokio::test]
async fn a_statement_on_sqlite_has_its_limits() {
    let db = testing::sqlite().await;
    ask(&db, "CREATE TABLE script_big (x text)", &[]).await.unwrap();
    let big = json!("x".repeat(200_000));
    let before = peak();
    for select in [
        "SELECT count(DISTINCT $1 || i) AS n FROM n",
        "SELECT max(x) AS x FROM (SELECT $1 || i AS x FROM n ORDER BY x DESC LIMIT 5)",
        "SELECT length(group_concat($1)) AS n FROM n",
        "SELECT sum(length(replace($1 || i, 'xy', 'z'))) AS n FROM n",
        "SELECT sum(length(rtrim($1 || i, '0123456789abcdefghijklmnopqrstuv'))) AS n FROM n",
        "SELECT count(*) AS n FROM (SELECT $1 || i AS x FROM n UNION SELECT $1 || i FROM n) AS a",
        "SELECT lag($1 || i, 100000) OVER (ORDER BY i) AS x FROM n LIMIT 1",
    ] {
        assert_stopped(&db, &format!("{NUMBERS} {select}"), std::slice::from_ref(&big)).await;
    }
    let many = (0..60).map(|n| format!("count(DISTINCT i * {n} + 1) AS c{n}")).collect::<Vec<_>>().join(", ");
    assert_stopped(&db, &format!("{NUMBERS} SELECT {many} FROM n"), &[]).await;
    let fill = "INSERT INTO script_big (x) SELECT x FROM (WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n \
                WHERE i < 100000000) SELECT DISTINCT $1 || i AS x FROM n) AS a";
    assert_stopped(&db, fill, std::slice::from_ref(&big)).await;
    // Without limits it was 1.9 GB. It includes the rest of the process.
    assert!(peak() - before < 160 << 20, "{} MiB", (peak() - before) >> 20);
    assert_eq!(rows(&db, "SELECT count(*) AS n FROM script_big", &[]).await, json!([{ "n": 0 }]));
}

#[tokio::test]
async fn values_on_sqlite_are_bounded() {
    let db = testing::sqlite().await;
    let large = format!(r#"{{"text":"{}"}}"#, "x".repeat(300_000));
    apply(&db, 1, vec![put(&uri(1, NOTE, "a"), 1, &large), put(&uri(1, NOTE, "b"), 2, r#"{"text":"y"}"#)])
        .await;
    // One large record on the network does not make statements fail that read it.
    let sql = "SELECT rkey, record ->> 'text' AS text FROM records ORDER BY rkey";
    assert_eq!(rows(&db, sql, &[]).await, json!([{ "rkey": "a" }, { "rkey": "b", "text": "y" }]));
    let twice = ask(&db, "SELECT length($1 || $1) AS n", &[json!("x".repeat(200_000))]).await;
    assert!(matches!(twice, Err(ScriptSqlError::Database(_) | ScriptSqlError::TooLarge)), "{twice:?}");
}

on_both!(
    arguments_that_take_long_are_refused,
    the_longest_calls_keep_the_deadline,
    subqueries_that_name_each_other_twice_do_not_grow,
    a_statement_without_a_caller_ends
);

async fn arguments_that_take_long_are_refused(db: TestDb) {
    let sqlite = matches!(&*db, Db::Sqlite(_));
    let long = json!("x".repeat(if sqlite { 200_000 } else { 1 << 20 }));
    let calls: &[&str] = if sqlite {
        &[
            "trim(both @b from @a)",
            "ltrim(@a, @b)",
            "rtrim(@a, @b)",
            "instr(@a, @b)",
            "replace(@a, @b, '')",
            "@a LIKE @b",
            "@a GLOB @b",
            "json_patch(json_object('a', @a), json_object('b', @b))",
        ]
    } else {
        &[
            "btrim(@a, @b)",
            "trim(both @b from @a)",
            "ltrim(@a, @b)",
            "rtrim(@a, @b)",
            "strpos(@a, @b)",
            "position(@b in @a)",
            "replace(@a, @b, '')",
            "translate(@a, @b, 'y')",
            "split_part(@a, @b, 2)",
            "@a LIKE @b",
            "@a ILIKE @b",
            "@a ~ @b",
            "@a !~* @b",
            "regexp_replace(@a, @b, '')",
            "to_jsonb(@a) @> to_jsonb(@b)",
        ]
    };
    for call in calls {
        let known = call.replace("@a", "$1").replace("@b", "$1");
        // The database checks the length of computed arguments.
        let computed = call.replace("@a", "t.a").replace("@b", "t.b");
        for sql in [
            format!("SELECT {known} AS x"),
            format!("SELECT {computed} AS x FROM (SELECT $1 AS a, lower($1) AS b) AS t"),
        ] {
            let refused = ends_in_time(&db, &sql, std::slice::from_ref(&long)).await;
            assert!(refused.is_err(), "{sql}: {refused:?}");
        }
    }
}

async fn the_longest_calls_keep_the_deadline(db: TestDb) {
    let sqlite = matches!(&*db, Db::Sqlite(_));
    let long = json!("ab".repeat(if sqlite { 120_000 } else { 500_000 }));
    let needle = "ab".repeat(120) + "c";
    let calls: Vec<String> = if sqlite {
        vec![
            format!("instr(a, '{needle}')"),
            format!("length(replace(a, '{needle}', ''))"),
            "length(ltrim(a, 'bcdefghijklmnopqrstuvwxyzabcdefa'))".to_owned(),
            format!("(a LIKE '%{}%')", "ab%".repeat(70) + "c"),
        ]
    } else {
        vec![
            format!("strpos(a, '{needle}')"),
            format!("length(replace(a, '{needle}', ''))"),
            "length(btrim(a, 'bcdefghijklmnopqrstuvwxyzabcdefa'))".to_owned(),
            format!("length(translate(a, '{}', 'y'))", "cdefghijklmnopqrstuvwxyz".repeat(5)),
            format!("(CASE WHEN a LIKE '%{}%' THEN 1 ELSE 0 END)", "ab%".repeat(70) + "c"),
            "(CASE WHEN a ~ '(a|b|ab)*c' THEN 1 ELSE 0 END)".to_owned(),
            "length(regexp_replace(a, '(a|ab)*c', 'x', 'g'))".to_owned(),
            "length(initcap(a))".to_owned(),
        ]
    };
    for call in calls {
        // Many calls per row, for many rows: the deadline is checked in between.
        let sum = vec![call.as_str(); 25].join(" + ");
        let sql = format!(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000) \
                           SELECT sum({sum}) AS x FROM (SELECT n.i, concat($1, n.i) AS a FROM n) AS t"
        );
        let result = ends_in_time(&db, &sql, std::slice::from_ref(&long)).await;
        assert!(
            matches!(
                result,
                Err(ScriptSqlError::TooSlow | ScriptSqlError::TooLarge | ScriptSqlError::Database(_))
            ),
            "{call}: {result:?}"
        );
    }
}

async fn subqueries_that_name_each_other_twice_do_not_grow(db: TestDb) {
    let mut sql = "SELECT 'x' AS x".to_owned();
    for level in 0..30 {
        sql = format!("SELECT x || x AS x FROM ({sql}) AS t{level}");
    }
    let refused = ask(&db, &sql, &[]).await;
    assert!(matches!(refused, Err(ScriptSqlError::Refused(_))), "{refused:?}");
}

async fn a_statement_without_a_caller_ends(db: TestDb) {
    let forever = format!("{NUMBERS} SELECT count(*) AS n FROM n, n AS m");
    let Db::Postgres(pool) = &*db else {
        let threads = || {
            let tasks = std::fs::read_dir("/proc/self/task").unwrap();
            let names =
                tasks.filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("comm")).ok());
            names.filter(|name| name.starts_with("script-sql-read")).count()
        };
        let gone = tokio::time::timeout(Duration::from_millis(300), ask(&db, &forever, &[])).await;
        assert!(gone.is_err());
        assert_eq!(threads(), 1, "it is still running");
        let gone = Instant::now();
        while threads() > 0 {
            assert!(gone.elapsed() < STATEMENT_TIME_LIMIT / 2, "the thread continues without a caller");
            tokio::task::yield_now().await;
        }
        return;
    };
    let running = async || {
        let sql = "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND usename LIKE '%_scripts' \
                   AND datname = current_database()";
        sqlx::query_scalar::<_, i64>(sql).fetch_one(&pool.pool).await.unwrap()
    };
    let gone = tokio::time::timeout(Duration::from_millis(300), ask(&db, &forever, &[])).await;
    assert!(gone.is_err());
    assert_eq!(running().await, 1, "it is still running");
    let gone = Instant::now();
    while running().await > 0 {
        assert!(gone.elapsed() < STATEMENT_TIME_LIMIT / 2, "the server continues without a caller");
    }
}
