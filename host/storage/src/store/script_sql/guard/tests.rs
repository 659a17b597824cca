//! Tests of the guard: which statements it allows and generates, and which it refuses.

use serde_json::json;

use super::*;

mod bounds;
mod names;
mod writes;

const BOTH: [Backend; 2] = [Backend::Sqlite, Backend::Postgres];

/// The own tables of these tests.
fn catalog() -> Catalog {
    let mut catalog = Catalog::default();
    for (table, columns) in [
        ("script_seen", "uri n of more"),
        ("script_other", "id"),
        ("script_x", "n uri id indexed_at did a"),
        ("script_log", "id at what"),
    ] {
        columns.split(' ').for_each(|column| catalog.add(table, column, false));
    }
    catalog
}

fn on(backend: Backend, sql: &str) -> Result<Statement, GuardError> {
    check(sql, &[], backend, &catalog())
}

fn written(backend: Backend, sql: &str) -> String {
    on(backend, sql).unwrap_or_else(|refusal| panic!("{sql}: {refusal}")).sql
}

#[test]
fn generates_a_select() {
    let sql = "select Uri, r.record->>'text' as T -- a comment\n from Records r where did = 'it''s' and (rkey or not indexed_us) limit 5;";
    assert_eq!(
        written(Backend::Sqlite, sql),
        "SELECT `t1`.`uri` AS `Uri`, (`t1`.`record` ->> 'text') AS `T` FROM temp.`records_lean` AS `t1` \
         WHERE ((`t1`.`did` = 'it''s') AND (`t1`.`rkey` OR (NOT `t1`.`indexed_us`))) LIMIT 5"
    );
    assert_eq!(
        written(Backend::Postgres, sql),
        "SELECT \"t1\".\"uri\" AS \"uri\", ((\"t1\".\"record\" ->> 'text') COLLATE \"C\") AS \"t\" \
         FROM script_views.\"records_lean\" AS \"t1\" \
         WHERE ((\"t1\".\"did\" = 'it''s') AND (\"t1\".\"rkey\" OR (NOT \"t1\".\"indexed_us\"))) LIMIT 5"
    );
}

#[test]
fn allows_what_scripts_need() {
    for sql in [
        "SELECT 1",
        "SELECT count(*), count(DISTINCT did) FROM records GROUP BY collection HAVING count(*) > 2 ORDER BY 1 DESC",
        "SELECT * FROM records r JOIN record_refs f ON f.source_uri = r.uri LEFT JOIN labels l ON l.uri = r.uri",
        "SELECT r.* FROM records r, script_seen s WHERE s.uri = r.uri AND r.rkey NOT IN ('a', 'b')",
        "WITH t AS (SELECT did FROM records) SELECT * FROM t AS x WHERE EXISTS (SELECT 1 FROM t WHERE t.did = x.did)",
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5) SELECT i FROM n",
        "SELECT did FROM records UNION SELECT id FROM lexicons ORDER BY did LIMIT 3 OFFSET 1",
        "SELECT CASE WHEN did LIKE 'did:web:%' ESCAPE '!' THEN 1 ELSE 0 END, CAST(record ->> 'n' AS integer) FROM records",
        "SELECT row_number() OVER (PARTITION BY did ORDER BY indexed_us DESC ROWS BETWEEN 1 PRECEDING AND CURRENT ROW), \
         sum(1) FILTER (WHERE rkey BETWEEN 'a' AND 'b') FROM records",
        "SELECT substr(did, 1, 3), trim(both ' ' from rkey), upper(rkey), coalesce(cid, '') FROM records WHERE cid IS NOT NULL",
        "INSERT INTO script_seen (uri, n) VALUES ('a', 1), ('b', 2) ON CONFLICT (uri) DO UPDATE SET n = excluded.n + 1",
        "INSERT INTO script_seen SELECT uri, 1 FROM records ON CONFLICT DO NOTHING",
        "UPDATE script_seen SET n = n + 1 WHERE uri IN (SELECT uri FROM records) RETURNING n",
        "DELETE FROM script_seen WHERE n < 3 RETURNING *",
        "CREATE TABLE IF NOT EXISTS script_seen (uri text PRIMARY KEY, n integer NOT NULL DEFAULT 0 CHECK (n >= 0), \
         of text REFERENCES script_other (id) ON DELETE CASCADE, UNIQUE (n, uri))",
        "CREATE UNIQUE INDEX script_by_n ON script_seen (n, lower(uri) DESC) WHERE n > 3",
        "ALTER TABLE script_seen ADD COLUMN more text",
        "ALTER TABLE script_seen RENAME TO script_saw",
        "DROP TABLE IF EXISTS script_seen",
        "DROP INDEX script_by_n",
    ] {
        for backend in BOTH {
            written(backend, sql);
        }
    }
    written(Backend::Sqlite, "SELECT e.value FROM records, json_each(record, '$.tags') AS e");
    written(Backend::Sqlite, "INSERT OR REPLACE INTO script_seen VALUES (1)");
    written(
        Backend::Postgres,
        "SELECT t FROM records, jsonb_array_elements_text(record -> 'tags') AS t WHERE did ILIKE 'x%'",
    );
    written(
        Backend::Postgres,
        "SELECT DISTINCT ON (did) did FROM records WHERE record @> '{\"a\": 1}' AND did = ANY (ARRAY['a'])",
    );
    written(
        Backend::Postgres,
        "CREATE TABLE script_log (id bigserial PRIMARY KEY, at timestamptz DEFAULT now(), what jsonb)",
    );
}

#[test]
fn other_relations_are_refused_however_they_are_written() {
    for sql in [
        "SELECT * FROM api_keys",
        "SELECT * FROM API_KEYS",
        "SELECT * FROM \"api_keys\"",
        "SELECT * FROM api_keys AS records",
        "SELECT * FROM records, api_keys",
        "SELECT * FROM records JOIN users ON 1 = 1",
        "SELECT (SELECT key_hash FROM api_keys LIMIT 1)",
        "SELECT * FROM records WHERE did IN (SELECT did FROM users)",
        "SELECT * FROM records WHERE EXISTS (SELECT 1 FROM scripts)",
        "SELECT * FROM (SELECT * FROM settings) AS records",
        "SELECT 1 FROM records GROUP BY did HAVING count(*) > (SELECT count(*) FROM users)",
        "SELECT 1 FROM records ORDER BY (SELECT id FROM users)",
        "SELECT 1 LIMIT (SELECT count(*) FROM users)",
        "SELECT 1 UNION SELECT key_hash FROM api_keys",
        "WITH records AS (SELECT * FROM api_keys) SELECT * FROM records",
        "WITH a AS (SELECT 1) SELECT * FROM a, (WITH b AS (SELECT * FROM users) SELECT * FROM b) c",
        "WITH a AS (WITH b AS (SELECT 1) SELECT * FROM b) SELECT * FROM b",
        "SELECT * FROM public.records",
        "SELECT * FROM main.records",
        "SELECT * FROM temp.records",
        "SELECT * FROM belvedere.records",
        "SELECT * FROM script_views.records",
        "SELECT * FROM public.script_mine",
        "SELECT * FROM \"public.records\"",
        "SELECT * FROM \"public\".\"api_keys\"",
        "SELECT * FROM /* records */ api_keys",
        "SELECT * FROM api_keys -- records",
        "SELECT * FROM api\u{fb01}keys",
        "SELECT * FROM \u{ff41}pi_keys",
        "SELECT * FROM record\u{17f}",
        "SELECT * FROM \"records\u{200b}\"",
        "SELECT * FROM dids",
        "SELECT * FROM sqlite_master",
        "SELECT * FROM sqlite_schema",
        "SELECT * FROM dbstat",
        "SELECT * FROM pg_catalog.pg_class",
        "SELECT * FROM pg_class",
        "SELECT * FROM pg_shadow",
        "SELECT * FROM information_schema.tables",
        "SELECT * FROM _sqlx_migrations",
        "SELECT * FROM script_",
        "SELECT * FROM scripts",
        "INSERT INTO script_x SELECT key_hash FROM api_keys",
        "UPDATE script_x SET n = (SELECT id FROM users)",
        "UPDATE script_x SET n = u.id FROM users u",
        "DELETE FROM script_x WHERE n IN (SELECT id FROM users)",
        "INSERT INTO script_x VALUES (1) RETURNING (SELECT key_hash FROM api_keys)",
        "INSERT INTO script_x VALUES (1) ON CONFLICT (n) DO UPDATE SET n = (SELECT id FROM users)",
        "CREATE TABLE script_x (n integer DEFAULT (SELECT id FROM users))",
        "CREATE TABLE script_x (n integer REFERENCES users (id))",
        "CREATE INDEX script_i ON api_keys (key_hash)",
    ] {
        for backend in BOTH {
            let refused = on(backend, sql);
            assert!(
                matches!(
                    refused,
                    Err(GuardError::Table(_)
                        | GuardError::NotYours(_)
                        | GuardError::Name(_)
                        | GuardError::Syntax(_))
                ),
                "{backend:?} {sql}: {refused:?}"
            );
        }
    }
    // The error has the name as the script wrote it.
    let refused = on(Backend::Sqlite, "SELECT * FROM API_keys").unwrap_err();
    assert!(refused.to_string().starts_with("table API_keys can't be used"), "{refused}");
    assert!(refused.is_forbidden());
}

#[test]
fn other_functions_types_and_literals_are_refused() {
    for sql in [
        "SELECT load_extension('x')",
        "SELECT LOAD_EXTENSION('x')",
        "SELECT \"load_extension\"('x')",
        "SELECT readfile('/etc/passwd')",
        "SELECT writefile('/tmp/x', 'y')",
        "SELECT sqlite_compileoption_get(1)",
        "SELECT zeroblob(1000000000)",
        "SELECT randomblob(1000000000)",
        "SELECT printf('%.*c', 1000000000, 'x')",
        "SELECT format('%1000000000s', 'x')",
        "SELECT * FROM pragma_table_info('api_keys')",
        "SELECT * FROM generate_series(1, 1000000000)",
        "SELECT repeat('x', 1000000000)",
        "SELECT lpad('x', 1000000000)",
        "SELECT pg_sleep(100)",
        "SELECT pg_catalog.pg_sleep(100)",
        "SELECT pg_read_file('/etc/passwd')",
        "SELECT pg_ls_dir('.')",
        "SELECT lo_import('/etc/passwd')",
        "SELECT current_setting('data_directory')",
        "SELECT set_config('search_path', 'public', false)",
        "SELECT query_to_xml('SELECT * FROM api_keys', true, true, '')",
        "SELECT table_to_xml('api_keys', true, true, '')",
        "SELECT database_to_xml(true, true, '')",
        "SELECT dblink('host=x', 'SELECT 1')",
        "SELECT pg_terminate_backend(1)",
        "SELECT pg_advisory_lock(1)",
        "SELECT nextval('x')",
        "SELECT to_regclass('api_keys')",
        "SELECT 'api_keys'::regclass",
        "SELECT CAST('api_keys' AS regclass)",
        "SELECT CAST(1 AS pg_catalog.oid)",
        "SELECT ts_stat('SELECT 1')",
        "SELECT * FROM ts_stat('SELECT key_hash FROM api_keys')",
        "SELECT * FROM json_to_recordset('[]') AS x(a int)",
        "SELECT version()",
        "SELECT E'\\'; DROP TABLE records; --'",
        "SELECT $$x$$",
        "SELECT $tag$x$tag$",
        "SELECT X'00'",
        "SELECT N'x'",
        "SELECT a OPERATOR(pg_catalog.+) b FROM records",
        "SELECT records FROM records.records.records.records",
        "SELECT a.b.c FROM records",
        "SELECT (records).did FROM records",
        "SELECT :name",
        "SELECT @name",
    ] {
        for backend in BOTH {
            assert!(on(backend, sql).is_err(), "{backend:?} {sql}");
        }
    }
    // On SQLite `U&` is a column `U` and an operator.
    for sql in ["SELECT U&'\\0061pi_keys'", "SELECT * FROM U&\"\\0061pi_keys\""] {
        assert!(on(Backend::Postgres, sql).is_err(), "{sql}");
    }
}

#[test]
fn functions_with_unlimited_memory_are_refused_on_postgres() {
    for sql in [
        "SELECT array_agg(rkey) FROM records",
        "SELECT string_agg(rkey, ',') FROM records",
        "SELECT json_agg(rkey) FROM records",
        "SELECT jsonb_agg(rkey) FROM records",
        "SELECT json_object_agg(rkey, did) FROM records",
        "SELECT jsonb_path_exists(record, '$[*]?(exists(@.a))') FROM records",
        "SELECT jsonb_path_query_first(record, '$.a') FROM records",
        "SELECT rkey FROM records, jsonb_path_query(record, '$.a') AS q(v)",
    ] {
        let error = on(Backend::Postgres, sql).unwrap_err().to_string();
        assert!(error.contains("_agg") || error.contains("jsonb_path"), "{sql}: {error}");
    }
    assert!(on(Backend::Sqlite, "SELECT string_agg(rkey, ',') FROM records").is_ok());
}

#[test]
fn texts_are_quoted_again() {
    for (sql, text) in [
        ("SELECT '\\'", "SELECT '\\'"),
        ("SELECT '''; DROP TABLE x; --'", "SELECT '''; DROP TABLE x; --'"),
        ("SELECT '/*' || '*/'", "SELECT ('/*' || '*/')"),
    ] {
        assert_eq!(written(Backend::Sqlite, sql), text);
        // On PostgreSQL the result of `||` is checked.
        let text = text.replace("('/*' || '*/')", "script_views.fits(('/*' || '*/'))");
        assert_eq!(written(Backend::Postgres, sql), text);
    }
    for name in ["a\"b", "a`b", "a]b", "a b", "a.b", "a'b", "a;b", "ä"] {
        for sql in [
            format!("SELECT \"{}\" FROM records", name.replace('"', "\"\"")),
            format!("SELECT 1 AS \"{}\"", name.replace('"', "\"\"")),
        ] {
            for backend in BOTH {
                assert!(on(backend, &sql).is_err(), "{sql}");
            }
        }
    }
}

#[test]
fn conditions_and_orders_are_rewritten_for_an_index() {
    let params = [json!("at://did:plc:a/b.c.d/e")];
    let sql = "SELECT 1 FROM records WHERE uri = $1";
    let found = check(sql, &params, Backend::Postgres, &catalog()).unwrap().sql;
    assert_eq!(
        found,
        "SELECT 1 FROM script_views.\"records_lean\" AS \"t1\" WHERE (\"t1\".\"uri\" = $1 \
         AND \"t1\".\"did\" = split_part($1, '/', 3) AND \"t1\".\"collection\" = split_part($1, '/', 4) \
         AND \"t1\".\"collection_id\" = script_views.collection_id(split_part($1, '/', 4)) \
         AND \"t1\".\"rkey\" = split_part($1, '/', 5))"
    );
    let quick = |sql: &str| written(Backend::Sqlite, sql).contains("`rkey` = substr");
    assert!(quick("SELECT 1 FROM records WHERE 'at://x' = URI"));
    assert!(quick("SELECT 1 FROM records AS R, script_x x WHERE r.uri = x.uri"));
    assert!(quick("SELECT 1 FROM script_x x LEFT JOIN records r ON x.uri = r.uri"));
    assert!(quick("SELECT 1 FROM script_x WHERE EXISTS (SELECT 1 FROM records WHERE uri = script_x.uri)"));
    assert!(quick("SELECT 1 FROM records r WHERE EXISTS (SELECT 1 FROM script_x x WHERE x.uri = r.uri)"));
    assert!(quick("UPDATE script_x SET n = 1 FROM records r WHERE script_x.uri = r.uri"));
    assert!(!quick("SELECT 1 FROM labels WHERE uri = 'at://x'"));
    assert!(!quick("SELECT 1 FROM records, labels WHERE labels.uri = 'at://x'"));
    assert!(!quick("SELECT 1 FROM labels records WHERE records.uri = 'at://x'"));
    assert!(!quick("SELECT 1 FROM records WHERE uri = 5"));
    assert!(!quick("SELECT 1 FROM records WHERE uri <> 'at://x'"));
    assert!(!quick("DELETE FROM script_x WHERE uri = 'at://x'"));

    let lean = |backend, sql: &str| written(backend, sql).contains("records_lean");
    for backend in BOTH {
        assert!(lean(backend, "SELECT count(*), count( * ) FROM records"));
        assert!(!lean(backend, "SELECT r.*, 1 FROM records r"));
        assert!(!lean(backend, "WITH t AS (SELECT * FROM records) SELECT did FROM t"));
        assert_eq!(lean(backend, "SELECT CID FROM records"), backend == Backend::Postgres);
    }
    let known = |sql: &str| written(Backend::Postgres, sql).contains("script_views.collection_id(");
    assert!(known("SELECT did FROM records WHERE collection = 'a.b.c'"));
    assert!(known("SELECT r.did FROM records r, labels l WHERE 'a.b.c' = r.collection"));
    assert!(known("SELECT source_uri FROM record_refs WHERE collection = 'a.b.c'"));
    assert!(known("SELECT did FROM records WHERE uri = 'at://did:plc:a/b.c.d/e'"));
    assert!(!known("SELECT r.did FROM records r, labels l WHERE r.uri = l.uri"));
    assert!(!known("SELECT nsid FROM (SELECT collection AS nsid FROM records) r WHERE nsid = 'a.b.c'"));
    assert!(!known("SELECT * FROM record_refs WHERE collection = 'a.b.c'"));
    assert!(!known("SELECT * FROM records WHERE collection = 'a.b.c'"));
    assert!(on(Backend::Postgres, "SELECT collection_id FROM records_lean").is_err());
    assert!(on(Backend::Postgres, "SELECT id FROM collection_ids").is_err());

    let orders = |sql: &str| written(Backend::Sqlite, sql).contains("indexed_us");
    assert!(orders("SELECT uri FROM records ORDER BY indexed_at DESC LIMIT 3"));
    assert!(orders("SELECT r.uri FROM records r, script_x x ORDER BY r.indexed_at"));
    assert!(!orders("SELECT x.indexed_at FROM records r, script_x x ORDER BY x.indexed_at"));
    assert!(!orders("SELECT uri AS indexed_at FROM records ORDER BY indexed_at"));
    assert!(!orders("SELECT DISTINCT indexed_at FROM records ORDER BY indexed_at"));
    assert!(!orders("SELECT indexed_at FROM records GROUP BY indexed_at ORDER BY indexed_at"));
    assert!(!orders("SELECT indexed_at FROM records UNION SELECT cts FROM labels ORDER BY indexed_at"));
}
