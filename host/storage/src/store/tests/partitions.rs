//! The partitions of `records` and `record_refs` on PostgreSQL: each frequent statement reads one of them, by an index.

use std::collections::BTreeSet;

use serde_json::json;
use sqlx::{AssertSqlSafe, PgConnection};

use super::field_indexes::build_all;
use super::fixtures::*;

use super::plans::{fill, note};
use crate::query::{Direction, Filter, Keyset, Query, Sort};
use crate::store::query;
use crate::store::records::{count, delete, many, page};

use crate::store::backfill::indexed;
use crate::store::intern::{self, Collection};
use crate::store::partitions::Partition;
use crate::store::script_sql::guard::{Catalog, Parsed};
use crate::store::select::{Accounts, By, Columns, PostgresDialect, Select, Target};
use crate::store::testing::postgres;
use crate::store::{Backend, Db, index, records};
use belvedere_base::clock::Timestamp;

/// The tables and indexes of records and references that a plan names.
fn named(plan: &str) -> BTreeSet<&str> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    plan.split(|c| !is_name(c))
        .filter(|word| word.starts_with("records") || word.starts_with("record_refs"))
        .collect()
}

/// The plan names a partition of records or references, and no other than this one.
#[track_caller]
fn assert_reads_one(plan: &str, partition: Partition) {
    let records = partition.records();
    let refs = records.replace("records", "record_refs");
    let named = named(plan);
    assert!(
        !named.is_empty() && named.iter().all(|name| name.starts_with(records) || name.starts_with(&refs)),
        "{plan}"
    );
}

/// Whether the plan reads a whole partition.
fn is_scan(plan: &str, partition: Partition) -> bool {
    let records = partition.records();
    let refs = records.replace("records", "record_refs");
    [records, &refs].iter().any(|table| plan.contains(&format!("Seq Scan on {table} ")))
}

/// The frequent statements. Those whose rows an index returns in order must not sort.
fn statements(collection: Collection) -> Vec<(String, bool)> {
    let (nsid, partition) = (nsid(NOTE), collection.partition);
    let page = Select::page(&nsid, collection, 20);
    let after = Some(Keyset { indexed_at: Timestamp(1), id: 1 });
    let (did, full) = (did(7), Select { columns: Columns::Full, ..page.clone() });
    let kinds = [
        (page.clone(), true),
        (full.clone(), true),
        (Select { valid: Some(true), ..full.clone() }, true),
        (Select { valid: Some(false), ..full.clone() }, false),
        (Select { by: By::Target { target: Target::Value("at://x"), path: None }, ..page }, true),
        (Select { accounts: Accounts::All, direction: Direction::Asc, limit: 500, ..full }, true),
    ];
    let of_accounts = kinds.iter().flat_map(|(select, is_ordered)| {
        [None, Some(&did)].map(|did| (Select { did, ..select.clone() }, *is_ordered))
    });
    let selects = of_accounts.flat_map(|(select, is_ordered)| {
        [None, after].map(|after| (Select { after, ..select.clone() }, is_ordered))
    });
    let selects = selects
        .map(|(select, is_ordered)| (select.statement::<PostgresDialect>().text().to_owned(), is_ordered));
    let [delete_refs, insert_refs] = *index::postgres::REFS.of(partition);
    let others = [
        *records::GET_POSTGRES.of(partition),
        *page::FETCH_POSTGRES.of(partition),
        *many::POSTGRES.of(partition),
        *many::LATEST_REV.of(partition),
        *count::COUNT_DID.of(partition),
        *count::COUNT_INVALID.of(partition),
        *indexed::SELECT.of(partition),
        *delete::DELETE_ONE_POSTGRES.of(partition),
        *index::postgres::UPSERT.of(partition),
        delete_refs,
        insert_refs,
        *index::postgres::DELETE.of(partition),
        *index::purge::RECORDS.of(partition),
    ];
    selects.chain(others.map(|sql| (sql.to_owned(), false))).collect()
}

async fn lines(conn: &mut PgConnection, sql: &str) -> String {
    let rows: Vec<String> = sqlx::query_scalar(AssertSqlSafe(sql))
        .fetch_all(conn)
        .await
        .unwrap_or_else(|error| panic!("{sql}: {error}"));
    rows.join("\n")
}

async fn execute(conn: &mut PgConnection, sql: &str) {
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(conn).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
}

#[tokio::test]
async fn frequent_statements_read_one_partition_by_an_index() {
    let db = postgres().await;
    fill(&db).await;
    let collection = note(&db).await;
    let partition = collection.partition;
    let Db::Postgres(db) = &*db else { panic!("the database is PostgreSQL") };
    let mut conn = db.pool.acquire().await.unwrap();
    // The setting of the connections for frequent reads.
    execute(&mut conn, "ANALYZE; SET enable_bitmapscan = off; SET plan_cache_mode = force_generic_plan")
        .await;
    for (sql, is_ordered) in statements(collection) {
        execute(&mut conn, &format!("PREPARE s AS {sql}")).await;
        let parameters = (1..10).take_while(|n| sql.contains(&format!("${n}"))).count();
        let nulls = vec!["NULL"; parameters].join(", ");
        let arguments = if nulls.is_empty() { nulls } else { format!("({nulls})") };
        let plan = lines(&mut conn, &format!("EXPLAIN EXECUTE s{arguments}")).await;
        execute(&mut conn, "DEALLOCATE s").await;
        assert_reads_one(&plan, partition);
        assert!(!is_scan(&plan, partition), "{sql}\n{plan}");
        assert!(!is_ordered || !plan.contains("Sort"), "{sql}\n{plan}");
    }
    // A step deletes a third of the records here, for which reading all of them is right.
    let plan =
        lines(&mut conn, &format!("EXPLAIN {}", delete::LOCK_STEP_POSTGRES.of(partition).replace("$1", "1")))
            .await;
    assert_reads_one(&plan, partition);
}

#[tokio::test]
async fn queries_read_one_partition() {
    let db = postgres().await;
    fill(&db).await;
    let Collection { partition, .. } = note(&db).await;
    let filter = Filter::from_json(&json!({"field": "n", "value": 7})).unwrap();
    let by_field = Sort::parse("n", Direction::Desc).unwrap();
    let by_uri = Sort::parse("uri", Direction::Asc).unwrap();
    let newest = Query::of(nsid(NOTE));
    let sorted = |sort| Query { sort: Some(sort), ..newest.clone() };
    let all = [
        newest.clone(),
        Query { filter: Some(filter), ..newest.clone() },
        Query { did: Some(did(7)), ..newest.clone() },
        Query { valid: Some(true), ..newest.clone() },
        Query { valid: Some(false), ..newest.clone() },
        sorted(by_field),
        sorted(by_uri),
    ];
    for is_indexed in [false, true] {
        if is_indexed {
            for args in &all {
                query::read(&db, args, &US).await.unwrap();
            }
            build_all(&db).await;
        }
        for args in &all {
            let plan = query::explain(&db, args, &US).await.unwrap();
            // The index of a field has a name of its own; its table is that of the partition.
            assert_reads_one(&plan, partition);
        }
    }
    let Db::Postgres(db) = &*db else { panic!("the database is PostgreSQL") };
    let sql = "SELECT DISTINCT tablename::text FROM pg_indexes WHERE indexname LIKE 'field\\_index\\_%'";
    let tables: Vec<String> = sqlx::query_scalar(sql).fetch_all(&db.pool).await.unwrap();
    assert_eq!(tables, [partition.records()], "an index is built on the partition alone");
}

/// The statements of scripts that name a collection.
#[tokio::test]
async fn scripts_read_one_partition_of_a_collection() {
    let db = postgres().await;
    fill(&db).await;
    let Collection { partition, .. } = note(&db).await;
    let Db::Postgres(db) = &*db else { panic!("the database is PostgreSQL") };
    let mut conn = db.pool.acquire().await.unwrap();
    execute(&mut conn, "ANALYZE; SET enable_partitionwise_join = on").await;
    for sql in [
        "SELECT record FROM records WHERE collection = 'com.example.note' ORDER BY indexed_at DESC LIMIT 20",
        "SELECT did FROM records WHERE uri = 'at://did:plc:a/com.example.note/r1'",
        "SELECT count(*) FROM record_refs WHERE collection = 'com.example.note' AND target_uri = 'at://x'",
    ] {
        let sql = Parsed::new(sql, Backend::Postgres).unwrap().write(&[], &Catalog::default()).unwrap().sql;
        let plan = lines(&mut conn, &format!("EXPLAIN {sql}")).await;
        assert_reads_one(&plan, partition);
    }
    // A join without a collection uses the indexes of each partition.
    let sql = "SELECT source_uri FROM record_refs WHERE target_uri = 'at://nothing'";
    let sql = Parsed::new(sql, Backend::Postgres).unwrap().write(&[], &Catalog::default()).unwrap().sql;
    let plan = lines(&mut conn, &format!("EXPLAIN {sql}")).await;
    let records = partition.records();
    assert!(plan.contains(&format!("{records}_pkey")) && !is_scan(&plan, partition), "{plan}");
}

#[tokio::test]
async fn a_collection_has_one_partition_of_each_table() {
    let db = postgres().await;
    let nsids: Vec<_> = (0..40).map(|n| format!("com.example.c{n}")).collect();
    let changes = nsids.iter().map(|nsid| put_with_refs(&uri(1, nsid, "a"), 1, "{}", &["at://x"]));
    let report = apply(&db, 1, changes.collect()).await;
    assert_eq!(report.inserted, 40);
    let Db::Postgres(postgres) = &*db else { panic!("the database is PostgreSQL") };
    let mut used = BTreeSet::new();
    for name in &nsids {
        let Collection { id, partition } = intern::collection(&db, &nsid(name)).await.unwrap().unwrap();
        used.insert(partition);
        for parent in ["records", "record_refs"] {
            let sql =
                format!("SELECT DISTINCT tableoid::regclass::text FROM {parent} WHERE collection_id = {id}");
            let tables: Vec<String> =
                sqlx::query_scalar(AssertSqlSafe(sql)).fetch_all(&postgres.pool).await.unwrap();
            assert_eq!(tables, [partition.records().replace("records", parent)]);
        }
        assert_eq!(list(&db, name).await.len(), 1);
    }
    assert!(used.len() > 8, "{used:?}");

    // Changes of collections in several partitions, in one batch.
    let changes = nsids.iter().enumerate().map(|(n, nsid)| match n % 3 {
        0 => put_with_refs(&uri(1, nsid, "a"), 2, r#"{"v":2}"#, &["at://y"]),
        1 => take(&uri(1, nsid, "a"), 2),
        _ => put(&uri(1, nsid, "a"), 1, r#"{"v":1}"#),
    });
    let report = apply(&db, 2, changes.collect()).await;
    assert_eq!((report.inserted, report.updated, report.deleted, report.stale), (0, 14, 13, 13));
    let targets = refs(&db).await;
    assert_eq!(targets.iter().filter(|(target, _)| target == "at://y").count(), 14);
    assert_eq!(targets.len(), 27);
    let all: Vec<_> = nsids.iter().map(|nsid| uri(1, nsid, "a")).collect();
    assert_eq!(
        records::get_many_full(&db, &all, records::Room::of(records::PAGE_BYTES)).await.unwrap().rows.len(),
        27
    );
}
