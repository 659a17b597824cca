//! The frequent statements use an index: their plans have no table scan and no sort.

use sqlx::Row;

use super::fixtures::*;

use crate::query::{Direction, Hidden, Keyset, Narrow};
use crate::store::Db;
use crate::store::index::sqlite::statements;
use crate::store::intern::{self, Collection};
use crate::store::select::{Among, PostgresDialect, Select, SqliteDialect, bound};
use crate::store::testing::{TestDb, postgres, sqlite};
use belvedere_base::clock::Timestamp;
use belvedere_protocol::atproto::{Did, Nsid};

pub(super) async fn fill(db: &TestDb) {
    for batch in 0..4_u32 {
        let changes = (0..2_500)
            .map(|n| {
                let n = batch * 2_500 + n;
                let collection = if n % 3 == 0 { LIKE } else { NOTE };
                put_with_refs(
                    &uri(n % 500, collection, &format!("r{n}")),
                    1,
                    &format!(r#"{{"n":{n}}}"#),
                    &["at://x"],
                )
            })
            .collect();
        apply(db, i64::from(batch), changes).await;
    }
}

const AFTER: Option<Keyset> = Some(Keyset { indexed_at: Timestamp(2), id: 5_000 });

/// The lists of all accounts and of one; of each the first page and the next.
fn lists<'a>(nsid: &'a Nsid, collection: Collection, did: &'a Did) -> [[Select<'a>; 2]; 2] {
    [None, Some(did)]
        .map(|did| [None, AFTER].map(|after| Select { did, after, ..Select::page(nsid, collection, 20) }))
}

/// The part of a collection that is looked through for the records of many accounts.
fn of_accounts<'a>(
    nsid: &'a Nsid,
    collection: Collection,
    accounts: &'a [i64],
    narrow: &'a Narrow,
) -> Select<'a> {
    Select {
        among: Some(Among::Ids(accounts)),
        narrow,
        valid: Some(true),
        after: AFTER,
        ..Select::page(nsid, collection, 20)
    }
}

const RECENT: Narrow =
    Narrow { rkey: None, from: Some(Timestamp(1)), before: None, label: None, hidden: Hidden::NONE };

async fn plan_of(db: &Db, select: &Select<'_>) -> String {
    match db {
        Db::Sqlite(db) => {
            let sql = select.statement::<SqliteDialect>().with_prefix("EXPLAIN QUERY PLAN");
            let rows = bound!(sql).fetch_all(&db.reader).await.unwrap();
            rows.iter().map(|row| row.get::<String, _>(3)).collect::<Vec<_>>().join("\n")
        }
        Db::Postgres(db) => {
            let sql = select.statement::<PostgresDialect>().with_prefix("EXPLAIN");
            let mut conn = db.pool.acquire().await.unwrap();
            sqlx::query("SET enable_bitmapscan = off").execute(&mut *conn).await.unwrap();
            let rows = bound!(sql).fetch_all(&mut *conn).await.unwrap();
            rows.iter().map(|row| row.get::<String, _>(0)).collect::<Vec<_>>().join("\n")
        }
    }
}

fn get_sql(collection: Collection) -> String {
    format!(
        "SELECT r.id FROM dids d CROSS JOIN {} r WHERE d.did = 'x' AND d.status = 0 \
         AND r.collection_id = {} AND r.did_id = d.id AND r.rkey = 'r1'",
        collection.partition.records(),
        collection.id
    )
}

pub(super) async fn note(db: &Db) -> Collection {
    intern::collection(db, &nsid(NOTE)).await.unwrap().unwrap()
}

async fn plan(db: &Db, sql: &str) -> String {
    match db {
        Db::Sqlite(db) => {
            let sql = sqlx::AssertSqlSafe(format!("EXPLAIN QUERY PLAN {sql}"));
            let rows: Vec<(i64, i64, i64, String)> = sqlx::query_as(sql).fetch_all(&db.reader).await.unwrap();
            rows.into_iter().map(|row| row.3).collect::<Vec<_>>().join("\n")
        }
        Db::Postgres(db) => {
            let sql = sqlx::AssertSqlSafe(format!("EXPLAIN {sql}"));
            // The setting of the connections for frequent reads.
            let mut conn = db.pool.acquire().await.unwrap();
            sqlx::query("SET enable_bitmapscan = off").execute(&mut *conn).await.unwrap();
            let rows: Vec<(String,)> = sqlx::query_as(sql).fetch_all(&mut *conn).await.unwrap();
            rows.into_iter().map(|row| row.0).collect::<Vec<_>>().join("\n")
        }
    }
}

#[tokio::test]
async fn sqlite_reads_use_indexes() {
    let db = sqlite().await;
    fill(&db).await;
    let collection = note(&db).await;
    let (nsid, did) = (nsid(NOTE), did(7));
    for (selects, index) in lists(&nsid, collection, &did).iter().zip(["records_list ", "records_list_did"]) {
        for select in selects {
            let plan = plan_of(&db, select).await;
            // The rows of the page are scanned, to be concatenated.
            let scans = plan.lines().filter(|line| line.contains("SCAN")).count();
            assert!(
                !plan.contains("TEMP B-TREE") && scans == 1 && plan.contains(index),
                "{select:?}\n{plan}"
            );
        }
        // A page passes over no row of the same time that an earlier page had.
        let plan = plan_of(&db, &selects[1]).await;
        assert!(plan.contains("indexed_at=? AND rowid<?"), "{plan}");
    }
    let accounts: Vec<i64> = (1..=400).collect();
    let near = plan_of(&db, &of_accounts(&nsid, collection, &accounts, &RECENT)).await;
    assert!(near.contains("records_list (") && !near.contains("ORDER BY"), "{near}");
    let plan = plan(&db, &get_sql(collection)).await;
    assert!(plan.contains("records_key") && !plan.contains("SCAN"), "{plan}");
}

#[tokio::test]
async fn sqlite_writes_use_indexes() {
    let db = sqlite().await;
    fill(&db).await;
    let shapes = statements();
    for sql in shapes.iter().map(AsRef::as_ref).chain([
        "DELETE FROM record_refs WHERE record_id IN (SELECT value FROM json_each('[1]'))",
        "DELETE FROM records WHERE id IN (SELECT value FROM json_each('[1]'))",
        "UPDATE dids SET status = v.value ->> 1 FROM json_each('[]') AS v \
         WHERE dids.did = v.value ->> 0 AND dids.status <> v.value ->> 1",
        "DELETE FROM records WHERE collection_id IN (SELECT id FROM collections) AND did_id IN \
         (SELECT d.id FROM dids d WHERE d.did IN (SELECT value FROM json_each('[]')))",
    ]) {
        let plan = plan(&db, sql).await;
        for line in plan.lines() {
            let fine = !line.contains("SCAN")
                || ["SCAN v", "VALUES CLAUSE", "json_each", "collections", "CONSTANT"]
                    .iter()
                    .any(|t| line.contains(t));
            assert!(fine && !line.contains("AUTOMATIC"), "{sql}\n{plan}");
        }
    }
}

#[tokio::test]
async fn postgres_reads_use_indexes() {
    let db = postgres().await;
    fill(&db).await;
    let collection = note(&db).await;
    let records = collection.partition.records();
    // A new database has no statistics.
    for statement in ["SELECT 1", "ANALYZE"] {
        if let Db::Postgres(db) = &*db {
            sqlx::query(statement).execute(&db.pool).await.unwrap();
        }
        let (nsid, did) = (nsid(NOTE), did(7));
        let ascending =
            Select { direction: Direction::Asc, after: AFTER, ..Select::page(&nsid, collection, 20) };
        for select in lists(&nsid, collection, &did).into_iter().flatten().chain([ascending]) {
            let plan = plan_of(&db, &select).await;
            assert!(!plan.contains("Sort") && !plan.contains("Seq Scan"), "{statement}: {select:?}\n{plan}");
            assert!(plan.contains(&format!("{records}_list")), "{statement}: {select:?}\n{plan}");
        }
        let accounts: Vec<i64> = (1..=400).collect();
        let near = plan_of(&db, &of_accounts(&nsid, collection, &accounts, &RECENT)).await;
        assert!(
            near.contains(&format!("{records}_list "))
                && !near.contains("Sort")
                && near.contains("hashed SubPlan"),
            "{statement}: {near}"
        );
        let plan = plan(&db, &get_sql(collection)).await;
        assert!(
            plan.contains(&format!("{records}_key")) && !plan.contains("Seq Scan"),
            "{statement}: {plan}"
        );
    }
}

/// Planning a list takes longer than reading its page.
#[tokio::test]
async fn postgres_plans_lists_once() {
    let db = postgres().await;
    fill(&db).await;
    let collection = note(&db).await;
    let index = format!("{}_list", collection.partition.records());
    let Db::Postgres(db) = &*db else { panic!("the database is PostgreSQL") };
    let mut conn = db.pool.acquire().await.unwrap();
    let mut run = async |sql: String| {
        let rows = sqlx::query(sqlx::AssertSqlSafe(sql)).fetch_all(&mut *conn).await.unwrap();
        rows.iter().map(|row| row.try_get::<String, _>(0).unwrap_or_default()).collect::<Vec<_>>().join("\n")
    };
    run("SET enable_bitmapscan = off".to_owned()).await;
    run("ANALYZE".to_owned()).await;
    let (nsid, did, id) = (nsid(NOTE), did(7), collection.id);
    let [[first, next], [first_of_one, next_of_one]] = lists(&nsid, collection, &did);
    // PostgreSQL may prefer a plan for the values of a list of one account, which has few rows.
    for (select, types, values, is_kept) in [
        (first, "bigint, bigint", "", true),
        (next, "bigint, bigint, bigint, bigint", ", 2, 5000", true),
        (first_of_one, "bigint, bigint, text", ", 'x'", false),
        (next_of_one, "bigint, bigint, text, bigint, bigint", ", 'x', 2, 5000", false),
    ] {
        let sql = select.statement::<PostgresDialect>();
        run(format!("PREPARE list ({types}) AS {}", sql.text())).await;
        // The first five executions are planned with their values.
        for _ in 0..8 {
            run(format!("EXECUTE list (21, {id}{values})")).await;
        }
        let kept =
            run("SELECT generic_plans::text FROM pg_prepared_statements WHERE name = 'list'".to_owned())
                .await;
        let plan = run(format!("EXPLAIN EXECUTE list (21, {id}{values})")).await;
        assert!(!is_kept || kept == "3", "{kept} of 8: {select:?}\n{plan}");
        assert!(plan.contains(&index) && !plan.contains("Sort") && !plan.contains("Seq Scan"), "{plan}");
        run("DEALLOCATE list".to_owned()).await;
    }
}
