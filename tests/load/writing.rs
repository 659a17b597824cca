//! The write baseline: inserts the rows of the same records into the same schema with prepared bulk inserts only: no
//! stream, no parsing, no CIDs, no order to preserve.

use std::process::{Command, Stdio};
use std::sync::Arc;

use anyhow::Context;
use belvedere_standins::jetstream::{synthetic_did, synthetic_record};
use belvedere_storage::store::Db;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Executor};

use crate::cpu;
use crate::server::COLLECTION;

/// Records per transaction; the server's own batches are of similar size.
const TRANSACTION: usize = 8000;
/// Rows per SQLite statement, of ten parameters each.
const STATEMENT: usize = 200;
/// The number of repos that the records are spread over, the same as in the stream.
pub const REPOS: usize = 1000;
/// The places of a reference in its record, as the server stores them.
const PATHS: &str = "subject.uri";

/// Runs [`insert`] in a separate process on an empty database. Returns rows per CPU-second, including the CPU time of a
/// database server.
pub async fn baseline(url: &str, records: usize, database: Option<cpu::Servers>) -> anyhow::Result<f64> {
    let db = Db::open(url, 2).await?;
    db.migrate().await?;
    db.close().await;
    let before = database.map(cpu::of_database).unwrap_or_default();
    let out = Command::new(std::env::current_exe()?)
        .args(["baseline-insert", url, &records.to_string()])
        .stderr(Stdio::inherit())
        .output()?;
    anyhow::ensure!(out.status.success(), "the insert baseline failed");
    let seconds: f64 = String::from_utf8(out.stdout)?.trim().parse()?;
    let database = database.map(cpu::of_database).unwrap_or_default().saturating_sub(before);
    Ok(records as f64 / (seconds + database.as_secs_f64()))
}

/// Runs in the child process of [`baseline`]: inserts the rows, and prints the CPU seconds that this took.
pub async fn insert(url: &str, records: usize) -> anyhow::Result<()> {
    // Generated before the measurement starts, which is to cover only the database's work.
    let rows: Vec<Row> = (0..records).map(Row::new).collect();
    let before = cpu::of(std::process::id());
    if url.starts_with("postgres") {
        postgres(url, &rows).await?;
    } else {
        sqlite(url, &rows).await?;
    }
    println!("{}", cpu::of(std::process::id()).saturating_sub(before).as_secs_f64());
    Ok(())
}

struct Row {
    id: i64,
    did: i64,
    rkey: String,
    cid: Vec<u8>,
    record: String,
    target: String,
}

impl Row {
    fn new(i: usize) -> Self {
        let record = synthetic_record(COLLECTION, i);
        let target = record["subject"]["uri"].as_str().unwrap_or_default().to_owned();
        Self {
            id: i as i64 + 1,
            did: (i % REPOS) as i64 + 1,
            rkey: format!("{i:013}"),
            cid: vec![i as u8; 36],
            record: record.to_string(),
            target,
        }
    }
}

/// `($1,$2),($3,$4)…`
fn tuples(rows: usize, columns: usize) -> String {
    let tuple = |row: usize| {
        let marks: Vec<String> = (1..=columns).map(|c| format!("${}", row * columns + c)).collect();
        format!("({})", marks.join(","))
    };
    (0..rows).map(tuple).collect::<Vec<_>>().join(",")
}

async fn sqlite(url: &str, rows: &[Row]) -> anyhow::Result<()> {
    let options: sqlx::sqlite::SqliteConnectOptions = url.parse()?;
    let mut connection = options
        .journal_mode(sqlx::sqlite::SqliteJournalMode::Wal)
        .synchronous(sqlx::sqlite::SqliteSynchronous::Normal)
        .pragma("wal_autocheckpoint", "4000")
        .pragma("cache_size", "-32768")
        .connect()
        .await?;
    let sql = format!("INSERT INTO collections (id, nsid) VALUES (1, '{COLLECTION}')");
    connection.execute(AssertSqlSafe(sql)).await?;
    for repo in 0..REPOS {
        let sql = format!("INSERT INTO dids (id, did) VALUES ({}, '{}')", repo + 1, synthetic_did(repo));
        connection.execute(AssertSqlSafe(sql)).await?;
    }
    for batch in rows.chunks(TRANSACTION) {
        let mut transaction = connection.begin().await?;
        for part in batch.chunks(STATEMENT) {
            let sql = format!(
                "INSERT INTO records (id, collection_id, did_id, rkey, cid, cid_verified, rev, indexed_at, updated_at, record) \
                 VALUES {}",
                tuples(part.len(), 10)
            );
            let mut records = sqlx::query(AssertSqlSafe(sql));
            for row in part {
                records = records.bind(row.id).bind(1_i64).bind(row.did).bind(&row.rkey).bind(&row.cid);
                records = records.bind(1_i64).bind(row.id).bind(row.id).bind(row.id).bind(&row.record);
            }
            records.execute(&mut *transaction).await?;
            let sql = format!(
                "INSERT INTO record_refs (target, collection_id, record_id, did_id, paths) VALUES {}",
                tuples(part.len(), 5)
            );
            let mut refs = sqlx::query(AssertSqlSafe(sql));
            for row in part {
                refs = refs.bind(&row.target).bind(1_i64).bind(row.id).bind(row.did).bind(PATHS);
            }
            refs.execute(&mut *transaction).await?;
        }
        transaction.commit().await?;
    }
    connection.close().await.context("closing")
}

/// The collection's partition, which the server's statements name.
const PARTITION: &str = "SELECT lpad(n::text, 2, '0') FROM generate_series(0, 15) n \
     WHERE satisfies_hash_partition('records'::regclass, 16, n, 1::bigint)";

const INSERT_RECORDS: &str = " \
     (id, collection_id, did_id, rkey, cid, cid_verified, rev, indexed_at, updated_at, record, record_text) \
     SELECT u.id, 1, u.did, u.rkey, u.cid, TRUE, u.id, u.id, u.id, u.record::jsonb, u.record \
     FROM UNNEST($1::bigint[], $2::bigint[], $3::text[], $4::bytea[], $5::text[]) AS u (id, did, rkey, cid, record)";

const INSERT_REFS: &str = " (target, collection_id, record_id, did_id, paths) \
     SELECT u.target, 1, u.id, u.did, $4 FROM UNNEST($1::text[], $2::bigint[], $3::bigint[]) AS u (target, id, did)";

async fn postgres(url: &str, rows: &[Row]) -> anyhow::Result<()> {
    let options: sqlx::postgres::PgConnectOptions = url.parse()?;
    let mut connection = options.connect().await?;
    let sql = format!("INSERT INTO collections (id, nsid) VALUES (1, '{COLLECTION}')");
    connection.execute(AssertSqlSafe(sql)).await?;
    sqlx::query("INSERT INTO dids (id, did) SELECT * FROM UNNEST($1::bigint[], $2::text[])")
        .bind((1..=REPOS as i64).collect::<Vec<i64>>())
        .bind((0..REPOS).map(synthetic_did).collect::<Vec<String>>())
        .execute(&mut connection)
        .await?;
    let partition: String = sqlx::query_scalar(PARTITION).fetch_one(&mut connection).await?;
    let insert_records: Arc<str> = format!("INSERT INTO records_{partition}{INSERT_RECORDS}").into();
    let insert_refs: Arc<str> = format!("INSERT INTO record_refs_{partition}{INSERT_REFS}").into();
    for batch in rows.chunks(TRANSACTION) {
        let ids: Vec<i64> = batch.iter().map(|r| r.id).collect();
        let dids: Vec<i64> = batch.iter().map(|r| r.did).collect();
        let texts = |f: fn(&Row) -> &String| batch.iter().map(|r| f(r).as_str()).collect::<Vec<&str>>();
        let mut transaction = connection.begin().await?;
        sqlx::query(AssertSqlSafe(Arc::clone(&insert_records)))
            .bind(&ids)
            .bind(&dids)
            .bind(texts(|r| &r.rkey))
            .bind(batch.iter().map(|r| r.cid.as_slice()).collect::<Vec<&[u8]>>())
            .bind(texts(|r| &r.record))
            .execute(&mut *transaction)
            .await?;
        let refs = sqlx::query(AssertSqlSafe(Arc::clone(&insert_refs)));
        refs.bind(texts(|r| &r.target)).bind(&ids).bind(&dids).bind(PATHS).execute(&mut *transaction).await?;
        transaction.commit().await?;
    }
    connection.close().await.context("closing")
}
