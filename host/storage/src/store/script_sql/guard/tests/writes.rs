//! Tests that only own tables can be written, and that other statements are refused.

use super::super::*;
use super::{BOTH, on};

#[test]
fn only_own_tables_can_be_written() {
    for sql in [
        "INSERT INTO records (did) VALUES ('x')",
        "UPDATE records SET record = '{}'",
        "DELETE FROM records",
        "DELETE FROM labels WHERE 1 = 1",
        "INSERT INTO main.script_x VALUES (1)",
        "INSERT INTO pg_catalog.script_x VALUES (1)",
        "CREATE TABLE records (a integer)",
        "CREATE TABLE mine (a integer)",
        "CREATE TABLE public.script_x (a integer)",
        "CREATE TABLE belvedere.script_x (a integer)",
        "CREATE INDEX script_i ON records (did)",
        "CREATE INDEX i ON script_x (did)",
        "ALTER TABLE records RENAME TO script_records",
        "ALTER TABLE script_x RENAME TO records",
        "DROP TABLE records",
        "DROP TABLE api_keys",
        "DROP INDEX records_list",
    ] {
        for backend in BOTH {
            let refused = on(backend, sql);
            assert!(matches!(refused, Err(GuardError::NotYours(_))), "{backend:?} {sql}: {refused:?}");
        }
    }
}

#[test]
fn other_and_multiple_statements_are_refused() {
    for sql in [
        "PRAGMA query_only = off",
        "ATTACH DATABASE '/etc/passwd' AS x",
        "DETACH DATABASE belvedere",
        "VACUUM INTO '/tmp/x'",
        "CREATE VIEW script_v AS SELECT * FROM api_keys",
        "CREATE TEMP TABLE script_x (a integer)",
        "CREATE TEMPORARY VIEW script_v AS SELECT 1",
        "CREATE VIRTUAL TABLE script_v USING fts5(a)",
        "CREATE TRIGGER script_t AFTER INSERT ON script_x BEGIN SELECT 1; END",
        "CREATE TABLE script_x AS SELECT * FROM api_keys",
        "CREATE TABLE script_x (LIKE api_keys)",
        "CREATE FUNCTION script_f() RETURNS int LANGUAGE sql AS $$ SELECT 1 $$",
        "DO $$ BEGIN END $$",
        "COPY records TO '/tmp/x'",
        "COPY script_x FROM PROGRAM 'id'",
        "SET ROLE postgres",
        "SET search_path = public",
        "RESET ALL",
        "SHOW data_directory",
        "EXPLAIN SELECT 1",
        "EXPLAIN ANALYZE DELETE FROM script_x",
        "BEGIN",
        "COMMIT",
        "ROLLBACK",
        "SAVEPOINT x",
        "LOCK TABLE records",
        "GRANT ALL ON records TO public",
        "TRUNCATE script_x",
        "CALL x()",
        "PREPARE x AS SELECT 1",
        "EXECUTE x",
        "LISTEN x",
        "NOTIFY x",
        "MERGE INTO script_x USING records ON 1 = 1 WHEN MATCHED THEN DELETE",
        "DROP VIEW records",
        "DROP SCHEMA public",
        "DROP TABLE script_x CASCADE",
        "DROP TABLE script_x, records",
        "ALTER TABLE script_x OWNER TO postgres",
        "SELECT 1; SELECT 2",
        "SELECT 1; DROP TABLE records",
        "SELECT 1;; DELETE FROM script_x;",
        "SELECT * INTO script_y FROM records",
        "SELECT * FROM records FOR UPDATE",
        "WITH x AS (DELETE FROM script_x RETURNING *) SELECT * FROM x",
        "WITH x AS (INSERT INTO records VALUES (1) RETURNING *) SELECT * FROM x",
        "TABLE api_keys",
        "VALUES (1); VALUES (2)",
        "",
        " ; ",
        "-- nothing",
        "/* nothing */",
    ] {
        for backend in BOTH {
            assert!(on(backend, sql).is_err(), "{backend:?} {sql}");
        }
    }
    assert_eq!(on(Backend::Sqlite, "SELECT 1; SELECT 2").unwrap_err(), GuardError::Several);
    assert_eq!(on(Backend::Sqlite, " ; ").unwrap_err(), GuardError::Empty);
}
