//! The costs of a large index: `make bench-scale`.
//!
//! Fills one database up to 100,000, 1,000,000 and 10,000,000 records of twenty collections ([`data`]), and measures at
//! each size: ingest without and with three field indexes, lists, single records, queries, searches, counts, the building
//! of the indexes and the ingest meanwhile, start, memory and disk. A small collection is also measured alone, on a
//! database without the others.

mod data;
mod reads;
mod table;

use std::time::{Duration, Instant};

use anyhow::Context;
use belvedere_base::clock::Clock;
use belvedere_standins::jetstream::FakeJetstream;
use sqlx::postgres::PgConnectOptions;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection};

pub use self::table::Table;
use crate::support::instance::{Instance, record_lexicon};
use crate::{Databases, baseline, cpu, server};

/// Sizes at which everything is measured.
const SIZES: [usize; 3] = [100_000, 1_000_000, 10_000_000];

/// Events that are in memory at the same time.
const CHUNK: usize = 50_000;

/// Records that are indexed while field indexes are built.
const MEANWHILE: u64 = 200_000;

/// Maximum time for a condition to come true.
const PATIENCE: Duration = Duration::from_mins(90);

/// A server with its stream and everything that was pushed so far.
struct Fill {
    server: Instance,
    jetstream: FakeJetstream,
    database: Option<cpu::Servers>,
    url: String,
    first_time_us: i64,
    /// The number of records pushed.
    pushed: usize,
}

/// Fills and measures one database, up to `records` records. `cache_mib`: `DATABASE_CACHE_MIB` of the server.
pub async fn measure(databases: &Databases, records: usize, cache_mib: u64) -> anyhow::Result<Table> {
    let cache_mib = cache_mib.to_string();
    let sizes: Vec<usize> = SIZES.into_iter().filter(|size| *size <= records).collect();
    anyhow::ensure!(!sizes.is_empty(), "the smallest size is {} records", SIZES[0]);
    let mut table = Table::new(databases.name, &sizes);
    let mut alone = Fill::start(&databases.baseline_url, databases.database, &cache_mib).await?;
    alone.push_small(records).await?;
    let small = reads::small_collection(&alone.server).await?;
    table.note(format!("the small collection alone, without the others: {small} ms"));
    drop(alone);

    let mut fill = Fill::start(&databases.url, databases.database, &cache_mib).await?;
    for size in sizes {
        fill.measure(size, &mut table).await?;
        eprintln!("\n{table}");
    }
    Ok(table)
}

impl Fill {
    async fn start(url: &str, database: Option<cpu::Servers>, cache_mib: &str) -> anyhow::Result<Self> {
        let jetstream = FakeJetstream::start().await;
        let server = server::start_with(url, &jetstream.url(), &[("DATABASE_CACHE_MIB", cache_mib)]).await;
        for collection in data::collections() {
            server.upload(record_lexicon(&collection), None).await;
        }
        reads::upload(&server).await;
        let first_time_us = Clock::system().now().0;
        let fill = Self { server, jetstream, database, url: url.to_owned(), first_time_us, pushed: 0 };
        fill.wait_for_stream().await;
        Ok(fill)
    }

    async fn wait_for_stream(&self) {
        let connected = async |_: &Instance| {
            let subscriptions = self.jetstream.subscriptions();
            subscriptions
                .last()
                .is_some_and(|last| data::collections().all(|collection| last.wants(&collection)))
        };
        self.server.eventually("the stream is connected", connected).await;
    }

    /// Pushes the records up to `end` and waits until they are indexed.
    async fn push(&mut self, end: usize) -> anyhow::Result<()> {
        while self.pushed < end {
            let to = end.min(self.pushed + CHUNK);
            self.push_chunk(to);
            self.wait_for_records().await?;
        }
        Ok(())
    }

    /// Pushes events, and forgets those that were pushed before.
    fn push_chunk(&mut self, to: usize) {
        self.jetstream.forget();
        self.jetstream.push_all(data::frames(self.pushed..to, self.first_time_us));
        self.pushed = to;
    }

    /// Pushes only the records of the small collection.
    async fn push_small(&mut self, end: usize) -> anyhow::Result<()> {
        let small = (0..end).filter(|i| data::collection(*i) == 1);
        let frames = small.flat_map(|i| data::frames(i..i + 1, self.first_time_us));
        self.jetstream.push_all(frames);
        self.pushed = (0..end).filter(|i| data::collection(*i) == 1).count();
        self.wait_for_records().await
    }

    async fn wait_for_records(&self) -> anyhow::Result<()> {
        let started = Instant::now();
        loop {
            let records = self.server.records().await;
            if records >= self.pushed as u64 {
                return Ok(());
            }
            anyhow::ensure!(
                started.elapsed() < PATIENCE,
                "only {records} of {} records were indexed",
                self.pushed
            );
            // Counting twenty collections costs the server a millisecond or two.
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    fn cpu(&self) -> Duration {
        cpu::of(self.server.pid()) + self.database.map_or(Duration::ZERO, cpu::of_database)
    }

    /// Indexes the records up to `end`. Returns events per CPU-second, with the database's, and per second.
    async fn ingest(&mut self, end: usize) -> anyhow::Result<Rate> {
        let (before, started, from) = (self.cpu(), Instant::now(), self.pushed);
        self.push(end).await?;
        Ok(Rate::of(self.pushed - from, self.cpu().saturating_sub(before), started.elapsed()))
    }

    async fn measure(&mut self, size: usize, table: &mut Table) -> anyhow::Result<()> {
        let measured = CHUNK.min(size / 2);
        self.push(size - measured).await?;
        let plain = self.ingest(size).await?;
        table.set("ingest, events per CPU-second", plain.per_cpu_second());
        if self.database.is_some() {
            baseline::vacuum(&self.url).await?;
        }
        self.server.stop();
        let start = self.server.start_again().await;
        self.wait_for_stream().await;
        table.set("start to /health, ms", start.as_millis().to_string());
        for (case, figure) in reads::without_index(&self.server, size).await? {
            table.set(case, figure);
        }
        let meanwhile = self.build_indexes(table).await?;
        let share = 100.0 * meanwhile.events_per_second / plain.events_per_second;
        table.set("ingest while field indexes are built, of the rate before", format!("{share:.0}%"));
        if self.database.is_some() {
            baseline::vacuum(&self.url).await?;
        }
        for (case, figure) in reads::with_index(&self.server, size).await? {
            table.set(case, figure);
        }
        // The pages that ingest writes have left the caches during the builds, VACUUM and the reads.
        let first = self.ingest(self.pushed + measured).await?;
        self.push(self.pushed + measured).await?;
        let indexed = self.ingest(self.pushed + measured).await?;
        table.set("ingest with three field indexes, events per CPU-second", indexed.per_cpu_second());
        table.set("the same, the first after other work", first.per_cpu_second());
        // Were there more, the build of another one took the processors meanwhile, and was counted as ingest.
        table.set("field indexes then", reads::indexes(&self.server).await.to_string());
        table.set("memory of the server, MB", (cpu::resident(self.server.pid()) >> 20).to_string());
        table.set("disk, MB", (self.disk().await? >> 20).to_string());
        self.drop_indexes().await
    }

    /// Queries until all three field indexes are ready. Meanwhile the server indexes records as fast as it can, up to
    /// [`MEANWHILE`].
    async fn build_indexes(&mut self, table: &mut Table) -> anyhow::Result<Rate> {
        let (before, started, from) = (self.cpu(), Instant::now(), self.server.records().await);
        let rest = CHUNK / 5;
        let mut rate = None;
        loop {
            let indexed = self.server.records().await;
            if indexed + rest as u64 > self.pushed as u64 && indexed - from < MEANWHILE {
                self.push_chunk(self.pushed + rest);
            }
            let (ready, builds) = reads::index_builds(&self.server).await?;
            if rate.is_none() && (ready || indexed - from >= MEANWHILE) {
                let indexed = (indexed - from) as usize;
                rate = Some(Rate::of(indexed, self.cpu().saturating_sub(before), started.elapsed()));
            }
            if let Some(rate) = rate.filter(|_| ready) {
                for (kind, took) in builds {
                    table.set(&format!("building the index for a {kind}, s"), took);
                }
                self.wait_for_records().await?;
                return Ok(rate);
            }
            anyhow::ensure!(started.elapsed() < PATIENCE, "the indexes were not built");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Makes the indexes look unused until the server has dropped them: it may write once more that they were used.
    async fn drop_indexes(&mut self) -> anyhow::Result<()> {
        let started = Instant::now();
        loop {
            self.forget_uses().await?;
            if reads::indexes(&self.server).await == 0 {
                return Ok(());
            }
            anyhow::ensure!(started.elapsed() < PATIENCE, "the indexes were not dropped");
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }

    async fn forget_uses(&self) -> anyhow::Result<()> {
        let sql = "UPDATE field_indexes SET last_used_at = 0";
        if self.database.is_some() {
            let mut connection = self.url.parse::<PgConnectOptions>()?.connect().await?;
            sqlx::query(sql).execute(&mut connection).await?;
            connection.close().await?;
        } else {
            let options = self.url.parse::<SqliteConnectOptions>()?.busy_timeout(PATIENCE);
            let mut connection = options.connect().await?;
            sqlx::query(sql).execute(&mut connection).await?;
            connection.close().await?;
        }
        Ok(())
    }

    /// Bytes of the database on the disk.
    async fn disk(&self) -> anyhow::Result<u64> {
        if let Some(path) = self.url.strip_prefix("sqlite://") {
            return Ok(std::fs::metadata(path)?.len());
        }
        let mut connection = self.url.parse::<PgConnectOptions>()?.connect().await?;
        let size: i64 = sqlx::query_scalar("SELECT pg_database_size(current_database())")
            .fetch_one(&mut connection)
            .await?;
        connection.close().await?;
        u64::try_from(size).context("the size is not negative")
    }
}

/// The rate at which events were indexed.
#[derive(Clone, Copy, Debug)]
struct Rate {
    events_per_second: f64,
    events_per_cpu_second: f64,
}

impl Rate {
    fn of(events: usize, cpu: Duration, took: Duration) -> Self {
        Self {
            events_per_second: events as f64 / took.as_secs_f64(),
            events_per_cpu_second: events as f64 / cpu.as_secs_f64(),
        }
    }

    fn per_cpu_second(self) -> String {
        format!("{:.0}", self.events_per_cpu_second)
    }
}
