//! Measures backfills from a network of stand-ins in this process, whose CPU time is not counted.

use std::fmt;
use std::time::{Duration, Instant};

use ::http::Method;
use anyhow::Context;
use belvedere_standins::jetstream::synthetic_record;
use belvedere_standins::repos::{Fault, Query, RepoNetwork, Site, document};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::watch;

use crate::server::COLLECTION;
use crate::support::instance::{Instance, record_lexicon};
use crate::{Databases, cpu, server, writing};

/// Readers of a job's progress in the case that has some.
const READERS: usize = 100;

/// A job that takes longer than this fails the run.
const TIMEOUT: Duration = Duration::from_mins(15);

/// One measured job.
#[derive(Debug, Default)]
pub struct Row {
    case: String,
    seconds: f64,
    records: u64,
    /// Repos that could not be read.
    failed: u64,
    per_cpu_second: f64,
    with_database: Option<f64>,
    /// The same rows through prepared bulk inserts alone, per CPU-second including the database's.
    inserts: Option<f64>,
    /// Peak resident memory of the server, in bytes.
    peak: u64,
}

/// Measures the cases on one pair of databases. `only` chooses by a part of the case's name.
pub async fn measure(databases: &Databases, only: &str) -> anyhow::Result<Vec<Row>> {
    let name = databases.name;
    let mut rows = Vec::new();
    let cases = [
        "2,000 repos of 50 records",
        "the same with 100 readers of its progress",
        "100,000 repos of one record",
        "500 hosts",
        "500 hosts and one that is dead",
        "a skewed network, default settings",
        "a skewed network, 64 hosts at a time",
        "64 hosts at a time, slow hosts ten times as slow",
        "64 hosts at a time, and a large host is slow",
        "discovery of 1,000,000 repos",
    ];
    for (number, case) in cases.into_iter().enumerate().filter(|(_, case)| case.contains(only)) {
        let url = match databases.database {
            None => format!("{}.{number}", databases.url),
            Some(_) => belvedere_standins::postgres::create_database().await,
        };
        let database = databases.database;
        let mut row = match number {
            0 => Scene::start(&url, database, Network::even(20, 2_000, 50).await, &[]).await?.run(0).await?,
            1 => {
                Scene::start(&url, database, Network::even(20, 2_000, 50).await, &[])
                    .await?
                    .run(READERS)
                    .await?
            }
            2 => Scene::start(&url, database, Network::even(20, 100_000, 1).await, &[]).await?.run(0).await?,
            3 => Scene::start(&url, database, Network::even(500, 2_000, 10).await, &[]).await?.run(0).await?,
            4 => {
                let network = Network::even(500, 2_000, 10).await;
                network.add_dead(2_000, 300, 1);
                Scene::start(&url, database, network, &[]).await?.run(0).await?
            }
            5 => Scene::start(&url, database, Network::skewed(5, None).await, &[]).await?.run(0).await?,
            6..=8 => {
                let more = [("BACKFILL_CONCURRENT_PDS", "64"), ("BACKFILL_CONCURRENT_DIDS_PER_PDS", "8")];
                let slowness = if number == 6 { 5 } else { 10 };
                let network = Network::skewed(slowness, (number == 8).then_some(0)).await;
                Scene::start(&url, database, network, &more).await?.run(0).await?
            }
            _ => {
                Scene::start(&url, database, Network::endless(1_000_000).await, &[]).await?.discover().await?
            }
        };
        row.case = format!("{name}: {case}");
        if number == 0 {
            row.inserts =
                Some(writing::baseline(&databases.baseline_url, row.records as usize, database).await?);
        }
        eprintln!("{row}");
        rows.push(row);
    }
    Ok(rows)
}

/// A network, and what a job should find there.
struct Network {
    repos: RepoNetwork,
    /// Records of repos that can be read.
    records: u64,
}

/// A valid did:plc for a number. They ascend with it, as in the lists of relays.
fn did(n: usize) -> String {
    const DIGITS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let digit = |place: usize| char::from(DIGITS[(n >> (5 * place)) & 31]);
    format!("did:plc:{}{}", "a".repeat(18), (0..6).rev().map(digit).collect::<String>())
}

impl Network {
    /// `repos` with `records` each, spread over the hosts.
    async fn even(hosts: usize, repos: usize, records: usize) -> Self {
        let network = RepoNetwork::start(hosts).await;
        for n in 0..repos {
            add(&network, n, n % hosts, records);
        }
        Self { repos: network, records: (repos * records) as u64 }
    }

    /// Adds repos of PDSs that refuse connections.
    fn add_dead(&self, first: usize, count: usize, hosts: usize) {
        for n in first..first + count {
            add(&self.repos, n, 0, 1);
            self.repos.document(&did(n), document(&did(n), &format!("http://127.0.1.{}:9", n % hosts + 1)));
        }
    }

    /// 1,633 repos: half of them on 20 large hosts and the rest on 400 small ones, which answer after 40 to 400 ms. 2% of
    /// the hosts, all of them small but for `slow_large`, take `slowness` times as long; 1% of the hosts are dead; every twentieth
    /// request to a large host is answered with 429.
    async fn skewed(slowness: u64, slow_large: Option<usize>) -> Self {
        const LARGE: usize = 20;
        const SMALL: usize = 400;
        const REPOS: usize = 1_633;
        const DEAD: usize = 16;
        let network = RepoNetwork::start(LARGE + SMALL).await;
        let mut records = 0;
        for n in 0..REPOS - DEAD {
            let host = if n % 2 == 0 { (n / 2) % LARGE } else { LARGE + (n / 2) % SMALL };
            let count = [3, 10, 40, 90, 5, 230][n % 6];
            add(&network, n, host, count);
            records += count as u64;
        }
        for host in 0..LARGE + SMALL {
            let mut requests = 0_u64;
            network.faults(Site::Pds(host), move |_| {
                requests += 1;
                if host < LARGE && requests.is_multiple_of(20) {
                    let headers = vec![("retry-after", "1".to_owned())];
                    return Some(Fault::Status(429, headers, r#"{"error":"RateLimitExceeded"}"#.to_owned()));
                }
                // The same for each run, and different for each host and request.
                let spread = (host as u64 * 7_919 + requests * 104_729) % 361;
                let is_slow = Some(host) == slow_large || (host > LARGE && host % 50 == 7);
                let slow = if is_slow { slowness } else { 1 };
                Some(after(Duration::from_millis((40 + spread) * slow)))
            });
        }
        let this = Self { repos: network, records };
        this.add_dead(REPOS - DEAD, DEAD, (LARGE + SMALL) / 100);
        this
    }

    /// A relay that lists repos without a DID document.
    async fn endless(repos: usize) -> Self {
        let network = RepoNetwork::start(1).await;
        network.faults(Site::Relay, move |query| listing(query, repos));
        Self { repos: network, records: 0 }
    }
}

fn add(network: &RepoNetwork, n: usize, host: usize, records: usize) {
    let did = did(n);
    network.account(&did, host);
    for k in 0..records {
        network.put(&did, COLLECTION, &format!("{k:05}"), synthetic_record(COLLECTION, n * 100 + k));
    }
}

/// The right answer, after a while.
fn after(wait: Duration) -> Fault {
    let (open, opened) = watch::channel(false);
    tokio::spawn(async move {
        tokio::time::sleep(wait).await;
        open.send(true)
    });
    Fault::Until(opened)
}

/// A page of the relay's list of `repos` repos.
fn listing(query: &Query, repos: usize) -> Option<Fault> {
    if query.method != "com.atproto.sync.listReposByCollection" {
        return None;
    }
    let first: usize = query.cursor.as_deref().and_then(|cursor| cursor.parse().ok()).unwrap_or(0);
    let last = (first + 1_000).min(repos);
    let page: Vec<Value> = (first..last).map(|n| json!({ "did": did(n) })).collect();
    let mut body = json!({ "repos": page });
    if last < repos {
        body["cursor"] = last.to_string().into();
    }
    Some(Fault::Status(200, Vec::new(), body.to_string()))
}

/// A server and the network that it reads.
struct Scene {
    server: Instance,
    network: Network,
    database: Option<cpu::Servers>,
}

impl Scene {
    async fn start(
        url: &str,
        database: Option<cpu::Servers>,
        network: Network,
        more: &[(&'static str, &str)],
    ) -> anyhow::Result<Self> {
        let names = network.repos.url();
        let environment = [("PLC_URL", names.as_str()), ("RELAY_URL", names.as_str())];
        let server = server::start_with(url, "none", &[&environment, more].concat()).await;
        let body = json!({ "lexicon_json": record_lexicon(COLLECTION), "backfill": false });
        let answer = server.admin(Method::POST, "/admin/lexicons", Some(&body)).await;
        anyhow::ensure!(answer.status.is_success(), "{}", answer.text);
        Ok(Self { server, network, database })
    }

    async fn create(&self) -> anyhow::Result<String> {
        let body = json!({ "collection": COLLECTION });
        let answer = self.server.admin(Method::POST, "/admin/backfill", Some(&body)).await;
        answer.body["id"].as_str().map(str::to_owned).with_context(|| answer.text.clone())
    }

    /// The job, as the admin API shows it.
    async fn job(&self, id: &str) -> anyhow::Result<Value> {
        let answer = self.server.admin(Method::GET, "/admin/backfill/status", None).await;
        let jobs = answer.body.as_array().or_else(|| answer.body["jobs"].as_array());
        let job = jobs.into_iter().flatten().find(|job| job["id"] == id);
        job.cloned().with_context(|| answer.text.clone())
    }

    /// Waits until the job has ended, or reached a stage. Returns it and the server's peak memory.
    async fn wait(&self, id: &str, stage: Option<&str>) -> anyhow::Result<(Value, u64)> {
        let (deadline, mut peak) = (Instant::now() + TIMEOUT, 0);
        loop {
            let job = self.job(id).await?;
            peak = peak.max(cpu::resident(self.server.pid()));
            let status = job["status"].as_str().unwrap_or_default();
            if status != "running" || stage.is_some_and(|stage| job["stage"] == stage) {
                return Ok((job, peak));
            }
            anyhow::ensure!(Instant::now() < deadline, "the job does not end: {job}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    fn used(&self) -> (Duration, Duration) {
        (cpu::of(self.server.pid()), self.database.map(cpu::of_database).unwrap_or_default())
    }

    /// Runs a job of the collection to its end, beside readers of its progress.
    async fn run(self, readers: usize) -> anyhow::Result<Row> {
        let (before, begin) = (self.used(), Instant::now());
        let id = self.create().await?;
        let mut reading = Vec::new();
        for _ in 0..readers {
            reading.push(tokio::spawn(read_events(
                self.server.address,
                self.server.admin_key.clone(),
                id.clone(),
            )));
        }
        let (job, peak) = self.wait(&id, None).await?;
        let (seconds, after) = (begin.elapsed().as_secs_f64(), self.used());
        anyhow::ensure!(job["status"] == "completed", "{job}");
        for reader in reading {
            anyhow::ensure!(reader.await??.contains("job_completed"), "a reader missed the end");
        }
        let records = self.server.records().await;
        anyhow::ensure!(records == self.network.records, "{records} of {} records", self.network.records);
        let errors =
            self.server.admin(Method::GET, &format!("/admin/backfill/{id}/errors?limit=1"), None).await;
        let failed = errors.body["counts"].as_object();
        let failed = failed.map_or(0, |counts| counts.values().filter_map(Value::as_u64).sum());
        let own = after.0.saturating_sub(before.0).as_secs_f64();
        let all = own + after.1.saturating_sub(before.1).as_secs_f64();
        Ok(Row {
            seconds,
            records,
            failed,
            per_cpu_second: records as f64 / own,
            with_database: self.database.map(|_| records as f64 / all),
            peak,
            ..Row::default()
        })
    }

    /// Runs a job up to the end of its first stage.
    async fn discover(self) -> anyhow::Result<Row> {
        let begin = Instant::now();
        let id = self.create().await?;
        let (job, peak) = self.wait(&id, Some("resolving_and_fetching")).await?;
        let seconds = begin.elapsed().as_secs_f64();
        let cancelled = self.server.admin(Method::POST, &format!("/admin/backfill/{id}/cancel"), None).await;
        anyhow::ensure!(cancelled.status.is_success(), "{}", cancelled.text);
        Ok(Row {
            seconds,
            failed: 0,
            records: job["total_repos"].as_u64().unwrap_or(0),
            peak,
            ..Row::default()
        })
    }
}

/// Reads the events of a job to their end, as text.
async fn read_events(address: std::net::SocketAddr, key: String, id: String) -> anyhow::Result<String> {
    let mut connection = TcpStream::connect(address).await?;
    let request = format!(
        "GET /admin/backfill/{id}/events HTTP/1.1\r\nHost: load.test\r\nAuthorization: Bearer {key}\r\n\
         Connection: close\r\n\r\n"
    );
    connection.write_all(request.as_bytes()).await?;
    let mut text = Vec::new();
    connection.read_to_end(&mut text).await?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// The header of the Markdown table.
pub const HEAD: &str = "| Backfill | seconds | records | failed repos | records per CPU-second | with the database's CPU | inserts alone | peak memory MB |
|---|---:|---:|---:|---:|---:|---:|---:|";

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = |value: Option<f64>| value.map(|v| format!("{v:.0}")).unwrap_or_default();
        write!(f, "| {} | {:.1} | {} | {} |", self.case, self.seconds, self.records, self.failed)?;
        let own = (self.per_cpu_second > 0.0).then_some(self.per_cpu_second);
        write!(f, " {} | {} | {} |", whole(own), whole(self.with_database), whole(self.inserts))?;
        write!(f, " {} |", self.peak >> 20)
    }
}
