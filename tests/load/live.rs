//! Measures a subscription with many connections, each of which has one of a few filters, while events are indexed.
//!
//! Each connection asks for the records of one account. Events are those of `accounts` accounts in turns, of which `filters` are
//! asked for, evenly spread over a turn. All connections come from this process, which needs processors too. They name no account, so they
//! leave places to one that does.

use std::collections::HashMap;
use std::fmt;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ::http::{Method, StatusCode};
use anyhow::Context as _;
use belvedere_base::clock::Clock;
use belvedere_standins::jetstream::{FakeJetstream, Frame, Place, synthetic_did, tid};
use belvedere_standins::websocket::WebSocket;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::{Value, json};
use sqlx::Connection as _;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::support::app::{App, Device};
use crate::support::instance::{Instance, record_lexicon};
use crate::support::oauth_pds::OauthPds;
use crate::support::plc::Plc;
use crate::{Databases, cpu, server};

const COLLECTION: &str = "com.example.load.note";
/// No connection asks for its records.
const OTHER: &str = "com.example.load.other";
const WATCH: &str = "com.example.load.watch";
const ALICE: &str = "did:plc:alicealicealicealicealic";

/// Connections from one address of this machine: the ports of an address are fewer than 28,000.
const PER_ADDRESS: usize = 5_000;

/// Handshakes at the same time.
const OPENING: usize = 32;

/// Files of this process and of the server besides connections.
const OTHER_FILES: u64 = 500;

/// Files that the server may have opened meanwhile.
const FEW_FILES: usize = 20;

/// One event of so many is of the collection that connections ask for, as on a stream that has more collections.
const MIXED: usize = 50;

/// Time in which the server must notice that connections are closed.
const PATIENCE: Duration = Duration::from_secs(30);

/// The parameters of a run.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub sockets: usize,
    pub filters: usize,
    pub accounts: usize,
    /// Events in a second.
    pub rate: usize,
    pub seconds: usize,
    /// Events of each measurement of ingest at full speed.
    pub records: usize,
}

impl Plan {
    /// The account whose records the `n`th connection asks for.
    fn asked_for(&self, n: usize) -> String {
        synthetic_did(n % self.filters * (self.accounts / self.filters).max(1))
    }
}

/// Milliseconds from the change in the database to the client.
#[derive(Clone, Copy, Debug, Default)]
struct Latency {
    p50: f64,
    p99: f64,
    messages: usize,
}

#[derive(Debug)]
pub struct Row {
    name: &'static str,
    plan: Plan,
    latency: Latency,
    /// Records a second at full speed, without connections and with them.
    ingest: (f64, f64),
    /// The same, when most records are of another collection.
    mixed: (f64, f64),
    /// Resident memory of the server in bytes: without connections, with idle ones, and at most.
    memory: (u64, u64, u64),
    /// Connections without an account that found a place, and then those that did not.
    anonymous: (usize, usize),
    /// That of the connection with an account beside them.
    authenticated: Latency,
}

/// The header of the Markdown table.
pub const HEAD: &str = "| Database | sockets | filters | events/s | messages | p50 ms | p99 ms | ingest/s without | with | ratio | one event of 50 watched: ingest/s without | with | ratio | RSS MB idle | at most | KB a socket | without an account, refused | account beside them p50 ms | p99 ms |
|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|";

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, plan, latency, ingest, mixed, memory, anonymous, authenticated } = self;
        let mb = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        let each = memory.1.saturating_sub(memory.0) as f64 / 1_024.0 / plan.sockets as f64;
        write!(f, "| {name} | {} | {} | {} |", plan.sockets, plan.filters, plan.rate)?;
        write!(f, " {} | {:.1} | {:.1} |", latency.messages, latency.p50, latency.p99)?;
        for (without, with) in [ingest, mixed] {
            write!(f, " {without:.0} | {with:.0} | {:.2} |", with / without)?;
        }
        write!(f, " {:.0} | {:.0} | {each:.1} |", mb(memory.1), mb(memory.2))?;
        write!(f, " {}, {} | {:.1} | {:.1} |", anonymous.0, anonymous.1, authenticated.p50, authenticated.p99)
    }
}

/// Measures on a new server.
pub async fn measure(databases: &Databases, plan: &Plan) -> anyhow::Result<Row> {
    raise_limit(plan.sockets)?;
    let mut load = Load::start(databases, *plan).await?;
    // Warm up caches.
    load.ingest(plan.records / 10, 1).await?;
    let pid = load.server.pid();
    let before = cpu::resident(pid);
    let (without, mixed_without) =
        (load.ingest(plan.records, 1).await?, load.ingest(plan.records, MIXED).await?);
    cpu::forget_peak(pid)?;
    let files = cpu::open_files(pid);
    let mut clients = load.open(plan.sockets).await?;
    anyhow::ensure!(clients.refused == 0, "{} connections were refused", clients.refused);
    // Buffers of handshakes are freed.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let idle = cpu::resident(pid);
    load.paced().await?;
    let latency = load.latency(&mut clients).await?;
    let (with, mixed_with) = (load.ingest(plan.records, 1).await?, load.ingest(plan.records, MIXED).await?);
    let most = cpu::peak(pid);
    drop(clients);
    load.closed(files + FEW_FILES).await?;
    let (anonymous, authenticated) = load.beside_anonymous().await?;
    Ok(Row {
        name: databases.name,
        plan: *plan,
        latency,
        ingest: (without, with),
        mixed: (mixed_without, mixed_with),
        memory: (before, idle, most),
        anonymous,
        authenticated,
    })
}

/// Raises the limit of open files to what the connections need, for this process and the server that it starts.
fn raise_limit(sockets: usize) -> anyhow::Result<()> {
    let (needed, limit) = (sockets as u64 * 2 + OTHER_FILES, getrlimit(Resource::Nofile));
    if limit.current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    let raised = Rlimit { current: Some(needed), maximum: limit.maximum.map(|maximum| maximum.max(needed)) };
    setrlimit(Resource::Nofile, raised).with_context(|| format!("run ulimit -n {needed} before"))
}

/// A server with its stream.
struct Load {
    server: Instance,
    jetstream: FakeJetstream,
    plan: Plan,
    url: String,
    pushed: usize,
    first_time_us: i64,
    device: Device,
    /// Servers of the network that the account's session needs.
    _network: (Plc, OauthPds),
}

/// Messages that clients have got: the number, and the time in microseconds since 1970.
type Arrivals = mpsc::UnboundedReceiver<(i64, i64)>;

/// Open connections. They are closed when this is dropped.
struct Clients {
    arrivals: Arrivals,
    _tasks: JoinSet<()>,
    open: usize,
    refused: usize,
}

fn lexicon() -> Value {
    let seq = json!({ "type": "integer" });
    let created = json!({ "type": "object", "required": ["seq", "uri"], "properties": {
        "seq": seq, "uri": { "type": "string" }, "record": { "type": "unknown" } } });
    json!({ "lexicon": 1, "id": WATCH, "defs": {
        "main": { "type": "subscription", "subprotocol": "xrpc.v1.json",
            "parameters": { "type": "params", "properties": { "did": { "type": "array", "items": { "type": "string" } } } },
            "message": { "schema": { "type": "union", "refs": ["#create"] } } },
        "create": created } })
}

impl Load {
    async fn start(databases: &Databases, plan: Plan) -> anyhow::Result<Self> {
        let (plc, pds, jetstream) =
            (Plc::start().await, OauthPds::start().await, FakeJetstream::start().await);
        plc.host(ALICE, &pds.url());
        let plc_url = plc.url();
        // Three quarters of the places are for connections without an account.
        let (places, of_address) = ((plan.sockets * 4).div_ceil(3).to_string(), plan.sockets.to_string());
        let more = [
            ("PLC_URL", &*plc_url),
            ("SUBSCRIPTION_SOCKETS", &places),
            ("SUBSCRIPTION_SOCKETS_PER_CLIENT", &places),
            ("SUBSCRIPTION_SOCKETS_PER_ADDRESS", &of_address),
        ];
        let server = server::start_with(&databases.url, &jetstream.url(), &more).await;
        server.upload(record_lexicon(COLLECTION), None).await;
        server.upload(record_lexicon(OTHER), None).await;
        server.upload(lexicon(), Some(COLLECTION)).await;
        let connected = async |_: &Instance| {
            jetstream.subscriptions().last().is_some_and(|last| last.wants(COLLECTION) && last.wants(OTHER))
        };
        server.eventually("the stream is connected", connected).await;
        let app = App::confidential(&server, "load").await;
        let device = app.device(&server, &pds, ALICE, json!({})).await;
        let (url, first_time_us) = (databases.url.clone(), Clock::system().now().0);
        Ok(Self { server, jetstream, plan, url, pushed: 0, first_time_us, device, _network: (plc, pds) })
    }

    /// One of `every` events is of the collection that connections ask for.
    fn push(&mut self, count: usize, every: usize) {
        let (first, accounts) = (self.first_time_us, self.plan.accounts);
        let frames = (self.pushed..self.pushed + count).map(|n| {
            let (at, did) = (first + n as i64, synthetic_did(n / every % accounts));
            let rev = tid(at as u64, 0);
            let collection = if n.is_multiple_of(every) { COLLECTION } else { OTHER };
            let place = Place { did: &did, collection, rkey: &rev, rev: &rev };
            let record = json!({ "$type": collection, "text": format!("note {n}"), "createdAt": "2026-01-01T00:00:00Z" });
            Frame::create(at, place, &record)
        });
        self.jetstream.push_all(frames);
        self.pushed += count;
    }

    /// Indexes events at full speed. Returns how many a second.
    async fn ingest(&mut self, count: usize, every: usize) -> anyhow::Result<f64> {
        self.jetstream.forget();
        let started = Instant::now();
        self.push(count, every);
        server::wait_for_records(&self.server, self.pushed as u64).await?;
        Ok(count as f64 / started.elapsed().as_secs_f64())
    }

    /// Indexes events at the plan's rate.
    async fn paced(&mut self) -> anyhow::Result<()> {
        self.jetstream.forget();
        let (started, steps) = (Instant::now(), self.plan.seconds * 20);
        for step in 0..steps {
            let due = (step + 1) * self.plan.rate / 20 - step * self.plan.rate / 20;
            self.push(due, 1);
            tokio::time::sleep_until((started + Duration::from_millis(50) * (step as u32 + 1)).into()).await;
        }
        server::wait_for_records(&self.server, self.pushed as u64).await?;
        Ok(())
    }

    /// Opens connections without an account.
    async fn open(&self, count: usize) -> anyhow::Result<Clients> {
        let (sender, arrivals) = mpsc::unbounded_channel();
        let (mut tasks, mut opening) = (JoinSet::new(), JoinSet::new());
        let (mut open, mut refused) = (0, 0);
        let path = Arc::new(format!("/xrpc/{WATCH}?client_key={}", self.server.client_key));
        for n in 0..count + OPENING {
            if opening.len() == OPENING || n >= count {
                match opening.join_next().await {
                    Some(Ok(Ok(socket))) => {
                        open += 1;
                        tasks.spawn(follow(socket, sender.clone()));
                    }
                    Some(Ok(Err(status))) => {
                        anyhow::ensure!(is_full(status), "a connection was refused with {status}");
                        refused += 1;
                    }
                    Some(Err(error)) => return Err(error.into()),
                    None => {}
                }
            }
            if n < count {
                let (address, path) = (self.server.address, Arc::clone(&path));
                let (from, did) = (source(n), self.plan.asked_for(n));
                opening.spawn(async move {
                    WebSocket::connect_from(from, address, &format!("{path}&did={did}"), &[]).await
                });
            }
        }
        Ok(Clients { arrivals, _tasks: tasks, open, refused })
    }

    /// Waits until the server knows that all connections are closed.
    async fn closed(&self, files: usize) -> anyhow::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while cpu::open_files(self.server.pid()) > files {
            anyhow::ensure!(Instant::now() < deadline, "the server keeps closed connections");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(())
    }

    /// The latency of the messages that arrive until there is silence.
    async fn latency(&self, clients: &mut Clients) -> anyhow::Result<Latency> {
        let mut arrived = Vec::new();
        // An error means that the time is over.
        while let Ok(Some(one)) = tokio::time::timeout(Duration::from_secs(2), clients.arrivals.recv()).await
        {
            arrived.push(one);
        }
        let times = self.change_times().await?;
        let mut millis: Vec<f64> =
            arrived.iter().filter_map(|(seq, at)| Some((at - times.get(seq)?) as f64 / 1e3)).collect();
        millis.sort_unstable_by(f64::total_cmp);
        anyhow::ensure!(!millis.is_empty(), "no message arrived");
        let percentile = |p: f64| millis[((millis.len() - 1) as f64 * p) as usize];
        Ok(Latency { p50: percentile(0.5), p99: percentile(0.99), messages: millis.len() })
    }

    /// The time of each change in the database, in microseconds since 1970. It is slightly before the commit.
    async fn change_times(&self) -> anyhow::Result<HashMap<i64, i64>> {
        let sql = "SELECT seq, changed_at FROM record_changes";
        let rows: Vec<(i64, i64)> = if self.url.starts_with("postgres") {
            let mut connection = sqlx::PgConnection::connect(&self.url).await?;
            sqlx::query_as(sql).fetch_all(&mut connection).await?
        } else {
            let mut connection = sqlx::SqliteConnection::connect(&self.url).await?;
            sqlx::query_as(sql).fetch_all(&mut connection).await?
        };
        Ok(rows.into_iter().collect())
    }

    /// Opens more connections without an account than there are places for, and then one with an account.
    async fn beside_anonymous(&mut self) -> anyhow::Result<((usize, usize), Latency)> {
        let anonymous = self.open(self.plan.sockets + self.plan.sockets / 50 + 1).await?;
        let path = format!("/xrpc/{WATCH}?did={}", self.plan.asked_for(0));
        let proof = self.device.proof(&self.server, &Method::GET, &path);
        let authorization = format!("DPoP {}", self.device.token);
        let headers = [
            ("x-client-key", &*self.device.client_key),
            ("authorization", &*authorization),
            ("dpop", &*proof),
        ];
        let socket = WebSocket::connect_from(Ipv4Addr::LOCALHOST, self.server.address, &path, &headers).await;
        let socket = socket.map_err(|status| anyhow::anyhow!("the account found no place: {status}"))?;
        let (sender, arrivals) = mpsc::unbounded_channel();
        let mut tasks = JoinSet::new();
        tasks.spawn(follow(socket, sender));
        self.paced().await?;
        let mut account = Clients { arrivals, _tasks: tasks, open: 1, refused: 0 };
        let latency = self.latency(&mut account).await?;
        Ok(((anonymous.open, anonymous.refused), latency))
    }
}

fn is_full(status: StatusCode) -> bool {
    matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE)
}

/// The address that a connection comes from.
fn source(n: usize) -> Ipv4Addr {
    Ipv4Addr::new(127, 0, 0, 2 + (n / PER_ADDRESS) as u8)
}

/// Notes when messages arrive.
async fn follow(mut socket: WebSocket, arrivals: mpsc::UnboundedSender<(i64, i64)>) {
    let clock = Clock::system();
    while let Some(text) = socket.receive_text().await {
        let at = clock.now().0;
        let digits = text.split_once(r#""seq":"#).map(|(_, rest)| rest);
        let digits = digits.and_then(|rest| rest.split(|c: char| !c.is_ascii_digit()).next());
        let Some(seq) = digits.and_then(|digits| digits.parse().ok()) else { continue };
        if arrivals.send((seq, at)).is_err() {
            return;
        }
    }
}
