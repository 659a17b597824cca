//! The migration that partitions `records` and `record_refs`: reads go on while it copies, it can be killed, and afterwards
//! everything is there.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sqlx::{AssertSqlSafe, Connection, PgConnection};
use tokio_util::sync::CancellationToken;

use super::fixtures::*;
use super::older::{self, one, waiting};

use crate::store::{Db, POSTGRES_MIGRATIONS, records};

/// The migration's number.
const PARTITIONS: i64 = 44;

/// Records of each of the three collections in the old tables.
const RECORDS: i64 = 700;

/// The rows of the old tables: records, references, invalid records, tombstones, indexes of fields and an operator's
/// own.
const FILL: &str = r"
    CREATE EXTENSION IF NOT EXISTS pg_trgm;
    INSERT INTO dids (did) SELECT 'did:plc:' || lpad(n::text, 24, '0') FROM generate_series(1, 50) n;
    INSERT INTO collections (nsid) VALUES ('com.example.note'), ('com.example.like'), ('com.example.post');
    INSERT INTO records (collection_id, did_id, rkey, cid, cid_verified, rev, indexed_at, updated_at, record)
    SELECT c, 1 + n % 50, 'r' || n, decode('01711220' || repeat('ab', 32), 'hex'), n % 2 = 0, n, n, n,
        jsonb_build_object('n', n, 'text', 'text ' || n, 'long', CASE WHEN n % 100 = 0 THEN repeat(md5(n::text), 600) END)
    FROM generate_series(1, 3) c, generate_series(1, 700) n;
    DELETE FROM records WHERE id % 100 = 3;
    INSERT INTO records (collection_id, did_id, rkey, cid_verified, rev, indexed_at, updated_at, record)
    SELECT collection_id, did_id, rkey || 'b', false, rev, indexed_at, updated_at, record FROM records WHERE id % 100 = 4;
    INSERT INTO record_refs (target, collection_id, record_id) SELECT 'at://' || id % 7, collection_id, id FROM records;
    INSERT INTO invalid_records (record_id, collection_id, reason)
    SELECT id, collection_id, 'bad' FROM records WHERE id % 50 = 0;
    INSERT INTO tombstones (collection_id, did_id, rkey, rev, deleted_at) VALUES (1, 1, 'gone', 5, 5);
    INSERT INTO field_indexes (id, collection_id, path, kind, state, calls, scans, scan_micros, last_used_at, state_changed_at)
    VALUES (1, 1, 'n', 0, 2, 1, 1, 1, 1, 1), (2, 2, 'text', 2, 2, 1, 1, 1, 1, 1);
    CREATE INDEX field_index_1 ON records (((record -> 'n')::numeric), indexed_at, id) WHERE collection_id = 1;
    CREATE INDEX field_search_2 ON records USING gin ((record ->> 'text') gin_trgm_ops) WHERE collection_id = 2;
    CREATE INDEX operators_own ON records (updated_at);
    ALTER TABLE records SET (fillfactor = 90);
";

/// Everything that has to be the same afterwards, as one text.
const CONTENTS: &str = "SELECT concat_ws('|', \
    (SELECT string_agg((id, collection_id, did_id, rkey, cid, cid_verified, rev, indexed_at, updated_at, record)::text, ',' \
        ORDER BY id) FROM records r), \
    (SELECT string_agg(r::text, ',' ORDER BY r::text) FROM (SELECT target, collection_id, record_id FROM record_refs) r), \
    (SELECT string_agg(r::text, ',' ORDER BY record_id) FROM invalid_records r), \
    (SELECT string_agg(r::text, ',') FROM tombstones r), \
    (SELECT string_agg(collection_id || ':' || n, ',' ORDER BY collection_id) \
        FROM (SELECT collection_id, sum(records) AS n FROM record_counts GROUP BY 1) c), \
    (SELECT string_agg(v::text, ',' ORDER BY uri) FROM script_views.records v), \
    (SELECT string_agg(v::text, ',' ORDER BY v::text) \
        FROM (SELECT source_uri, target_uri, collection FROM script_views.record_refs) v))";

async fn execute(conn: &mut PgConnection, sql: &str) {
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(conn).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
}

/// Reads the records with kept statements, as a host of the old version does, until it is stopped. Counts the rounds.
async fn read_all_along(url: String, rounds: Arc<AtomicU64>, stop: CancellationToken) {
    let mut conn = PgConnection::connect(&url).await.unwrap();
    let expected: i64 =
        sqlx::query_scalar("SELECT count(*) FROM records").fetch_one(&mut conn).await.unwrap();
    assert!(expected > 2 * RECORDS);
    while !stop.is_cancelled() {
        let all: i64 = sqlx::query_scalar("SELECT count(*) FROM records").fetch_one(&mut conn).await.unwrap();
        let sql = "SELECT r.rkey FROM records r JOIN dids d ON d.id = r.did_id WHERE r.collection_id = $1 \
                   ORDER BY r.indexed_at DESC, r.id DESC LIMIT 21";
        let page: Vec<String> = sqlx::query_scalar(sql).bind(1_i64).fetch_all(&mut conn).await.unwrap();
        let sql =
            "SELECT count(*) FROM record_refs f JOIN records r ON r.id = f.record_id WHERE f.target = $1";
        let links: i64 = sqlx::query_scalar(sql).bind("at://3").fetch_one(&mut conn).await.unwrap();
        let sql = "SELECT count(*) FROM script_views.records WHERE valid";
        let valid: i64 = sqlx::query_scalar(sql).fetch_one(&mut conn).await.unwrap();
        assert!(all == expected && page.len() == 21 && links > 200 && valid > 2 * RECORDS - 100);
        rounds.fetch_add(1, Ordering::Relaxed);
    }
}

/// Waits for reads that begin from now on.
async fn reads_go_on(rounds: &AtomicU64) {
    let before = rounds.load(Ordering::Relaxed);
    while rounds.load(Ordering::Relaxed) < before + 3 {
        tokio::task::yield_now().await;
    }
}

const INSERT: &str = "SET lock_timeout = '10ms'; \
    INSERT INTO records (collection_id, did_id, rkey, cid_verified, rev, indexed_at, updated_at, record) \
    VALUES (1, 1, 'late', false, 1, 1, 1, '{}')";

#[tokio::test]
async fn reads_go_on_while_the_tables_are_moved() {
    let database = older::postgres(PARTITIONS, FILL).await;
    let url = database.url.clone();
    let db = Db::open(&url, 4).await.unwrap();
    db.prepare_script_role().await;
    let mut conn = PgConnection::connect(&url).await.unwrap();
    let contents: String = one(&mut conn, CONTENTS).await;
    let last: i64 = one(&mut conn, "SELECT max(id) FROM records").await;

    let (rounds, stop) = (Arc::new(AtomicU64::new(0)), CancellationToken::new());
    let reader = tokio::spawn(read_all_along(url.clone(), Arc::clone(&rounds), stop.clone()));
    reads_go_on(&rounds).await;

    // The migration has copied the tables when it reads the indexes of fields.
    let mut blocker = PgConnection::connect(&url).await.unwrap();
    execute(&mut blocker, "BEGIN; LOCK TABLE field_indexes IN ACCESS EXCLUSIVE MODE").await;
    let migration = tokio::spawn({
        let db = db.clone();
        async move { db.migrate().await }
    });
    waiting(&mut conn, "field_indexes", "AccessShareLock").await;
    reads_go_on(&rounds).await;
    let mut writer = PgConnection::connect(&url).await.unwrap();
    let refused = sqlx::raw_sql(INSERT).execute(&mut writer).await.unwrap_err();
    assert!(refused.to_string().contains("lock timeout"), "writes wait: {refused}");

    // A long read keeps the tables from being swapped, but does not hold up others.
    let mut long_read = PgConnection::connect(&url).await.unwrap();
    execute(&mut long_read, "BEGIN; SELECT 1 FROM records LIMIT 1").await;
    execute(&mut blocker, "ROLLBACK").await;
    for _ in 0..2 {
        waiting(&mut conn, "records", "AccessExclusiveLock").await;
        reads_go_on(&rounds).await;
    }
    let kind = "SELECT relkind::text FROM pg_class WHERE oid = 'records'::regclass";
    assert_eq!(one::<String>(&mut conn, kind).await, "r");
    execute(&mut long_read, "ROLLBACK").await;
    migration.await.unwrap().unwrap();
    reads_go_on(&rounds).await;
    stop.cancel();
    reader.await.unwrap();

    assert_eq!(one::<String>(&mut conn, kind).await, "p");
    assert_eq!(one::<String>(&mut conn, CONTENTS).await, contents);
    after_the_move(&db, &mut conn, last).await;
    db.close().await;
}

/// Indexes, keys, rights, sequences and counts are those of the old tables.
async fn after_the_move(db: &Db, conn: &mut PgConnection, last: i64) {
    let indexes = "SELECT string_agg(i.indexrelid::regclass || ' ' || i.indrelid::regclass || ' ' || i.indisvalid, ',' \
                       ORDER BY i.indexrelid::regclass::text) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid \
                   WHERE c.relname LIKE 'field\\_%\\_1' OR c.relname LIKE 'field\\_search%' OR c.relname = 'operators_own'";
    let partition = |collection: i64| {
        format!("SELECT DISTINCT tableoid::regclass::text FROM records WHERE collection_id = {collection}")
    };
    let (first, second): (String, String) = (one(conn, &partition(1)).await, one(conn, &partition(2)).await);
    let expected =
        format!("field_index_1 {first} true,field_search_2 {second} true,operators_own records true");
    assert_eq!(one::<String>(conn, indexes).await, expected);
    let left = "SELECT count(*) FROM pg_class WHERE relname LIKE 'new\\_%' OR relname LIKE '%\\_new%'";
    assert_eq!(one::<i64>(conn, left).await, 0, "no name of the move is left");
    let options = format!("SELECT reloptions[1] FROM pg_class WHERE oid = '{first}'::regclass");
    assert_eq!(one::<String>(conn, &options).await, "fillfactor=90");

    let role =
        "SELECT has_table_privilege(current_database() || '_scripts', 'script_views.records', 'SELECT')";
    assert!(one::<bool>(conn, role).await);
    let cascade = "WITH gone AS (DELETE FROM records WHERE id = 50 RETURNING 1) SELECT count(*) FROM gone";
    assert_eq!(one::<i64>(conn, cascade).await, 1);
    assert_eq!(one::<i64>(conn, "SELECT count(*) FROM invalid_records WHERE record_id = 50").await, 0);

    let before = list(db, NOTE).await.len();
    apply(db, 9_000, vec![put(&uri(60, NOTE, "new"), 1, "{}"), put(&uri(1, LIKE, "r1"), 1, r#"{"v":1}"#)])
        .await;
    assert_eq!(list(db, NOTE).await.len(), before + 1);
    assert_eq!(get(db, &uri(1, LIKE, "r1")).await, Some(serde_json::json!({"v": 1})));
    let newest: i64 = one(conn, "SELECT max(id) FROM records").await;
    assert!(newest > last, "ids continue: {newest} after {last}");
    for counted in records::collection_counts(db).await.unwrap() {
        let sql = format!(
            "SELECT count(*) FROM records WHERE collection_id = (SELECT id FROM collections WHERE nsid = '{}')",
            counted.collection
        );
        assert_eq!(counted.records as i64, one::<i64>(conn, &sql).await, "{}", counted.collection);
    }
}

#[tokio::test]
async fn a_killed_migration_leaves_the_old_tables() {
    let database = older::postgres(PARTITIONS, FILL).await;
    let url = database.url.clone();
    let db = Db::open(&url, 4).await.unwrap();
    let mut conn = PgConnection::connect(&url).await.unwrap();
    let contents: String = one(&mut conn, CONTENTS).await;
    let mut blocker = PgConnection::connect(&url).await.unwrap();
    execute(&mut blocker, "BEGIN; LOCK TABLE field_indexes IN ACCESS EXCLUSIVE MODE").await;
    let migration = tokio::spawn({
        let db = db.clone();
        async move { db.migrate().await }
    });
    // A server tries once more, because another process might have applied the migration.
    for _ in 0..2 {
        let pid = waiting(&mut conn, "field_indexes", "AccessShareLock").await;
        assert!(one::<bool>(&mut conn, &format!("SELECT pg_terminate_backend({pid}, 5000)")).await);
    }
    migration.await.unwrap().unwrap_err();
    execute(&mut blocker, "ROLLBACK").await;

    let tables = "SELECT string_agg(relname::text || relkind::text, ',' ORDER BY relname) FROM pg_class \
                  WHERE relkind IN ('r', 'p') AND (relname IN ('records', 'record_refs') OR relname LIKE 'records\\_0%')";
    assert_eq!(one::<String>(&mut conn, tables).await, "record_refsr,recordsr");
    assert_eq!(one::<String>(&mut conn, CONTENTS).await, contents);
    execute(&mut conn, INSERT).await;
    assert_eq!(db.pending_migrations().await.unwrap(), pending());

    db.migrate().await.unwrap();
    assert_eq!(
        one::<String>(&mut conn, "SELECT relkind::text FROM pg_class WHERE oid = 'records'::regclass").await,
        "p"
    );
    assert!(list(&db, NOTE).await.contains(&uri(1, NOTE, "late").to_string()));
    db.close().await;
}

/// The migrations from this one on.
fn pending() -> usize {
    POSTGRES_MIGRATIONS.iter().filter(|migration| migration.version >= PARTITIONS).count()
}
