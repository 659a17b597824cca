//! The baselines: a bare hyper server with a constant body, and plain read loops through sqlx.
//!
//! Each baseline runs in a separate process (this binary with another argument), so that its CPU time is
//! measured the same way as the server's.

use std::convert::Infallible;
use std::io::Write;
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use bytes::Bytes;
use http_body_util::Full;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Row};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::TcpListener;

use crate::cpu;

/// A child process. Dropping it kills the process.
pub struct Process(pub Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts the bare server with a body of `size` bytes. The child prints its address on the first line.
pub async fn start_http(size: usize) -> anyhow::Result<(Process, SocketAddr)> {
    let mut child = Command::new(std::env::current_exe()?)
        .args(["baseline-http", &size.to_string()])
        .stdout(Stdio::piped())
        .spawn()?;
    let out = child.stdout.take().context("the child's output is piped")?;
    let out = tokio::process::ChildStdout::from_std(out)?;
    let mut line = String::new();
    BufReader::new(out).read_line(&mut line).await?;
    Ok((Process(child), line.trim().parse()?))
}

/// Runs the bare server in this process. Never returns.
pub async fn serve_http(size: usize) -> anyhow::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?);
    std::io::stdout().flush()?;
    let body = Bytes::from(vec![b'x'; size]);
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let body = body.clone();
        tokio::spawn(async move {
            let service = service_fn(|_request| {
                let body = body.clone();
                async move {
                    let response = http::Response::builder().header("content-type", "application/json");
                    Ok::<_, Infallible>(response.body(Full::new(body)).unwrap_or_default())
                }
            });
            let _ = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

/// The number of iterations of a loop through sqlx, and the CPU time of the process that ran it.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
struct Loop {
    iterations: u64,
    cpu_seconds: f64,
}

/// Runs one of the loops below in a separate process. Returns iterations per CPU-second, including the CPU time of a
/// database server.
pub fn run_loop(kind: &str, url: &str, database: Option<cpu::Servers>) -> anyhow::Result<f64> {
    let before = database.map(cpu::of_database).unwrap_or_default();
    let out = Command::new(std::env::current_exe()?).args([kind, url]).output()?;
    anyhow::ensure!(out.status.success(), "{kind}: {}", String::from_utf8_lossy(&out.stderr));
    let done: Loop = serde_json::from_slice(&out.stdout)?;
    let database = database.map(cpu::of_database).unwrap_or_default().saturating_sub(before);
    Ok(done.iterations as f64 / (done.cpu_seconds + database.as_secs_f64()))
}

/// Time that a loop runs.
const LOOP_DURATION: Duration = Duration::from_secs(3);

/// The statement of a list (21 rows of a collection, newest first, as the server reads them) or of one row by its key.
fn statement(record: &str, table: &str, rest: &str) -> String {
    format!(
        "SELECT r.id, d.did, r.rkey, r.indexed_at, {record} FROM {table} r CROSS JOIN dids d \
         WHERE d.id = r.did_id AND d.status = 0 AND r.collection_id = $1 {rest}"
    )
}

/// `$table` is an expression for the table of a row: on PostgreSQL the server names the collection's partition.
macro_rules! reading {
    ($name:ident, $options:ty, $record:literal, $table:literal) => {
        async fn $name(url: &str, single: bool) -> anyhow::Result<Loop> {
            let mut connection = url.parse::<$options>()?.connect().await?;
            let sql = concat!("SELECT collection_id, did_id, rkey, ", $table, " FROM records LIMIT 1");
            let key = sqlx::query(sql).fetch_one(&mut connection).await?;
            let (collection, did, rkey) =
                (key.get::<i64, _>(0), key.get::<i64, _>(1), key.get::<String, _>(2));
            let rest = if single {
                "AND r.did_id = $2 AND r.rkey = $3"
            } else {
                "ORDER BY r.indexed_at DESC, r.id DESC LIMIT 21"
            };
            let sql: Arc<str> = statement($record, &key.get::<String, _>(3), rest).into();
            let (started, before) = (Instant::now(), cpu::of(std::process::id()));
            let mut iterations = 0;
            let mut seen = 0;
            while started.elapsed() < LOOP_DURATION {
                let query = sqlx::query(AssertSqlSafe(Arc::clone(&sql))).bind(collection);
                let query = if single { query.bind(did).bind(&rkey) } else { query };
                for row in query.fetch_all(&mut connection).await? {
                    seen += row.get::<String, _>(1).len() + row.get::<String, _>(2).len();
                    seen += row.get::<String, _>(4).len();
                }
                iterations += 1;
            }
            anyhow::ensure!(seen > 0, "the baseline read nothing");
            let cpu = cpu::of(std::process::id()) - before;
            connection.close().await?;
            Ok(Loop { iterations, cpu_seconds: cpu.as_secs_f64() })
        }
    };
}

reading!(read_sqlite, sqlx::sqlite::SqliteConnectOptions, "r.record", "'records'");
reading!(read_postgres, sqlx::postgres::PgConnectOptions, "r.record_text", "tableoid::regclass::text");

/// Does what autovacuum would do about a minute after a bulk load, so that the measurement need not wait for it.
pub async fn vacuum(url: &str) -> anyhow::Result<()> {
    let mut connection = url.parse::<sqlx::postgres::PgConnectOptions>()?.connect().await?;
    sqlx::query("VACUUM (ANALYZE)").execute(&mut connection).await?;
    connection.close().await?;
    Ok(())
}

/// Runs in the child process of [`run_loop`]: reads in a loop and prints the result.
pub async fn read(url: &str, single: bool) -> anyhow::Result<()> {
    let result = if url.starts_with("postgres") {
        read_postgres(url, single).await?
    } else {
        read_sqlite(url, single).await?
    };
    println!("{}", serde_json::to_string(&result)?);
    Ok(())
}
