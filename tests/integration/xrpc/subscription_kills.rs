//! Kills the server, PostgreSQL, or one of two hosts while records are indexed: clients that resume lose and double nothing.
//!
//! `BELVEDERE_KILL_ROUNDS` and `BELVEDERE_KILL_CLIENTS` make more of it, as 1000 and 50.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use belvedere_standins::jetstream::{Frame, Place};
use belvedere_standins::postgres::OwnServer;
use belvedere_standins::websocket::{Received, WebSocket};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::subscription_scripts as scripts;
use super::subscriptions::{self, lexicon};
use crate::fixtures::{ALICE, NOTES, World};

/// Records that are written in each round.
const BURST: u64 = 25;

/// Time in which a client must have everything after the last round.
const PATIENCE: Duration = Duration::from_mins(2);

/// Time after which a client connects again.
const RECONNECT_AFTER: Duration = Duration::from_millis(20);

#[expect(clippy::disallowed_methods, reason = "tests have no configuration")]
pub fn parameter(name: &str, default: usize) -> usize {
    std::env::var(name).ok().map_or(default, |text| text.parse().expect("a number"))
}

/// Clients that connect again with their cursor until they have everything.
pub struct Clients {
    tasks: JoinSet<BTreeMap<i64, Vec<String>>>,
    /// The number of changes after which a client is done.
    total: Arc<AtomicU64>,
}

impl Clients {
    /// Connections to these addresses in turns. `path` ends with a query.
    pub fn start(addresses: &[SocketAddr], path: &str) -> Self {
        let (mut tasks, total) = (JoinSet::new(), Arc::new(AtomicU64::new(u64::MAX)));
        for first in 0..parameter("BELVEDERE_KILL_CLIENTS", 5) {
            let client = Client { cursor: 0, waiting: Vec::new(), seen: BTreeMap::new() };
            let (addresses, path) = (addresses.to_vec(), path.to_owned());
            tasks.spawn(client.run(addresses, first, path, Arc::clone(&total)));
        }
        Self { tasks, total }
    }

    /// Waits until all clients have this many changes, and checks that each has the messages of each change once.
    pub async fn finish(self, total: u64, messages_of_each: usize) {
        self.total.store(total, Ordering::Release);
        let all = tokio::time::timeout(PATIENCE, self.tasks.join_all()).await.expect("all changes arrive");
        for seen in &all {
            assert_eq!(seen.len() as u64, total, "none is lost");
            assert!(seen.values().all(|messages| messages.len() == messages_of_each), "{seen:?}");
            let different: BTreeSet<&Vec<String>> = seen.values().collect();
            assert_eq!(different.len() as u64, total, "none is doubled");
            assert_eq!(seen, &all[0], "all clients have the same");
        }
    }
}

struct Client {
    cursor: i64,
    /// Messages of a change whose last one has not come.
    waiting: Vec<String>,
    /// The subjects of messages, by the number of their change.
    seen: BTreeMap<i64, Vec<String>>,
}

impl Client {
    async fn run(
        mut self,
        addresses: Vec<SocketAddr>,
        first: usize,
        path: String,
        total: Arc<AtomicU64>,
    ) -> BTreeMap<i64, Vec<String>> {
        for address in addresses.iter().cycle().skip(first) {
            let path = format!("{path}&cursor={}", self.cursor);
            self.waiting.clear();
            if let Ok(mut socket) = WebSocket::try_connect(Ipv4Addr::UNSPECIFIED, *address, &path, &[]).await
            {
                loop {
                    if self.seen.len() as u64 >= total.load(Ordering::Acquire) {
                        return self.seen;
                    }
                    // It looks at the total from time to time.
                    let received = tokio::time::timeout(Duration::from_millis(200), socket.receive()).await;
                    match received {
                        Ok(Received::Json(frame)) => self.note(&frame["payload"], &frame),
                        Err(_) => {}
                        Ok(_) => break,
                    }
                }
            }
            tokio::time::sleep(RECONNECT_AFTER).await;
        }
        self.seen
    }

    fn note(&mut self, message: &Value, frame: &Value) {
        let about = message["uri"].as_str().or(message["mood"].as_str());
        self.waiting.push(about.unwrap_or_else(|| panic!("{frame}")).to_owned());
        let Some(seq) = message["seq"].as_i64() else { return };
        assert!(seq > self.cursor, "{seq} after {}", self.cursor);
        self.cursor = seq;
        self.seen.insert(seq, std::mem::take(&mut self.waiting));
    }
}

fn write(world: &mut World, round: usize) {
    for n in 0..BURST {
        let record = json!({ "$type": NOTES, "text": format!("{round}.{n}") });
        world.push(|at, rev| {
            Frame::create(at, Place { did: ALICE, collection: NOTES, rkey: rev, rev }, &record)
        });
    }
}

/// Kills at a different point of each burst.
async fn pause(round: usize) {
    tokio::time::sleep(Duration::from_millis((round * 37 % 101) as u64)).await;
}

crate::in_both_worlds!(kills_of_the_server, kills_of_the_server_while_a_script_makes_the_messages);

async fn kills_of_the_server(world: World) {
    let mut world = world.with_notes().await;
    world.server.upload(lexicon(), Some(NOTES)).await;
    let path = format!("/xrpc/{}?client_key={}", subscriptions::WATCH, world.server.client_key);
    let clients = Clients::start(&[world.server.address], &path);
    let total = kill_the_server(&mut world).await;
    clients.finish(total, 1).await;
}

async fn kills_of_the_server_while_a_script_makes_the_messages(world: World) {
    let mut world = world.with_notes().await;
    world.server.upload(scripts::moods(), Some(NOTES)).await;
    let script = "function handle()
        local first = { ['$type'] = 'mood', mood = 'first ' .. event.uri }
        return { first, { ['$type'] = 'mood', mood = 'second ' .. event.uri } }
    end";
    world.server.bind_to(scripts::TRIGGER, script).await;
    let path = format!("/xrpc/{}?client_key={}", scripts::WATCH, world.server.client_key);
    let clients = Clients::start(&[world.server.address], &path);
    let total = kill_the_server(&mut world).await;
    clients.finish(total, 2).await;
}

/// Returns the number of records that are written.
async fn kill_the_server(world: &mut World) -> u64 {
    let rounds = parameter("BELVEDERE_KILL_ROUNDS", 8);
    for round in 0..rounds {
        write(world, round);
        pause(round).await;
        world.server.kill();
        world.server.start_again().await;
    }
    rounds as u64 * BURST
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_of_postgres() {
    let database = OwnServer::start().await;
    // Without it a commit may be lost with the process, as the operator who chooses that knows.
    database.execute("postgres", "ALTER DATABASE postgres SET synchronous_commit = on").await;
    let mut world = World::on(&database.url("postgres"), None).await.with_notes().await;
    world.server.upload(lexicon(), Some(NOTES)).await;
    let path = format!("/xrpc/{}?client_key={}", subscriptions::WATCH, world.server.client_key);
    let clients = Clients::start(&[world.server.address], &path);
    let rounds = parameter("BELVEDERE_KILL_ROUNDS", 4);
    for round in 0..rounds {
        write(&mut world, round);
        pause(round).await;
        database.signal("KILL").await;
        database.start_again().await;
    }
    clients.finish(rounds as u64 * BURST, 1).await;
}
