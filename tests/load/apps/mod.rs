//! The example apps (`examples/`) on a large index: `-- apps [--records N]`. Each page that an app needs, with its joins, counts
//! and viewer state, at 32 connections.

mod data;

use std::fmt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use belvedere_base::clock::Clock;
use belvedere_standins::cars;
use belvedere_standins::jetstream::{FakeJetstream, synthetic_did};
use belvedere_standins::repos::RepoNetwork;
use data_encoding::BASE64URL_NOPAD;
use serde_json::json;

use self::data::{Data, EVENT, FOLLOWED};
use crate::cases::Meter;
use crate::support::instance::Instance;
use crate::{Databases, Plan, baseline, http, server};

const CONNECTIONS: usize = 32;

/// Events that are in memory at the same time.
const CHUNK: usize = 50_000;

/// Maximum time until all records are indexed.
const PATIENCE: Duration = Duration::from_hours(2);

/// The secret of each run, so that a database of an earlier one can be read.
const DATABASE_KEY: &str = "kap+JDNvZHGNFWI6ibju3E45vOeRSA6N5uM39SAWukM=";

/// Addresses that each connection's requests go through.
const PATHS: usize = 200;

/// A page at as many requests as the server answers, and at half of them.
#[derive(Debug)]
pub struct Page {
    database: &'static str,
    case: &'static str,
    kib: usize,
    per_second: f64,
    /// CPU time of the server and its database for a request, in milliseconds.
    cpu: f64,
    /// Percentiles 50 and 99 of the latencies, in milliseconds.
    full: [f64; 2],
    half: [f64; 2],
}

/// Fills a database, and measures each page.
pub async fn measure(databases: &Databases, plan: &Plan) -> anyhow::Result<Vec<Page>> {
    let data = Data { records: plan.records, first_time_us: Clock::system().now().0 };
    let network = RepoNetwork::start(1).await;
    let reader = synthetic_did(data.reader());
    network.account(&reader, 0);
    network.account(crate::support::instance::OPERATOR, 0);
    let jetstream = FakeJetstream::start().await;
    let cache = plan.cache_mib.to_string();
    let key = DATABASE_KEY.to_owned();
    let settings = [("PLC_URL", network.url()), ("DATABASE_CACHE_MIB", cache), ("TOKEN_ENCRYPTION_KEY", key)];
    let settings = settings.each_ref().map(|(name, value)| (*name, value.as_str()));
    let server = server::start_on(&databases.url, &jetstream.url(), &settings).await;
    push(&server)?;
    server
        .eventually("the stream is connected", async |_| {
            jetstream.subscriptions().last().is_some_and(|last| last.wants(EVENT))
        })
        .await;
    if server.records().await < data.records as u64 {
        fill(&server, &jetstream, data).await?;
    }
    if databases.database.is_some() {
        baseline::vacuum(&databases.url).await?;
    }

    let meter = Meter { server: server.pid(), database: databases.database };
    let mut pages = Vec::new();
    for (case, paths) in cases(data).into_iter().filter(|(case, _)| case.contains(&plan.page)) {
        let as_reader = token(&server, &reader);
        let headers =
            [("x-client-key", server.client_key.clone()), ("authorization", format!("Bearer {as_reader}"))];
        warm(&server, case, &paths, &headers).await?;
        let turn = async |per_second| {
            http::run_paths(server.address, &paths, &headers, CONNECTIONS, plan.seconds, per_second).await
        };
        let before = meter.read();
        let full = turn(None).await?;
        let cpu = (meter.read() - before).all().as_secs_f64() * 1e3 / full.requests as f64;
        let half = turn(Some(full.per_second() / 2.0)).await?;
        for run in [&full, &half] {
            anyhow::ensure!(run.failures == 0, "{case}: {} of {} calls failed", run.failures, run.requests);
        }
        let percentiles = |run: &http::Run| [0.5, 0.99].map(|p| run.percentile(p));
        let page = Page {
            database: databases.name,
            case,
            kib: full.body_bytes.div_ceil(1 << 10),
            per_second: full.per_second(),
            cpu,
            full: percentiles(&full),
            half: percentiles(&half),
        };
        eprintln!("{page}");
        pages.push(page);
    }
    Ok(pages)
}

/// The pages, each with the addresses that are requested.
fn cases(data: Data) -> Vec<(&'static str, Vec<String>)> {
    const MICROBLOG: &str = "/xrpc/app.example.microblog";
    let actors = |method: &str| -> Vec<String> {
        data.sample(PATHS)
            .map(|account| format!("{MICROBLOG}.{method}?actor={}", synthetic_did(account)))
            .collect()
    };
    let thread = data.post_uri(data.post_with_replies(1_000));
    let ranges = (0..PATHS).map(|n| format!("{}-{:02}-01T00:00:00Z", 2021 + n / 12 % 6, 1 + n % 12));
    vec![
        ("author feed with counts", actors("getAuthorFeed")),
        ("timeline of 2,000 accounts", vec![format!("{MICROBLOG}.getTimeline?limit=30")]),
        ("thread of 1,000 replies", vec![format!("{MICROBLOG}.getThread?uri={thread}")]),
        ("profile with counts", actors("getProfile")),
        (
            "likes of a post with a quarter of all",
            vec![format!("{MICROBLOG}.getLikes?uri={}", data.post_uri(0))],
        ),
        ("notifications", vec![format!("{MICROBLOG}.getNotifications")]),
        ("hot links", vec!["/xrpc/app.example.links.getHot".to_owned()]),
        (
            "events from a day on",
            ranges.map(|from| format!("/xrpc/app.example.events.getEvents?from={from}")).collect(),
        ),
    ]
}

/// Stores the lexicons, views and scripts of the apps.
fn push(server: &Instance) -> anyhow::Result<()> {
    let examples = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let url = format!("http://{}", server.address);
    for app in ["microblog", "links", "events"] {
        for (kind, more) in [("lexicon", Some("--no-backfill")), ("script", None)] {
            let folder = examples.join(app).join(format!("{kind}s"));
            let folder = folder.to_string_lossy();
            let mut arguments = vec![kind, "push", &*folder, "--url", &url, "--key", &server.admin_key];
            arguments.extend(more);
            let output = server.run(&arguments);
            anyhow::ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        }
    }
    Ok(())
}

async fn fill(server: &Instance, jetstream: &FakeJetstream, data: Data) -> anyhow::Result<()> {
    let started = Instant::now();
    for from in (0..data.records).step_by(CHUNK) {
        let to = data.records.min(from + CHUNK);
        jetstream.forget();
        jetstream.push_all(data.frames(from..to));
        while server.records().await < to as u64 {
            anyhow::ensure!(started.elapsed() < PATIENCE, "the records are not indexed");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
    let rate = data.records as f64 / started.elapsed().as_secs_f64();
    eprintln!(
        "{} records of {} accounts, {FOLLOWED} followed by the reader; {rate:.0} a second",
        data.records,
        data.accounts()
    );
    Ok(())
}

/// Requests pages until the indexes that they need are built: three passes in a row without a slow page.
async fn warm(
    server: &Instance,
    case: &str,
    paths: &[String],
    headers: &[(&'static str, String)],
) -> anyhow::Result<()> {
    const QUICK: Duration = Duration::from_millis(20);
    let (started, mut passes) = (Instant::now(), 0);
    while passes < 3 {
        anyhow::ensure!(started.elapsed() < PATIENCE, "{case} stays slow");
        let run = http::run_paths(server.address, paths, headers, 1, Duration::from_secs(1), None).await?;
        passes = if run.percentile(0.9) < QUICK.as_secs_f64() * 1e3 { passes + 1 } else { 0 };
        if started.elapsed() > Duration::from_mins(2) {
            eprintln!("{case}: no index makes it quick");
            break;
        }
    }
    Ok(())
}

/// A service token of the account without a `jti`, so that each request can have it.
fn token(server: &Instance, did: &str) -> String {
    let now = Clock::system().now().as_seconds();
    let part = |value: serde_json::Value| BASE64URL_NOPAD.encode(value.to_string().as_bytes());
    let header = part(json!({ "typ": "JWT", "alg": "ES256K" }));
    let claims = part(json!({ "iss": did, "aud": server.did(), "iat": now, "exp": now + 3_000 }));
    let signed = format!("{header}.{claims}");
    format!("{signed}.{}", BASE64URL_NOPAD.encode(&cars::sign(did, signed.as_bytes())))
}

/// The header of the Markdown table.
pub const HEAD: &str = "| Page of an example app, 32 connections | | KiB | CPU ms | per second | p50 ms | p99 ms | at half: p50 ms | p99 ms |
|---|---|---:|---:|---:|---:|---:|---:|---:|";

impl fmt::Display for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { database, case, kib, per_second, cpu, full: [p50, p99], half: [half_p50, half_p99] } =
            self;
        write!(
            f,
            "| {case} | {database} | {kib} | {cpu:.2} | {per_second:.0} | {p50:.1} | {p99:.1} | {half_p50:.1} | {half_p99:.1} |"
        )
    }
}
