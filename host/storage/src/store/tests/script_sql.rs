//! Tests scripts' SQL on real databases: what it can read and write, and its limits.

use serde_json::{Value, json};

use super::fixtures::*;
use crate::store::index::AccountStatus;
use crate::store::labels::Label;
use crate::store::lexicons::{self, NewLexicon};
use crate::store::script_sql::{self, Answer, MAX_OWN_RELATIONS, MAX_ROWS, ScriptSqlError};
use crate::store::testing::{self, TestDb};
use crate::store::{Backend, Db};
use belvedere_base::clock::Timestamp;
use belvedere_protocol::atproto::Cid;

mod addresses;
mod calls;
mod generated;
mod limits;
mod matches;
mod pages;
mod role;
mod same_answers;

const CID: &str = "bafyreidfayvfuwqa7qlnopdjiqrxzs6blmoeu4rujcjtnci5beludirz2a";

async fn ask(db: &Db, sql: &str, params: &[Value]) -> Result<Answer, ScriptSqlError> {
    script_sql::run(db, &US, sql, params).await
}

async fn rows(db: &Db, sql: &str, params: &[Value]) -> Value {
    let answer = ask(db, sql, params).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    serde_json::from_slice(&answer.rows).unwrap()
}

async fn error(db: &Db, sql: &str) -> ScriptSqlError {
    match ask(db, sql, &[]).await {
        Err(error) => error,
        Ok(answer) => panic!("{sql}: {answer:?}"),
    }
}

async fn fill(db: &Db) {
    let mut with_cid = put(&uri(1, NOTE, "a"), 1, r#"{"text":"eins","n":1,"tags":["x","y"]}"#);
    if let Some(record) = &mut with_cid.record {
        record.cid = Some(CID.parse::<Cid>().unwrap());
    }
    apply(db, 1_700_000_000_000_001, vec![with_cid]).await;
    let like = put_with_refs(&uri(2, LIKE, "b"), 1, r#"{"n":2}"#, &["at://did:plc:x/a/b"]);
    apply(db, 1_700_000_000_123_456, vec![like]).await;
}

on_both!(
    sees_the_index,
    hides_what_is_hidden,
    gives_values_by_their_type,
    gives_json_columns_as_values,
    keeps_tables_of_its_own,
    finds_records_by_uri_wherever_it_comes_from,
    is_seen_by_another_host,
    is_stopped,
    can_make_only_so_many_tables,
    finds_no_secrets
);

async fn sees_the_index(db: TestDb) {
    fill(&db).await;
    let sql = "SELECT uri, did, collection, rkey, cid, indexed_at, indexed_us, record FROM records ORDER BY indexed_at";
    let found = rows(&db, sql, &[]).await;
    let first = &found[0];
    assert_eq!(first["uri"], uri(1, NOTE, "a").to_string());
    assert_eq!((&first["did"], &first["collection"]), (&json!(did(1).as_str()), &json!(NOTE)));
    assert_eq!((&first["rkey"], &first["cid"]), (&json!("a"), &json!(CID)));
    assert_eq!(first["indexed_at"], "2023-11-14T22:13:20.000001Z");
    assert_eq!(first["indexed_us"], 1_700_000_000_000_001_i64);
    assert_eq!(first["record"]["tags"], json!(["x", "y"]));
    assert_eq!(found[1]["indexed_at"], "2023-11-14T22:13:20.123456Z");
    assert!(found[1].get("cid").is_none(), "NULL is left out: {}", found[1]);
    assert_eq!(found.as_array().unwrap().len(), 2);

    let sql = "SELECT r.record ->> 'text' AS text, count(*) AS n FROM records r \
               WHERE r.collection = $1 AND r.record ->> 'text' = $2 GROUP BY 1";
    assert_eq!(rows(&db, sql, &[json!(NOTE), json!("eins")]).await, json!([{ "text": "eins", "n": 1 }]));
    let sql =
        "SELECT f.target_uri, f.collection, r.rkey FROM record_refs f JOIN records r ON r.uri = f.source_uri";
    assert_eq!(
        rows(&db, sql, &[]).await,
        json!([{ "target_uri": "at://did:plc:x/a/b", "collection": LIKE, "rkey": "b" }])
    );
    assert_eq!(rows(&db, "SELECT id FROM lexicons", &[]).await, json!([]));
}

async fn hides_what_is_hidden(db: TestDb) {
    fill(&db).await;
    set_status(&db, 1, AccountStatus::TakenDown).await;
    assert_eq!(rows(&db, "SELECT rkey FROM records", &[]).await, json!([{ "rkey": "b" }]));
    set_status(&db, 2, AccountStatus::Deactivated).await;
    assert_eq!(rows(&db, "SELECT count(*) AS n FROM record_refs", &[]).await, json!([{ "n": 0 }]));

    let label = |val: &str, neg, exp| Label {
        uri: "at://x".into(),
        src: "did:plc:l".into(),
        val: val.into(),
        cid: None,
        neg,
        cts: Timestamp(1_700_000_000_000_000),
        exp,
    };
    let over = Some(Timestamp(1_700_000_000_000_001));
    let stored = [label("holds", false, None), label("not", true, None), label("over", false, over)];
    store_labels(&db, "did:plc:l", &stored).await;
    assert_eq!(
        rows(&db, "SELECT src, val, cts, exp FROM labels", &[]).await,
        json!([{ "src": "did:plc:l", "val": "holds", "cts": "2023-11-14T22:13:20.000000Z" }])
    );
}

async fn gives_values_by_their_type(db: TestDb) {
    let sql = "SELECT 1 AS i, 1.5 AS f, 'x' AS t, NULL AS nothing, $1 AS a, $2 AS b, $3 AS c, 9007199254740993 AS big, \
               sum(2) AS s, avg(3) AS m";
    let found = rows(&db, sql, &[json!("it's"), json!(-7), json!(2.5)]).await;
    assert_eq!(
        found,
        json!([{ "i": 1, "f": 1.5, "t": "x", "a": "it's", "b": -7, "c": 2.5, "big": 9_007_199_254_740_993_i64,
            "s": 2, "m": found[0]["m"] }])
    );
    assert_eq!(found[0]["m"].as_f64(), Some(3.0));
    assert_eq!(rows(&db, "SELECT 1 AS n WHERE $1 IS NULL", &[json!(null)]).await, json!([{ "n": 1 }]));
    assert_eq!(rows(&db, "SELECT 1 AS n WHERE $1 <> $2", &[json!(1), json!(2)]).await, json!([{ "n": 1 }]));
}

async fn gives_json_columns_as_values(db: TestDb) {
    fill(&db).await;
    apply(
        &db,
        1_700_000_000_200_000,
        vec![put(&uri(3, NOTE, "c"), 1, r#"{"none":null,"deep":[{"a":null,"b":[]},1.5]}"#)],
    )
    .await;
    let a = json!({ "text": "eins", "n": 1, "tags": ["x", "y"] });
    let c = json!({ "none": null, "deep": [{ "a": null, "b": [] }, 1.5] });
    for (sql, expected) in [
        ("SELECT record FROM records WHERE rkey = 'a'", json!([{ "record": a }])),
        (
            "SELECT r.rkey, r.record AS x, r.record -> 'none' AS none, r.record -> 'absent' AS absent FROM records r WHERE rkey = 'c'",
            json!([{ "rkey": "c", "x": c, "none": null }]),
        ),
        (
            "SELECT record -> 'tags' AS tags, record ->> 'text' AS text, (record -> 'n') AS n FROM records WHERE rkey = 'a'",
            json!([{ "tags": ["x", "y"], "text": "eins", "n": 1 }]),
        ),
        (
            "SELECT * FROM (SELECT record AS r, rkey AS k FROM records) s WHERE k <> 'b' ORDER BY k DESC",
            json!([{ "r": c, "k": "c" }, { "r": a, "k": "a" }]),
        ),
        (
            "WITH w AS (SELECT rkey, record FROM records WHERE rkey = 'a') \
          SELECT (SELECT record FROM w) AS one, coalesce(w.record, NULL) AS two, lag(record) OVER (ORDER BY rkey) AS three FROM w",
            json!([{ "one": a, "two": a }]),
        ),
        (
            "SELECT record FROM records WHERE rkey = 'a' UNION ALL SELECT record FROM records WHERE rkey = 'c'",
            json!([{ "record": a }, { "record": c }]),
        ),
        ("SELECT count(*) AS n FROM records WHERE record IS NOT NULL", json!([{ "n": 3 }])),
        ("SELECT json_object('a', 1) AS o, '{\"a\":1}' AS t", json!([{ "o": { "a": 1 }, "t": "{\"a\":1}" }])),
    ] {
        // PostgreSQL's JSON object function takes other arguments.
        let sql = if db.backend() == Backend::Postgres {
            sql.replace("json_object", "json_build_object")
        } else {
            sql.to_owned()
        };
        assert_eq!(rows(&db, &sql, &[]).await, expected, "{sql}");
    }
    // A text that looks like JSON is a text.
    assert_eq!(rows(&db, "SELECT $1 AS t", &[json!("[1]")]).await, json!([{ "t": "[1]" }]));

    ask(&db, "CREATE TABLE script_j (id integer, data jsonb, plain text)", &[]).await.unwrap();
    let made = rows(
        &db,
        "INSERT INTO script_j VALUES (1, '{\"x\": null}', '{\"y\": 1}') RETURNING data, id, plain",
        &[],
    )
    .await;
    assert_eq!(made, json!([{ "data": { "x": null }, "id": 1, "plain": "{\"y\": 1}" }]));
    assert_eq!(rows(&db, "SELECT * FROM script_j", &[]).await, made);

    let document = json!({ "lexicon": 1, "id": NOTE, "defs": {} });
    let new = NewLexicon {
        id: NOTE.to_owned(),
        lexicon_json: document.to_string(),
        lexicon_type: "definitions".to_owned(),
        source: "manual".to_owned(),
        ..NewLexicon::default()
    };
    lexicons::upsert(&db, &new, Timestamp(1)).await.unwrap();
    let found = rows(&db, "SELECT id, lexicon_json FROM lexicons", &[]).await;
    assert_eq!(found, json!([{ "id": NOTE, "lexicon_json": document }]));
}

async fn keeps_tables_of_its_own(db: TestDb) {
    fill(&db).await;
    let made = ask(
        &db,
        "CREATE TABLE script_seen (uri text PRIMARY KEY, n integer NOT NULL DEFAULT 0, note text)",
        &[],
    )
    .await
    .unwrap();
    assert_eq!((made.rows, made.changed), (b"[]".to_vec(), None));
    let sql = "INSERT INTO script_seen (uri, n, note) VALUES ($1, $2, $3)";
    let put = ask(&db, sql, &[json!("at://a"), json!(1), json!(null)]).await.unwrap();
    assert_eq!(put.changed, Some(1));
    let again = ask(&db, sql, &[json!("at://a"), json!(1), json!("x")]).await;
    assert!(matches!(again, Err(ScriptSqlError::Database(_))), "{again:?}");
    let sql =
        "INSERT INTO script_seen (uri, n) SELECT uri, 5 FROM records WHERE true ON CONFLICT (uri) DO NOTHING";
    assert_eq!(ask(&db, sql, &[]).await.unwrap().changed, Some(2));
    let sql = "INSERT INTO script_seen (uri, n) VALUES ($1, 1) ON CONFLICT (uri) DO UPDATE SET n = script_seen.n + excluded.n \
               RETURNING uri, n";
    assert_eq!(rows(&db, sql, &[json!("at://a")]).await, json!([{ "uri": "at://a", "n": 2 }]));
    let sql = "SELECT r.rkey, s.n FROM records r JOIN script_seen s ON s.uri = r.uri ORDER BY r.rkey";
    assert_eq!(rows(&db, sql, &[]).await, json!([{ "rkey": "a", "n": 5 }, { "rkey": "b", "n": 5 }]));
    let sql = "UPDATE script_seen SET n = n * 2 WHERE uri IN (SELECT uri FROM records)";
    assert_eq!(ask(&db, sql, &[]).await.unwrap().changed, Some(2));
    ask(&db, "CREATE INDEX script_seen_n ON script_seen (n DESC) WHERE n > 3", &[]).await.unwrap();
    ask(&db, "ALTER TABLE script_seen ADD COLUMN more text", &[]).await.unwrap();
    ask(&db, "ALTER TABLE script_seen RENAME COLUMN more TO extra", &[]).await.unwrap();
    assert_eq!(ask(&db, "DELETE FROM script_seen WHERE n = 10", &[]).await.unwrap().changed, Some(2));
    ask(&db, "ALTER TABLE script_seen RENAME TO script_saw", &[]).await.unwrap();
    assert_eq!(rows(&db, "SELECT * FROM script_saw", &[]).await, json!([{ "uri": "at://a", "n": 2 }]));
    ask(&db, "DROP INDEX script_seen_n", &[]).await.unwrap();
    ask(&db, "DROP TABLE script_saw", &[]).await.unwrap();
    assert!(matches!(error(&db, "SELECT * FROM script_saw").await, ScriptSqlError::Database(_)));
}

async fn finds_records_by_uri_wherever_it_comes_from(db: TestDb) {
    fill(&db).await;
    let (a, b) = (uri(1, NOTE, "a").to_string(), uri(2, LIKE, "b").to_string());
    let keys = async |sql: &str, params: &[Value]| {
        let found = rows(&db, sql, params).await;
        let found =
            found.as_array().unwrap().iter().map(|row| row["rkey"].as_str().unwrap_or("-").to_owned());
        found.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(keys("SELECT rkey FROM records WHERE uri = $1", &[json!(a)]).await, "a");
    assert_eq!(keys("SELECT rkey FROM records WHERE NOT uri = $1", &[json!(a)]).await, "b");
    for nonsense in ["", "at://", "at:", "////////", "at://did:plc:x/y", "x/y/z/1/2/3"] {
        assert_eq!(keys("SELECT rkey FROM records WHERE uri = $1", &[json!(nonsense)]).await, "");
        assert_eq!(
            keys("SELECT rkey FROM records WHERE NOT (uri = $1) ORDER BY 1", &[json!(nonsense)]).await,
            "a b"
        );
    }
    ask(&db, "CREATE TABLE script_x (uri text)", &[]).await.unwrap();
    let sql = "INSERT INTO script_x VALUES ($1), ($2), ('else'), (NULL)";
    ask(&db, sql, &[json!(a), json!(b)]).await.unwrap();
    let sql = "SELECT r.rkey FROM script_x x JOIN records r ON r.uri = x.uri ORDER BY r.indexed_at DESC";
    assert_eq!(keys(sql, &[]).await, "b a");
    let sql =
        "SELECT r.rkey FROM script_x x LEFT JOIN records r ON r.uri = x.uri ORDER BY coalesce(r.rkey, 'z')";
    assert_eq!(keys(sql, &[]).await, "a b - -");
    let sql = "SELECT uri AS rkey FROM script_x WHERE NOT EXISTS (SELECT 1 FROM records WHERE uri = script_x.uri) \
               AND uri IS NOT NULL";
    assert_eq!(keys(sql, &[]).await, "else");
}

async fn is_seen_by_another_host(db: TestDb) {
    ask(&db, "CREATE TABLE script_shared (n integer)", &[]).await.unwrap();
    let other = Db::open(&db.url, 2).await.unwrap();
    assert_eq!(ask(&other, "INSERT INTO script_shared VALUES (1)", &[]).await.unwrap().changed, Some(1));
    assert_eq!(rows(&db, "SELECT n FROM script_shared", &[]).await, json!([{ "n": 1 }]));
    apply(&other, 1, vec![put(&uri(1, NOTE, "x"), 1, "{}")]).await;
    assert_eq!(rows(&db, "SELECT rkey FROM records", &[]).await, json!([{ "rkey": "x" }]));
    other.close().await;
}

async fn is_stopped(db: TestDb) {
    let pairs = "SELECT count(*) AS n FROM records a, records b, records c, records d, records e";
    let changes = (0..300).map(|n| put(&uri(n, NOTE, &format!("r{n}")), 1, "{}")).collect();
    apply(&db, 1, changes).await;
    assert!(matches!(error(&db, pairs).await, ScriptSqlError::TooSlow));
    // Other statements still work.
    assert_eq!(rows(&db, "SELECT count(*) AS n FROM records", &[]).await, json!([{ "n": 300 }]));
    let forever = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n";
    // On PostgreSQL the rows may exceed the limit of temporary files first.
    assert!(matches!(error(&db, forever).await, ScriptSqlError::TooSlow | ScriptSqlError::TemporaryFiles));
    let many = "SELECT a.rkey FROM records a, records b";
    assert!(matches!(error(&db, many).await, ScriptSqlError::TooManyRows));
    let exactly = format!("SELECT a.rkey FROM records a, records b LIMIT {MAX_ROWS}");
    assert_eq!(ask(&db, &exactly, &[]).await.unwrap().count, MAX_ROWS);
    let big =
        "SELECT string_agg(r.uri, 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx') AS t FROM records r, records s";
    let refused = error(&db, big).await;
    // PostgreSQL does not limit aggregates that collect rows, so the guard refuses them there.
    match db.backend() {
        Backend::Sqlite => {
            assert!(matches!(refused, ScriptSqlError::TooLarge | ScriptSqlError::Database(_)), "{refused}");
        }
        Backend::Postgres => assert!(matches!(refused, ScriptSqlError::Refused(_)), "{refused}"),
    }
    let doubling = "WITH RECURSIVE t(i, s) AS (SELECT 1, CAST('xxxxxxxxxxxxxxxx' AS text) \
                    UNION ALL SELECT i + 1, s || s FROM t WHERE i < 30) SELECT length(max(s)) FROM t";
    let refused = ask(&db, doubling, &[]).await;
    assert!(!matches!(refused, Err(ScriptSqlError::Store(_))), "{refused:?}");
}

async fn can_make_only_so_many_tables(db: TestDb) {
    let mut made = 0;
    let refused = loop {
        match ask(&db, &format!("CREATE TABLE script_t{made} (n integer)"), &[]).await {
            Ok(_) => made += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, ScriptSqlError::TooManyRelations), "{refused}");
    assert_eq!(made, MAX_OWN_RELATIONS);
}

async fn finds_no_secrets(db: TestDb) {
    let tables = match &*db {
        Db::Sqlite(_) => "SELECT name FROM sqlite_schema WHERE type = 'table'",
        Db::Postgres(_) => "SELECT c.relname::text FROM pg_class c WHERE c.relkind IN ('r', 'v')",
    };
    let names: Vec<String> = match &*db {
        Db::Sqlite(db) => sqlx::query_scalar(tables).fetch_all(&db.reader).await,
        Db::Postgres(db) => sqlx::query_scalar(tables).fetch_all(&db.pool).await,
    }
    .unwrap();
    assert!(names.iter().any(|name| name == "api_keys"));
    for name in names.iter().filter(|name| !script_sql::guard::VIEWS.contains(&name.as_str())) {
        let refused = error(&db, &format!("SELECT * FROM {name}")).await;
        assert!(matches!(&refused, ScriptSqlError::Refused(_)), "{refused}");
        assert!(refused.to_string().contains(name.as_str()), "the refusal names {name}: {refused}");
    }
}

/// SQLite does not check the text of a JSON column.
#[tokio::test]
async fn a_json_column_of_sqlite_can_hold_any_text() {
    let db = testing::sqlite().await;
    ask(&db, "CREATE TABLE script_j (data json)", &[]).await.unwrap();
    let sql = "INSERT INTO script_j VALUES ($1), ($2), ($3), (NULL)";
    ask(&db, sql, &[json!("{broken"), json!("[1, 2]"), json!(5)]).await.unwrap();
    let found = rows(&db, "SELECT data FROM script_j", &[]).await;
    assert_eq!(found, json!([{ "data": "{broken" }, { "data": [1, 2] }, { "data": 5 }, {}]));
}

/// Own tables are created in a file beside the index.
#[tokio::test]
async fn own_tables_are_beside_the_index() {
    let db = testing::sqlite().await;
    ask(&db, "CREATE TABLE script_t (n integer)", &[]).await.unwrap();
    let path = std::path::PathBuf::from(db.url.trim_start_matches("sqlite://"));
    assert!(path.with_extension("scripts.db").exists());
    let Db::Sqlite(index) = &*db else { unreachable!("the test opened SQLite") };
    let count: i64 =
        sqlx::query_scalar("SELECT count(*) FROM sqlite_schema WHERE name LIKE 'script\\_t' ESCAPE '\\'")
            .fetch_one(&index.reader)
            .await
            .unwrap();
    assert_eq!(count, 0);
}

/// The secret in the table `canary`, which scripts can't read.
const CANARY: &str = "canary-b7d1f0";

async fn plant_canary(db: &Db) {
    let statements =
        ["CREATE TABLE canary (secret text)".to_owned(), format!("INSERT INTO canary VALUES ('{CANARY}')")];
    for sql in statements {
        let sql = sqlx::AssertSqlSafe(sql);
        match db {
            Db::Sqlite(db) => drop(sqlx::query(sql).execute(&db.writer).await.unwrap()),
            Db::Postgres(db) => drop(sqlx::query(sql).execute(&db.pool).await.unwrap()),
        }
    }
}
