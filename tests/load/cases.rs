//! Measures the cases of the table on one database.

use std::time::Duration;

use belvedere_base::clock::Clock;
use belvedere_standins::jetstream::{FakeJetstream, synthetic, synthetic_record};

use crate::report::{Row, Table};
use crate::server::{self, COLLECTION};
use crate::support::instance::Instance;
use crate::{Databases, Plan, baseline, cpu, http, writing};

/// Enough to keep two cores busy, and few enough that latencies do not consist of time in a queue.
pub const CONNECTIONS: usize = 16;

const CONSTANT: &str = "function handle() return { ok = true, items = { 1, 2, 3 }, name = 'constant' } end";

/// Two instructions per iteration.
const LOOP: &str = "function handle() local n = 0 for i = 1, 249990 do n = n + i end return { n = n } end";

const QUERY: &str =
    "function handle() return db.query{ collection = 'com.example.load.note', limit = 20 } end";

/// Matches one in a thousand records.
const FILTER: &str = "function handle() return db.query{ collection = 'com.example.load.note', limit = 20, \
    filter = { field = 'likes', value = 7 } } end";

/// Binds the scripts that are measured. Returns the case and the path of each.
pub async fn add_scripts(server: &Instance) -> Vec<(&'static str, String)> {
    let target = &synthetic_record(COLLECTION, 0)["subject"]["uri"];
    let backlinks = format!(
        "function handle() return db.backlinks{{ collection = '{COLLECTION}', target = {target}, limit = 20 }} end"
    );
    let scripts = [
        ("script returning a constant table", "constant", CONSTANT),
        ("script with db.query of 20 rows", "query", QUERY),
        ("script with db.query by one field, 20 rows", "filter", FILTER),
        ("script with db.backlinks of one record", "backlinks", &backlinks),
        ("script with a loop of 500,000 instructions", "loop", LOOP),
    ];
    let mut added = Vec::new();
    for (case, name, source) in scripts {
        added.push((case, server::add_script(server, name, source).await));
    }
    added
}

/// Measures every case on one backend.
pub async fn measure(databases: &Databases, plan: &Plan) -> anyhow::Result<Table> {
    let Databases { name, url, baseline_url, database } = databases;
    let (name, database) = (*name, *database);
    let standin = FakeJetstream::start().await;
    let now = Clock::system().now().0;
    let events: Vec<_> = synthetic(plan.records, writing::REPOS, COLLECTION, now).collect();
    eprintln!("{name}: generated {} events", plan.records);
    let mut server = server::start(url, &standin.url()).await;
    let mut table = Table::new(name, database.is_some());
    let meter = Meter { server: server.pid(), database };

    server::upload_collection(&server).await;
    server.eventually("the stream is connected", async |_| !standin.subscriptions().is_empty()).await;
    let before = meter.read();
    standin.push_all(events);
    let peak = server::wait_for_records(&server, plan.records as u64).await?;
    let used = meter.read() - before;
    let baseline = writing::baseline(baseline_url, plan.records, database).await?;
    table.push(Row {
        case: format!("stream ingest of {} events", plan.records),
        per_cpu_second: plan.records as f64 / used.server.as_secs_f64(),
        with_database: database.map(|_| plan.records as f64 / used.all().as_secs_f64()),
        sqlx: Some(baseline),
        ..Row::default()
    });
    table.note(format!("peak memory while streaming: {} MB", peak >> 20));

    if database.is_some() {
        baseline::vacuum(url).await?;
    }
    let list = server::upload_query(&server).await;
    let scripts = add_scripts(&server).await;
    let build = server::wait_for_index(&server, "com.example.load.filter").await?;
    table.note(format!("index of a field over {} records: built in {build:.0} ms", plan.records));
    server.stop();
    let restart = server.start_again().await;
    let meter = Meter { server: server.pid(), database };
    table.note(format!("start to /health with {} records: {} ms", plan.records, restart.as_millis()));
    let single = format!("{list}&uri={}", server::some_uri(&server).await?);
    tokio::time::sleep(Duration::from_secs(2)).await;
    table.note(format!("idle memory: {} MB", cpu::resident(server.pid()) >> 20));

    let list_loop = baseline::run_loop("baseline-list", url, database)?;
    let single_loop = baseline::run_loop("baseline-single", url, database)?;
    let cases =
        [("list of 20 records", list, Some(list_loop)), ("one record by uri", single, Some(single_loop))];
    let scripts = scripts.into_iter().map(|(case, path)| (case, path, None));
    for (case, path, sqlx) in cases.into_iter().chain(scripts) {
        let row = read(&server, &meter, case, &path, sqlx, plan).await?;
        eprintln!("{name}: {case}: {:.0} per CPU-second", row.per_cpu_second);
        table.push(row);
    }
    Ok(table)
}

async fn read(
    server: &Instance,
    meter: &Meter,
    case: &str,
    path: &str,
    sqlx: Option<f64>,
    plan: &Plan,
) -> anyhow::Result<Row> {
    let headers = [("x-client-key", server.client_key.clone())];
    http::run(server.address, path, &headers, CONNECTIONS, Duration::from_secs(1)).await?;
    let before = meter.read();
    let run = http::run(server.address, path, &headers, CONNECTIONS, plan.seconds).await?;
    let used = meter.read() - before;
    anyhow::ensure!(run.failures == 0, "{case}: {} of {} requests failed", run.failures, run.requests);

    let (bare, address) = baseline::start_http(run.body_bytes).await?;
    let bare_before = cpu::of(bare.0.id());
    let bare_run =
        http::run(address, path, &headers, CONNECTIONS, plan.seconds.min(Duration::from_secs(3))).await?;
    let bare_used = cpu::of(bare.0.id()).saturating_sub(bare_before);
    Ok(Row {
        case: case.to_owned(),
        per_second: Some(run.per_second()),
        p50: Some(run.percentile(0.5)),
        p99: Some(run.percentile(0.99)),
        per_cpu_second: run.requests as f64 / used.server.as_secs_f64(),
        with_database: meter.database.map(|_| run.requests as f64 / used.all().as_secs_f64()),
        bare: Some(bare_run.requests as f64 / bare_used.as_secs_f64()),
        sqlx,
    })
}

/// CPU time of the server and of its database.
pub struct Meter {
    pub server: u32,
    pub database: Option<cpu::Servers>,
}

#[derive(Clone, Copy)]
pub struct Used {
    server: Duration,
    database: Duration,
}

impl Used {
    pub fn all(self) -> Duration {
        self.server + self.database
    }
}

impl std::ops::Sub for Used {
    type Output = Self;
    fn sub(self, earlier: Self) -> Self {
        Self {
            server: self.server.saturating_sub(earlier.server),
            database: self.database.saturating_sub(earlier.database),
        }
    }
}

impl Meter {
    pub fn read(&self) -> Used {
        Used {
            server: cpu::of(self.server),
            database: self.database.map_or(Duration::ZERO, cpu::of_database),
        }
    }
}
