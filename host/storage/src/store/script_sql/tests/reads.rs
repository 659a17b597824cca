//! Tests of statements that may only read (`select`, `explain`).

use serde_json::{Value, json};

use super::super::{ReadableTable, ScriptSqlError, explain, mistake, run, select, tables};
use super::{ON_POSTGRES, ON_SQLITE, SECRET, hostile, with_secret};
use crate::store::Backend;
use crate::store::testing;
use belvedere_web::fair_share::Tenant;

const PLACE: &str = "the test";

#[tokio::test]
async fn reads_reach_no_secret_and_write_nothing() {
    for db in [testing::sqlite().await, testing::postgres().await] {
        with_secret(&db).await;
        let others = if db.backend() == Backend::Sqlite { ON_SQLITE } else { ON_POSTGRES };
        let mut statements =
            hostile("script_own", &["canary", "\"canary\"", "public.canary", "belvedere.canary"], others);
        statements.extend(
            [
                "INSERT INTO script_own VALUES ('b', 2)",
                "INSERT INTO script_own VALUES ('b', 2) RETURNING x",
                "UPDATE script_own SET n = 2",
                "DELETE FROM script_own",
                "WITH d AS (DELETE FROM script_own RETURNING x) SELECT * FROM d",
                "SELECT * INTO script_copy FROM script_own",
                "SELECT x FROM script_own FOR UPDATE",
                "CREATE TABLE script_copy (n integer)",
                "DROP TABLE script_own",
                "EXPLAIN ANALYZE DELETE FROM script_own",
                "SELECT 1; DELETE FROM script_own",
                "",
                "SELECT 'a\0b' FROM canary",
            ]
            .map(str::to_owned),
        );
        for sql in &statements {
            let read = select(&db, &Tenant::Instance, sql, &[], PLACE).await;
            let plan = explain(&db, &Tenant::Instance, sql, &[], PLACE).await;
            for answer in [read, plan] {
                let refused = answer.expect_err(sql).to_string();
                assert!(!refused.contains(SECRET), "{sql}: {refused}");
            }
        }
        let refused = select(&db, &Tenant::Instance, "DELETE FROM script_own", &[], PLACE)
            .await
            .unwrap_err()
            .to_string();
        assert_eq!(refused, "a statement other than SELECT in the test can't be used");
        let kept = select(&db, &Tenant::Instance, "SELECT * FROM script_own", &[], PLACE).await.unwrap();
        assert_eq!(serde_json::from_slice::<Value>(&kept.rows).unwrap(), json!([{ "x": "a", "n": 1 }]));
    }
}

#[tokio::test]
async fn results_name_their_columns_and_plans_their_indexes() {
    for db in [testing::sqlite().await, testing::postgres().await] {
        let found = select(&db, &Tenant::Instance, "SELECT NULL AS b, 1 AS a", &[], PLACE).await.unwrap();
        assert_eq!((found.columns, found.rows), (vec!["b".into(), "a".into()], br#"[{"a":1}]"#.to_vec()));

        let sql = "SELECT r.uri FROM records r WHERE r.uri = $1 AND r.record ->> 'text' = $2";
        let params = [json!("at://did:plc:a/com.example.note/a"), json!("eins")];
        let plan = explain(&db, &Tenant::Instance, sql, &params, PLACE).await.unwrap();
        assert_eq!(plan.columns, ["plan"]);
        let text = String::from_utf8(plan.rows).unwrap();
        // Without a record, PostgreSQL has no partition to search.
        let step = if db.backend() == Backend::Sqlite { "records_key" } else { "Result" };
        assert!(text.contains(step), "{text}");
        // Own tables, and parameters that are not texts.
        run(&db, &Tenant::Instance, "CREATE TABLE script_own (n integer)", &[]).await.unwrap();
        let sql = "SELECT n FROM script_own WHERE n > $1";
        let plan = explain(&db, &Tenant::Instance, sql, &[json!(1.5)], PLACE).await.unwrap();
        assert!(plan.count > 0);
        let missing = explain(&db, &Tenant::Instance, sql, &[], PLACE).await.unwrap_err();
        assert!(matches!(missing, ScriptSqlError::Refused(_)), "{missing}");
    }
}

#[tokio::test]
async fn the_tables_are_those_that_a_statement_can_read() {
    for db in [testing::sqlite().await, testing::postgres().await] {
        with_secret(&db).await;
        run(&db, &Tenant::Instance, "CREATE TABLE script_a (b text, a integer)", &[]).await.unwrap();
        let found = tables(&db, &Tenant::Instance).await.unwrap();
        let names: Vec<&str> = found.iter().map(|table| table.name.as_str()).collect();
        let expected = ["accounts", "labels", "lexicons", "record_refs", "records", "script_a", "script_own"];
        assert_eq!(names, expected);
        let own = |name: &str, columns: &[&str]| ReadableTable {
            name: name.to_owned(),
            columns: columns.iter().map(|&column| column.to_owned()).collect(),
            is_own: true,
        };
        assert_eq!(found[5..], [own("script_a", &["b", "a"]), own("script_own", &["x", "n"])]);
        for ReadableTable { name, columns, .. } in found {
            let columns: Vec<String> = columns.iter().map(|column| format!("\"{column}\"")).collect();
            let sql = format!("SELECT {} FROM {name}", columns.join(", "));
            select(&db, &Tenant::Instance, &sql, &[], PLACE).await.unwrap();
        }
    }
}

#[tokio::test]
async fn mistakes_show_without_parameters() {
    for db in [testing::sqlite().await, testing::postgres().await] {
        run(&db, &Tenant::Instance, "CREATE TABLE script_likes (uri TEXT, n INTEGER)", &[]).await.unwrap();
        let mistake = async |sql: &str| mistake(&db, &Tenant::Instance, sql).await.unwrap();
        for (sql, message) in [
            ("SELECT uir FROM records WHERE did = $1", "uir"),
            ("SELECT l.uri FROM script_likes AS l WHERE l.missing > $1", "missing"),
            ("SELECT uri FROM script_like", "script_like"),
            ("SELECT nonsense(uri) FROM records", "nonsense"),
            ("SELEC uri FROM records", "SELEC"),
            ("SELECT secret FROM api_keys WHERE id = $1", "api_keys"),
            ("SELECT uri FROM records WHERE matches(record, $1, 'a') AND nonsense($2)", "nonsense"),
            ("SELECT 1; SELECT 2", "one statement"),
        ] {
            let found = mistake(sql).await.unwrap_or_else(|| panic!("{sql} has no mistake"));
            assert!(found.contains(message), "{sql}: {found}");
        }
        for sql in [
            "SELECT uri, record->>'text' AS text FROM records WHERE did = $2 AND rkey = $1 LIMIT $3",
            "SELECT sum(n + $1) AS n FROM script_likes WHERE uri IN ($2, $3) LIMIT $4 OFFSET $5",
            "SELECT n / $1 FROM script_likes WHERE n = $1000000000",
            "SELECT uri FROM records WHERE matches(record, $1, $2) LIMIT $3",
            "INSERT INTO nothing (a) VALUES ($1)",
        ] {
            assert_eq!(mistake(sql).await, None, "{sql}");
        }
    }
}
