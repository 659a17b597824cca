//! Statements that have the same answer on both databases.

use super::*;
use crate::store::testing::TestDb;

const START: &str = "at://did:plc:x/a/b";

on_both!(
    recursive_queries_may_start_from_texts,
    own_texts_are_sorted_and_compared_by_their_bytes,
    mathematical_functions_have_the_same_values
);

/// Rounded, because the last digits are those of the C library.
async fn mathematical_functions_have_the_same_values(db: TestDb) {
    let sql = "SELECT CAST(round(1000 * pow(2, 0.5)) AS integer) AS pow, CAST(round(1000 * power(3, $1)) AS integer) AS power, \
        CAST(round(1000 * exp(1)) AS integer) AS exp, CAST(round(1000 * ln(10)) AS integer) AS ln, \
        CAST(round(1000 * log(1000)) AS integer) AS log, CAST(round(1000 * sqrt(2)) AS integer) AS sqrt";
    let expected =
        json!([{ "pow": 1414, "power": 9000, "exp": 2718, "ln": 2303, "log": 3000, "sqrt": 1414 }]);
    assert_eq!(rows(&db, sql, &[json!(2)]).await, expected);
    let refused = ask(&db, "SELECT log(2, 8)", &[]).await.unwrap_err().to_string();
    assert!(refused.contains("log with a base"), "{refused}");
}

/// PostgreSQL fixes the collation of a recursive query's columns with the first part.
async fn recursive_queries_may_start_from_texts(db: TestDb) {
    fill(&db).await;
    ask(&db, "CREATE TABLE script_tree (id text PRIMARY KEY, parent text)", &[]).await.unwrap();
    ask(&db, "INSERT INTO script_tree VALUES ('a', NULL), ('b', 'a'), ('c', 'b')", &[]).await.unwrap();
    let like = uri(2, LIKE, "b").to_string();
    for (start, param) in [
        ("SELECT $1, 0", START),
        ("SELECT ($1), 0", START),
        ("VALUES ($1, 0)", START),
        ("SELECT CAST($1 AS text), 0", START),
        ("SELECT 'at://' || $1, 0", "did:plc:x/a/b"),
    ] {
        let sql = format!(
            "WITH RECURSIVE t(uri, depth) AS ({start} UNION ALL SELECT r.source_uri, t.depth + 1 \
            FROM record_refs r JOIN t ON r.target_uri = t.uri WHERE t.depth < 3) SELECT uri, depth FROM t ORDER BY depth"
        );
        let expected = json!([{ "uri": START, "depth": 0 }, { "uri": like, "depth": 1 }]);
        assert_eq!(rows(&db, &sql, &[json!(param)]).await, expected, "{start}");
    }
    for start in ["SELECT $1, 0", "SELECT id, 0 FROM script_tree WHERE parent IS NULL AND id = $1"] {
        let sql = format!(
            "WITH RECURSIVE t(id, depth) AS ({start} UNION ALL SELECT n.id, t.depth + 1 \
            FROM script_tree n JOIN t ON n.parent = t.id) SELECT id, depth FROM t ORDER BY depth"
        );
        let expected =
            json!([{ "id": "a", "depth": 0 }, { "id": "b", "depth": 1 }, { "id": "c", "depth": 2 }]);
        assert_eq!(rows(&db, &sql, &[json!("a")]).await, expected, "{start}");
    }
    // A number is one, and a subquery of the first part is no part of its own.
    let sql = "WITH RECURSIVE n(i, s) AS (SELECT $1, (SELECT max(x.a) FROM (SELECT $2 AS a) x) \
        UNION ALL SELECT i + 1, s || '.' FROM n WHERE i < 3) SELECT i, s FROM n ORDER BY i";
    let found = rows(&db, sql, &[json!(2), json!("x")]).await;
    assert_eq!(found, json!([{ "i": 2, "s": "x" }, { "i": 3, "s": "x." }]));
}

async fn own_texts_are_sorted_and_compared_by_their_bytes(db: TestDb) {
    ask(&db, "CREATE TABLE script_words (w text, v varchar(20))", &[]).await.unwrap();
    ask(&db, "INSERT INTO script_words VALUES ('b', 'b'), ('B', 'B'), ('a', 'a'), ('\u{e9}', '\u{e9}'), ('_', '_'), ('A', 'A')", &[]).await.unwrap();
    let order = json!(["A", "B", "_", "a", "b", "\u{e9}"]);
    for column in ["w", "v"] {
        let found =
            rows(&db, &format!("SELECT {column} AS x FROM script_words ORDER BY {column}"), &[]).await;
        let found: Vec<Value> = found.as_array().unwrap().iter().map(|row| row["x"].clone()).collect();
        assert_eq!(json!(found), order, "{column}");
        let above =
            rows(&db, &format!("SELECT count(*) AS n FROM script_words WHERE {column} > 'Z'"), &[]).await;
        assert_eq!(above, json!([{ "n": 4 }]), "{column}");
    }
}

/// The two databases have the same views.
#[tokio::test]
async fn the_views_have_the_same_columns() {
    let (sqlite, postgres) = (testing::sqlite().await, testing::postgres().await);
    let Db::Postgres(pool) = &*postgres else { unreachable!("the test opened PostgreSQL") };
    for view in script_sql::guard::VIEWS {
        let columns: Vec<String> = sqlx::query_scalar(
            "SELECT column_name::text FROM information_schema.columns \
             WHERE table_schema = 'script_views' AND table_name = $1 ORDER BY ordinal_position",
        )
        .bind(view)
        .fetch_all(&pool.pool)
        .await
        .unwrap();
        assert!(columns.len() > 2, "{view}");
        let sql = format!("SELECT {} FROM {view}", columns.join(", "));
        for db in [&*sqlite, &*postgres] {
            assert_eq!(rows(db, &sql, &[]).await, json!([]), "{view}");
        }
        // If SQLite had a further column, the UNION would fail.
        let same = format!("SELECT {} FROM {view} UNION SELECT * FROM {view}", columns.join(", "));
        assert_eq!(rows(&sqlite, &same, &[]).await, json!([]), "{view}");
    }
}
