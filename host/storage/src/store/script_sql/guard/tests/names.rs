//! Tests of how names are resolved, and of the limits on arguments and calls.

use serde_json::json;

use super::super::*;
use super::{BOTH, catalog, on, written};

fn refused(backend: Backend, sql: &str) -> GuardError {
    match on(backend, sql) {
        Err(refusal) => refusal,
        Ok(statement) => panic!("{backend:?} {sql} became {}", statement.sql),
    }
}

#[test]
fn a_name_must_be_a_column_of_a_visible_relation() {
    for sql in [
        "SELECT secret FROM records",
        "SELECT records FROM records",
        "SELECT r FROM records r",
        "SELECT r.ts_stat FROM records r",
        "SELECT records.uri FROM records r",
        "SELECT x.n FROM (SELECT uri FROM records) x",
        "SELECT uri FROM (SELECT uri AS u FROM records) x",
        "SELECT a.b FROM (WITH a AS (SELECT 1 AS b) SELECT b FROM a) x",
        "SELECT x.u FROM records r, (SELECT r.uri AS u) x",
        "SELECT uri FROM records UNION SELECT secret FROM labels",
        "SELECT uri FROM records UNION SELECT uri FROM labels ORDER BY did",
        "SELECT 1 FROM records WHERE uri IN (SELECT secret FROM labels)",
        "SELECT 1 FROM records JOIN record_refs USING (uri)",
        "SELECT q.* FROM records",
        "INSERT INTO script_x (secret) VALUES (1)",
        "INSERT INTO script_x (n) VALUES (uri)",
        "INSERT INTO script_x (n) VALUES (1) ON CONFLICT (secret) DO NOTHING",
        "INSERT INTO script_x (n) VALUES (1) RETURNING excluded.n",
        "UPDATE script_x SET secret = 1",
        "UPDATE script_x SET n = secret",
        "DELETE FROM script_x WHERE secret = 1",
        "CREATE TABLE script_y (a integer CHECK (b > 1))",
        "CREATE TABLE script_y (a integer DEFAULT (a))",
        "CREATE TABLE script_y (a integer, PRIMARY KEY (b))",
        "CREATE TABLE script_y (a integer REFERENCES script_x (secret))",
        "CREATE INDEX script_i ON script_x (secret)",
        "CREATE INDEX script_i ON script_x (n) WHERE secret = 1",
        "ALTER TABLE script_x DROP COLUMN secret",
        "ALTER TABLE script_x RENAME COLUMN secret TO n",
    ] {
        for backend in BOTH {
            assert!(
                matches!(refused(backend, sql), GuardError::Column(_)),
                "{backend:?} {sql}: {:?}",
                on(backend, sql)
            );
        }
    }
    for backend in BOTH {
        assert!(matches!(refused(backend, "SELECT uri FROM records r, labels l"), GuardError::Ambiguous(_)));
        assert!(matches!(refused(backend, "SELECT 1 FROM records, records"), GuardError::Unsupported(_)));
        assert!(matches!(refused(backend, "SELECT n FROM script_gone"), GuardError::Missing(_)));
        // The innermost relation with the name hides the outer one.
        let shadowed = "SELECT 1 FROM records a WHERE EXISTS (SELECT a.src FROM labels a WHERE did = a.val)";
        assert!(written(backend, shadowed).contains("src"));
        assert!(on(backend, "SELECT 1 FROM records a WHERE EXISTS (SELECT a.did FROM labels a)").is_err());
    }
}

#[test]
fn every_relation_has_a_unique_alias() {
    let sql = "SELECT t.value, t.key FROM script_x x, jsonb_each_text('{}') AS t WHERE x.n = 1";
    assert_eq!(
        written(Backend::Postgres, sql),
        "SELECT \"t2\".\"value\" AS \"value\", \"t2\".\"key\" AS \"key\" FROM script_tables.\"script_x\" AS \"t1\", \
         LATERAL (SELECT * FROM jsonb_each_text('{}')) AS \"t2\" (\"key\", \"value\") WHERE (\"t1\".\"n\" = 1)"
    );
    let sql = "WITH t1 AS (SELECT uri FROM records) SELECT t1.uri FROM t1 JOIN labels ON labels.uri = t1.uri";
    assert_eq!(
        written(Backend::Sqlite, sql),
        "WITH `cte_1` AS (SELECT `t2`.`uri` AS `uri` FROM temp.`records_lean` AS `t2`) \
         SELECT `t3`.`uri` AS `uri` FROM `cte_1` AS `t3` JOIN temp.`labels` AS `t4` ON (`t4`.`uri` = `t3`.`uri`)"
    );
    // The value of a function can be named by the function's alias.
    let sql = "SELECT tag FROM jsonb_array_elements_text('[]') AS tag";
    assert!(
        written(Backend::Postgres, sql)
            .starts_with("SELECT \"t1\".\"value\" AS \"tag\" FROM LATERAL (SELECT")
    );
}

#[test]
fn result_columns_can_be_named() {
    for backend in BOTH {
        written(backend, "SELECT did AS d, count(*) AS n FROM records GROUP BY d ORDER BY n DESC, d");
        written(backend, "SELECT did FROM records UNION SELECT src FROM labels ORDER BY did");
        written(backend, "SELECT collection AS uri, did FROM records GROUP BY uri, did ORDER BY uri");
        written(backend, "SELECT * FROM script_other NATURAL JOIN (SELECT id FROM lexicons) l ORDER BY id");
    }
    written(
        Backend::Sqlite,
        "SELECT s.rowid, r.record ->> 'a' AS b FROM records r, script_seen s WHERE b IS NULL",
    );
    assert!(on(Backend::Postgres, "SELECT did AS d FROM records WHERE d = 'x'").is_err());
    assert!(on(Backend::Postgres, "SELECT ctid FROM script_x").is_err());
}

#[test]
fn arguments_that_take_long_are_bounded() {
    let long = "x".repeat(300);
    for (backend, sql) in [
        (Backend::Sqlite, "SELECT instr(uri, $1) FROM records"),
        (Backend::Sqlite, "SELECT rtrim(uri, $1) FROM records"),
        (Backend::Sqlite, "SELECT replace(uri, $1, '') FROM records"),
        (Backend::Postgres, "SELECT btrim(uri, $1) FROM records"),
        (Backend::Postgres, "SELECT trim(both $1 from uri) FROM records"),
        (Backend::Postgres, "SELECT translate(uri, $1, '') FROM records"),
        (Backend::Postgres, "SELECT 1 FROM records WHERE uri LIKE $1"),
        (Backend::Postgres, "SELECT 1 FROM records WHERE uri ~ $1"),
        (Backend::Postgres, "SELECT position($1 in uri) FROM records"),
    ] {
        let refused = check(sql, &[json!(long)], backend, &catalog()).unwrap_err();
        assert!(matches!(refused, GuardError::TooLong { .. }), "{sql}: {refused}");
        check(sql, &[json!("x")], backend, &catalog()).unwrap();
        // The length of other expressions is checked by the database.
        let unknown = check(&sql.replace("$1", "did"), &[], backend, &catalog()).unwrap().sql;
        assert!(unknown.contains("short("), "{unknown}");
    }
    let calls = |n: usize| format!("SELECT {}", vec!["lower('a')"; n].join(", "));
    for backend in BOTH {
        written(backend, &calls(MAX_CALLS as usize));
        assert_eq!(refused(backend, &calls(MAX_CALLS as usize + 1)), GuardError::TooManyCalls);
        // The calls of a subquery's column count for each use of the column.
        let inner = format!("(SELECT {} AS x) AS t", vec!["lower('a')"; 20].join(" || "));
        written(backend, &format!("SELECT x FROM {inner}"));
        assert_eq!(refused(backend, &format!("SELECT x, x, x FROM {inner}")), GuardError::TooManyCalls);
    }
    let mut nested = "SELECT 1 AS x".to_owned();
    for level in 0..20 {
        nested = format!("SELECT x + x AS x FROM ({nested}) AS t{level}");
    }
    for backend in BOTH {
        assert_eq!(refused(backend, &nested), GuardError::TooLarge);
    }
    let param = json!("x".repeat(MAX_PARAM_BYTES + 1));
    assert_eq!(check("SELECT $1", &[param], Backend::Sqlite, &catalog()).unwrap_err(), GuardError::TooLarge);
}
