//! Measures scripts in the engine, without HTTP and database: `cargo bench --bench scripts [WORD..]`. Prints
//! the fastest and the median run of each case in microseconds; run it on an idle machine.

#![expect(clippy::print_stdout, reason = "a benchmark prints its result")]

use std::sync::Arc;
use std::time::Instant;

use belvedere_base::clock::{Clock, Timestamp};
use belvedere_base::random::Random;
use belvedere_protocol::atproto::Nsid;
use belvedere_protocol::trigger::Trigger;
use belvedere_scripting::scripts::services::StandIn;
use belvedere_scripting::scripts::{Engine, EngineConfig, Invocation, LogLine, LogSink, Services};
use belvedere_storage::query::{Keyset, Position};
use belvedere_storage::store::records::{Page, RecordRow};
use belvedere_web::fair_share::Tenant;

const RUNS: usize = 2_000;

/// A typical request handler of an application.
const HANDLER: &str = include_str!("handler.lua");

struct NoLog;

impl LogSink for NoLog {
    fn write(&self, _line: LogLine) {}

    fn admit(&self, _tenant: &Tenant, _trigger: &Arc<str>, _bytes: usize, _now: Timestamp) -> bool {
        true
    }

    fn report_dropped(&self, _now: Timestamp) {}
}

/// A record of about 400 bytes.
fn row(i: usize) -> RecordRow {
    let record = format!(
        r#"{{"$type":"com.example.note","text":"{}","createdAt":"2024-01-01T00:00:00.000Z","langs":["en"],"tags":["one","two"],"n":{i},"reply":{{"root":{{"uri":"at://did:plc:abc/com.example.note/{i}","cid":"bafyreib2rxk3rybk3aobmv5cjuql3bm2twh4jo5uxgf5kpqcsgz7soitae"}}}}}}"#,
        "lorem ipsum ".repeat(12)
    );
    RecordRow {
        id: i as i64,
        did: "did:plc:abcdefghijklmnop".to_owned(),
        collection: Nsid::try_from("com.example.note").expect("an NSID"),
        rkey: format!("{i:013}"),
        indexed_at: Timestamp(0),
        cid: "bafyreib2rxk3rybk3aobmv5cjuql3bm2twh4jo5uxgf5kpqcsgz7soitae".parse().ok(),
        record: record.into(),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let cache = std::env::temp_dir().join("belvedere-bench-guest");
    let engine = Engine::open(EngineConfig::new(cache)).await.expect("the engine opens");
    let services = Services::new(
        Arc::new(StandIn::of(Page {
            rows: (0..20).map(row).collect(),
            next: Some(Position::Time(Keyset { indexed_at: Timestamp(0), id: 1 })),
            ..Page::empty()
        })),
        Arc::new(NoLog),
        Clock::system(),
        Random::system(),
    );
    // `cargo bench` adds the flag --bench.
    let wanted: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let params = [("path".to_owned(), "/posts".to_owned()), ("limit".to_owned(), "20".to_owned())];
    for (name, source) in [
        ("empty handle()", "function handle() end"),
        ("constant table", "function handle() return { ok = true, items = { 1, 2, 3 } } end"),
        ("60-line handler", HANDLER),
        ("db.get", "function handle() return db.get('at://did:plc:a/com.example.note/1') end"),
        (
            "db.query, 20 rows",
            "function handle() return db.query{ collection = 'com.example.note', limit = params.limit } end",
        ),
        (
            "db.query, 20 rows, only the cursor",
            "function handle() return db.query{ collection = 'com.example.note' }.cursor end",
        ),
        ("10 calls of db.count", "function handle() for i = 1, 10 do db.count('com.example.note') end end"),
        ("500,000 instructions", "function handle() for i = 1, 500000 do end end"),
        ("error", "function handle() error('x') end"),
    ] {
        if !wanted.iter().all(|word| name.contains(word.as_str())) {
            continue;
        }
        let script =
            engine.compile(Trigger::parse("xrpc.query:com.example.get").expect("a trigger"), source).await;
        let mut times = Vec::with_capacity(RUNS);
        let mut fuel = 0;
        for _ in 0..RUNS {
            let invocation = Invocation {
                method: Some("com.example.get"),
                collection: Some("com.example.note"),
                params: Some(&params),
                ..Invocation::default()
            };
            let started = Instant::now();
            let ended = engine.run(&script, invocation, &services).await;
            times.push(started.elapsed());
            fuel = ended.map_or(0, |outcome| outcome.usage.fuel);
        }
        times.sort();
        let micros = |at: usize| times[at].as_secs_f64() * 1e6;
        println!("{name:<40} min {:>9.1}  median {:>9.1}  fuel {fuel}", micros(0), micros(RUNS / 2));
    }
}
