//! Kills the server with SIGKILL at random moments while records are streamed (docs/invariants.md, 1): no record is
//! lost or indexed twice.
//!
//! The moment of a kill depends on a random number of commits, not on time: 0 to 30 commits after the process
//! was started, so it happens during start-up, replay and live indexing. Creates, updates and deletes are mixed,
//! several in one commit, over accounts that share a collection.

use belvedere_base::random::Random;
use belvedere_standins::parameters;
use reqwest::Method;
use serde_json::{Value, json};

use crate::database::Database;
use crate::index::{equals_pds, track};
use crate::network::network;
use crate::pds::Account;
use crate::server::{Server, expect};

const NOTE: &str = "com.example.crash.note";
const SCRIPT: &str = "function handle() for i = 1, 20000 do end return true end";
const ROUNDS: usize = 24;
const ACCOUNTS: usize = 3;
/// Few enough that updates and deletes usually hit existing records.
const KEYS: u64 = 200;
/// One round in this many waits for the server to be ready before the first write.
const READY_EVERY: u64 = 3;

crate::on_both!(kill_at_any_moment);
async fn kill_at_any_moment(database: Database) {
    let seed = seed();
    println!("BELVEDERE_SEED={seed}");
    let random = Random::seeded(seed);
    let network = network().await;
    let mut writers = Vec::new();
    for _ in 0..ACCOUNTS {
        writers.push(Writer { account: network.account().await, keys: Vec::new() });
    }
    let mut server = Server::new(network, database);
    server.start().await;
    let key = server.create_key(&writers[0].account.did);
    track(&server, &key, NOTE).await;
    // With a record script, so that some events are waiting for their script when the server is killed.
    let script = json!({ "id": format!("record.index:{NOTE}"), "body": SCRIPT });
    expect(201, server.request(Method::POST, "/admin/scripts").bearer_auth(&key).json(&script)).await;

    for round in 0..ROUNDS {
        if round > 0 {
            server.spawn();
            if below(&random, READY_EVERY) == 0 {
                server.ready().await;
            }
        }
        for _ in 0..below(&random, 31) {
            let writer = below(&random, ACCOUNTS as u64) as usize;
            writers[writer].commit(&random).await;
        }
        server.kill();
    }

    server.start().await;
    let accounts: Vec<_> = writers.into_iter().map(|writer| writer.account).collect();
    let compared = equals_pds(&server, &key, NOTE, &accounts).await;
    println!("{compared} records after {ROUNDS} kills");
    assert!(compared > ROUNDS, "the writers wrote too little for a meaningful test");
}

struct Writer {
    account: Account,
    /// The keys that have a record.
    keys: Vec<u64>,
}

impl Writer {
    /// One commit of one to ten writes to different keys.
    async fn commit(&mut self, random: &Random) {
        let mut writes: Vec<Value> = Vec::new();
        let mut touched = Vec::new();
        for _ in 0..=below(random, 10) {
            let key = below(random, KEYS);
            if touched.contains(&key) {
                continue;
            }
            touched.push(key);
            let rkey = format!("key{key}");
            let record = json!({ "text": random.hex(100), "n": below(random, 1_000_000) });
            let existing = self.keys.iter().position(|&existing| existing == key);
            writes.push(match existing {
                Some(index) if below(random, 3) == 0 => {
                    self.keys.swap_remove(index);
                    Account::delete_write(NOTE, &rkey)
                }
                Some(_) => Account::update_write(NOTE, &rkey, record),
                None => {
                    self.keys.push(key);
                    Account::create_write(NOTE, &rkey, record)
                }
            });
        }
        self.account.apply_writes(writes).await;
    }
}

fn below(random: &Random, end: u64) -> u64 {
    random.u64() % end
}

fn seed() -> u64 {
    parameters::number("BELVEDERE_SEED").unwrap_or_else(|| Random::system().u64())
}
