//! Measures how a greedy client's reads, logs and responses slow down another client's list: its latency alone, and
//! during each of them.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::server::{self, COLLECTION};
use crate::support::instance::Instance;
use crate::{Plan, http, writing};
use belvedere_base::clock::Clock;
use belvedere_standins::jetstream::{FakeJetstream, synthetic};

/// The number of requests that the greedy client has in flight.
const GREEDY: usize = 24;

/// Number of times that the list is measured alone, beside the greedy client, and beside one of another server, in
/// turns: the other load of the machine comes and goes.
const ROUNDS: u32 = 4;

/// Names and bodies of the greedy client's scripts. `COLLECTION` is replaced by the collection's name.
const CASES: [(&str, &str); 13] = [
    (
        "LIKE without a match",
        "db.query{ collection = COLLECTION, filter = { field = 'text', op = 'LIKE', value = '%nope%' } } return 1",
    ),
    ("a sort by a field", "return #db.query{ collection = COLLECTION, sort = 'likes' }.records"),
    ("a search", "return #db.search{ collection = COLLECTION, field = 'text', query = 'nope' }.records"),
    ("1,000 counts", "for i = 1, 999 do db.count(COLLECTION) end return 1"),
    ("100 log lines of 4 KB", "local line = ('x'):rep(4096) for i = 1, 100 do log(line) end return 1"),
    ("100 lists of 100", "for i = 1, 100 do db.query{ collection = COLLECTION, limit = 100 } end return 1"),
    (
        "SQL that reads every record",
        "return db.raw([[SELECT count(*) AS n FROM records WHERE collection = $1 AND record ->> 'text' LIKE $2]], \
         { COLLECTION, '%nope%' })",
    ),
    ("runs of 60 MB", "local t = {} for i = 1, 58 do t[i] = ('x'):rep(1000000) .. i end return #t"),
    ("answers of 8 MB", "return ('x'):rep(8000000)"),
    ("a plugin that computes", "return plugin.hostile.spin(100000000)"),
    ("a plugin that logs", "return plugin.hostile.log({ lines = 100, bytes = 4096 })"),
    ("a plugin that returns 200 KB", "return #plugin.hostile.big(200000)"),
    // The last one: it uses up the client's share of the processor for a while.
    ("a loop until its end", "while true do end"),
];

/// Latencies of the modest client's list, in milliseconds.
#[derive(Debug)]
pub struct Neighbour {
    case: &'static str,
    alone: (f64, f64),
    beside: (f64, f64),
    /// Beside the greedy client on another server on this machine, which shares only the processors and the kernel with
    /// this one.
    apart: (f64, f64),
    /// The greedy client's successful and refused runs per second.
    greedy: (f64, f64),
}

/// Measures every case on one server without indexes of fields.
pub async fn measure(directory: &Path, plan: &Plan) -> anyhow::Result<Vec<Neighbour>> {
    let folder = hostile_plugin()?;
    let plugins = folder.path().to_string_lossy().into_owned();
    let (server, _stream) = with_records(&directory.join("one.db"), &plugins, plan).await?;
    let (other, _its_stream) = with_records(&directory.join("other.db"), &plugins, plan).await?;
    let list = server::upload_query(&server).await;
    let ours = [("x-client-key", server.client_key.clone())];
    let theirs = [("x-client-key", server.create_client("greedy").await)];
    let elsewhere = [("x-client-key", other.client_key.clone())];
    let mut rows = vec![beside_spinning(&server, &list, &ours, plan).await?];
    eprintln!("{}", rows[0]);
    for (n, (case, body)) in CASES.into_iter().enumerate().filter(|(_, (case, _))| case.contains(&plan.only))
    {
        let source =
            format!("function handle() {} end", body.replace("COLLECTION", &format!("'{COLLECTION}'")));
        let greedy = server::add_script(&server, &format!("greedy{n}"), &source).await;
        server::add_script(&other, &format!("greedy{n}"), &source).await;
        let [mut alone, mut beside, mut apart, mut others] = [(); 4].map(|()| http::Run::default());
        for _ in 0..ROUNDS {
            alone.then(http::run_apart(server.address, &list, &ours, plan.seconds).await?);
            let (listed, run) = tokio::join!(
                http::run_apart(server.address, &list, &ours, plan.seconds),
                http::run(server.address, &greedy, &theirs, GREEDY, plan.seconds),
            );
            beside.then(listed?);
            others.then(run?);
            let (listed, _) = tokio::join!(
                http::run_apart(server.address, &list, &ours, plan.seconds),
                http::run(other.address, &greedy, &elsewhere, GREEDY, plan.seconds),
            );
            apart.then(listed?);
        }
        anyhow::ensure!(
            alone.failures + beside.failures + apart.failures == 0,
            "{case}: the modest client was refused"
        );
        let of = |run: &http::Run| (run.percentile(0.5), run.percentile(0.99));
        let second = others.elapsed.as_secs_f64();
        let greedy = ((others.requests - others.failures) as f64 / second, others.failures as f64 / second);
        let row = Neighbour { case, alone: of(&alone), beside: of(&beside), apart: of(&apart), greedy };
        eprintln!("{row}");
        rows.push(row);
    }
    Ok(rows)
}

/// A folder with the plugin of the cases (`sh dev/plugins.sh hostile`).
fn hostile_plugin() -> anyhow::Result<tempfile::TempDir> {
    let program = std::env::current_exe()?;
    let built = program.ancestors().nth(3).map(|target| target.join("plugins/hostile")).unwrap_or_default();
    anyhow::ensure!(built.join("plugin.wasm").exists(), "build the plugin: sh dev/plugins.sh hostile");
    let folder = tempfile::tempdir()?;
    std::os::unix::fs::symlink(built, folder.path().join("hostile"))?;
    Ok(folder)
}

/// A server with the plan's records, and without indexes of fields.
async fn with_records(
    database: &Path,
    plugins: &str,
    plan: &Plan,
) -> anyhow::Result<(Instance, FakeJetstream)> {
    let database = format!("sqlite://{}", database.display());
    let standin = FakeJetstream::start().await;
    let now = Clock::system().now().0;
    let events: Vec<_> = synthetic(plan.records, writing::REPOS, COLLECTION, now).collect();
    let settings = [("FIELD_INDEX_LIMIT", "0"), ("PLUGIN_DIR", plugins)];
    let server = server::start_with(&database, &standin.url(), &settings).await;
    server::upload_collection(&server).await;
    server.eventually("the stream is connected", async |_| !standin.subscriptions().is_empty()).await;
    standin.push_all(events);
    server::wait_for_records(&server, plan.records as u64).await?;
    Ok((server, standin))
}

/// The reference case: as many busy threads of this program as the machine has cores. The list's loss here is due to
/// the kernel's scheduling, not to the server.
async fn beside_spinning(
    server: &Instance,
    list: &str,
    ours: &[(&'static str, String)],
    plan: &Plan,
) -> anyhow::Result<Neighbour> {
    let alone = http::run_apart(server.address, list, ours, plan.seconds).await?;
    let ended = Arc::new(AtomicBool::new(false));
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let spinning: Vec<_> = (0..cores)
        .map(|_| {
            let ended = Arc::clone(&ended);
            std::thread::spawn(move || while !ended.load(Ordering::Relaxed) {})
        })
        .collect();
    let beside = http::run_apart(server.address, list, ours, plan.seconds).await;
    ended.store(true, Ordering::Relaxed);
    for thread in spinning {
        thread.join().expect("the thread does not panic");
    }
    let beside = beside?;
    anyhow::ensure!(alone.failures + beside.failures == 0, "the modest client was refused");
    let of = |run: &http::Run| (run.percentile(0.5), run.percentile(0.99));
    Ok(Neighbour {
        case: "a spinning thread for each core",
        alone: of(&alone),
        beside: of(&beside),
        apart: of(&beside),
        greedy: (0.0, 0.0),
    })
}

/// The header of the Markdown table.
pub const HEAD: &str = "| Beside 24 connections of | alone p50 ms | p99 ms | beside p50 ms | p99 ms | times p99 | on another server, times p99 | runs per second | refused per second |
|---|---:|---:|---:|---:|---:|---:|---:|---:|";

impl fmt::Display for Neighbour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { case, alone, beside, apart, greedy } = self;
        write!(f, "| {case} | {:.2} | {:.2} | {:.2} | {:.2} |", alone.0, alone.1, beside.0, beside.1)?;
        write!(
            f,
            " {:.1} | {:.1} | {:.1} | {:.1} |",
            beside.1 / alone.1,
            apart.1 / alone.1,
            greedy.0,
            greedy.1
        )
    }
}
