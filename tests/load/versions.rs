//! Compares two builds of the server, or two databases: `cargo bench -p belvedere --bench load -- versions PATH`, and `-- shards`.
//!
//! On a shared machine the same case differs by a third from one minute to the next. So both servers run at once, are
//! measured in turns of a second, and only the ratio of each pair of turns counts.

use std::fmt;
use std::time::Duration;

use belvedere_base::clock::Clock;
use belvedere_standins::jetstream::{FakeJetstream, synthetic};

use crate::cases::{self, CONNECTIONS, Meter};
use crate::cpu::Servers;
use crate::server::{self, COLLECTION};
use crate::support::instance::Instance;
use crate::support::process::BINARY;
use crate::{Plan, baseline, http, writing};

/// Pairs of turns of each case.
const PAIRS: usize = 11;

const TURN: Duration = Duration::from_secs(1);

/// One of the two that are compared.
#[derive(Debug)]
pub struct Side {
    pub name: &'static str,
    pub url: String,
    /// The servers of the database; `None` on SQLite.
    pub database: Option<Servers>,
    /// Another build of the server.
    pub binary: Option<String>,
}

/// A side whose server runs.
struct Running {
    server: Instance,
    jetstream: FakeJetstream,
    meter: Meter,
    paths: Vec<(&'static str, String)>,
}

/// Requests or events per CPU-second of both sides, with the database's.
#[derive(Debug)]
struct Comparison {
    case: &'static str,
    other: f64,
    this: f64,
    /// The median of the ratios of each pair, and the first and third quartile.
    ratio: [f64; 3],
}

/// The table of one database.
#[derive(Debug)]
pub struct Table {
    name: &'static str,
    sides: [&'static str; 2],
    rows: Vec<Comparison>,
}

/// Measures every case on both sides.
pub async fn measure(name: &'static str, sides: [Side; 2], plan: &Plan) -> anyhow::Result<Table> {
    let mut running = [Running::start(&sides[0]).await, Running::start(&sides[1]).await];
    let mut rows = vec![ingest(&running, plan.records).await?];
    eprintln!("{name}: {}", rows[0]);
    for (running, side) in running.iter_mut().zip(&sides) {
        if side.database.is_some() {
            baseline::vacuum(&side.url).await?;
        }
        running.prepare().await?;
    }
    for n in 0..running[0].paths.len() {
        let row = reads(&running, n).await?;
        eprintln!("{name}: {row}");
        rows.push(row);
    }
    Ok(Table { name, sides: sides.map(|side| side.name), rows })
}

impl Running {
    async fn start(side: &Side) -> Self {
        let jetstream = FakeJetstream::start().await;
        let binary: Vec<_> = side.binary.iter().map(|binary| (BINARY, binary.as_str())).collect();
        let server = server::start_with(&side.url, &jetstream.url(), &binary).await;
        server::upload_collection(&server).await;
        server.eventually("the stream is connected", async |_| !jetstream.subscriptions().is_empty()).await;
        let meter = Meter { server: server.pid(), database: side.database };
        Self { server, jetstream, meter, paths: Vec::new() }
    }

    async fn prepare(&mut self) -> anyhow::Result<()> {
        let list = server::upload_query(&self.server).await;
        let single = format!("{list}&uri={}", server::some_uri(&self.server).await?);
        self.paths = vec![("list of 20 records", list), ("one record by uri", single)];
        self.paths.extend(cases::add_scripts(&self.server).await);
        server::wait_for_index(&self.server, "com.example.load.filter").await?;
        Ok(())
    }

    /// Requests per CPU-second of one turn.
    async fn turn(&self, path: &str) -> anyhow::Result<f64> {
        let headers = [("x-client-key", self.server.client_key.clone())];
        let before = self.meter.read();
        let run = http::run(self.server.address, path, &headers, CONNECTIONS, TURN).await?;
        anyhow::ensure!(run.failures == 0, "{path}: {} of {} failed", run.failures, run.requests);
        Ok(run.requests as f64 / (self.meter.read() - before).all().as_secs_f64())
    }
}

async fn reads(sides: &[Running; 2], n: usize) -> anyhow::Result<Comparison> {
    for side in sides {
        side.turn(&side.paths[n].1).await?;
    }
    let mut pairs = Vec::new();
    for pair in 0..PAIRS {
        pairs.push(in_turns(pair, async |at: usize| sides[at].turn(&sides[at].paths[n].1).await).await?);
    }
    Ok(Comparison::of(sides[0].paths[n].0, &pairs))
}

/// Both servers index the same events, a share of them in each turn.
async fn ingest(sides: &[Running; 2], records: usize) -> anyhow::Result<Comparison> {
    let first = Clock::system().now().0;
    let events: Vec<_> = synthetic(records, writing::REPOS, COLLECTION, first).collect();
    let mut pairs = Vec::new();
    for (pair, share) in events.chunks(records.div_ceil(PAIRS)).enumerate() {
        let turn = async |at: usize| {
            let Running { server, jetstream, meter, .. } = &sides[at];
            let (before, indexed) = (meter.read(), server.records().await);
            jetstream.push_all(share.to_vec());
            server::wait_for_records(server, indexed + share.len() as u64).await?;
            Ok(share.len() as f64 / (meter.read() - before).all().as_secs_f64())
        };
        pairs.push(in_turns(pair, turn).await?);
    }
    Ok(Comparison::of("stream ingest", &pairs))
}

/// Measures both sides, each first every other time. Returns the figures of both.
async fn in_turns(pair: usize, turn: impl AsyncFn(usize) -> anyhow::Result<f64>) -> anyhow::Result<[f64; 2]> {
    let first = pair % 2;
    let mut figures = [0.0; 2];
    for at in [first, 1 - first] {
        figures[at] = turn(at).await?;
    }
    Ok(figures)
}

impl Comparison {
    fn of(case: &'static str, pairs: &[[f64; 2]]) -> Self {
        let quartile = |mut figures: Vec<f64>, n: usize| {
            figures.sort_by(f64::total_cmp);
            figures[(figures.len() - 1) * n / 4]
        };
        let ratios: Vec<f64> = pairs.iter().map(|[other, this]| this / other).collect();
        let side = |at: usize| pairs.iter().map(|pair| pair[at]).collect();
        Self {
            case,
            other: quartile(side(0), 2),
            this: quartile(side(1), 2),
            ratio: [2, 1, 3].map(|n| quartile(ratios.clone(), n)),
        }
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [median, low, high] = self.ratio;
        write!(
            f,
            "| {} | {:.0} | {:.0} | {median:.2} | {low:.2} to {high:.2} |",
            self.case, self.other, self.this
        )
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "### {}, per CPU-second of server and database\n", self.name)?;
        writeln!(f, "| Case | {} | {} | ratio | half of the ratios |", self.sides[0], self.sides[1])?;
        writeln!(f, "|---|---:|---:|---:|---:|")?;
        self.rows.iter().try_for_each(|row| writeln!(f, "{row}"))
    }
}
