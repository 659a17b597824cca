//! Measures events per CPU-second from the WebSocket to the committed row: `cargo bench --bench ingest -- [N]
//! [postgres://…] [scripted] [validated]`. The URL names an empty database; without it a new SQLite file is used.
//! `scripted`: each event runs a trivial record script. `validated`: the collection has a lexicon, which the records match;
//! `invalid`: which they do not match. The cost of each is the difference to a run without.
//!
//! The Jetstream stand-in runs in this process on separate threads, whose CPU time is not counted; nor is a PostgreSQL
//! server's. `tests/load` measures the whole server as a separate process, and its database.
#![expect(clippy::print_stdout, reason = "a benchmark prints its result")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use belvedere::event_scripts::EventScripts;
use belvedere_base::clock::{Clock, Timestamp};
use belvedere_base::random::Random;
use belvedere_instance::core::Core;
use belvedere_instance::events::EventLog;
use belvedere_instance::indexing::{
    CURSOR_SOURCE, NoScripts, Observer, RecordScriptRunner, StreamConfig, StreamReport, start,
};
use belvedere_instance::lexicons::{Followed, Registry};
use belvedere_protocol::atproto::{Did, Nsid};
use belvedere_scripting::scripts::{
    Engine, EngineConfig, ScriptRegistry, ScriptRuntime, ServerIndex, ServerLog, Services, Variables,
};
use belvedere_storage::store::lexicons::{self, NewLexicon};
use belvedere_storage::store::script_sql::role::ScriptRole;
use belvedere_storage::store::{Db, Resources, cursors};
use serde_json::json;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;

use belvedere_standins::jetstream::{FakeJetstream, synthetic};

const COLLECTION: &str = "app.example.note";
const DEFAULT_EVENTS: usize = 300_000;
const REPOS: usize = 1000;

struct NoObserver;

impl Observer for NoObserver {
    fn report(&self, _: StreamReport) {}
    fn identity_changed(&self, _: &Did) {}
}

fn main() -> anyhow::Result<()> {
    // `cargo test --benches` runs this too; only `cargo bench` passes --bench.
    if !std::env::args().any(|arg| arg == "--bench") {
        return Ok(());
    }
    let events = std::env::args().skip(1).find_map(|arg| arg.parse().ok()).unwrap_or(DEFAULT_EVENTS);
    let dir = tempfile::tempdir()?;
    let outside = runtime("outside", 1)?;
    let inside = runtime("inside", 2)?;
    let first = Clock::system().now().0;
    let jetstream = outside.block_on(async {
        let jetstream = FakeJetstream::start().await;
        jetstream.push_all(synthetic(events, REPOS, COLLECTION, first));
        jetstream
    });
    inside.block_on(async {
        let url = std::env::args().find(|arg| arg.contains("://"));
        let url = url.unwrap_or_else(|| format!("sqlite:{}", dir.path().join("bench.db").display()));
        // The defaults of the server's settings.
        let resources = Resources { connections: 2, page_cache_mib: 96, cached_accounts: 65_536 };
        let db = Db::open_with(&url, resources, &ScriptRole::Guarded).await?;
        db.migrate().await?;
        let collections: Arc<[Nsid]> = Arc::new([Nsid::try_from(COLLECTION)?]);
        let (_tracked, tracked) = watch::channel(Followed::from(collections));
        let clock = Clock::fixed(Timestamp(first));
        let registry = registry(&db, clock.now()).await?;
        let scripted = std::env::args().any(|arg| arg == "scripted");
        let scripts: Arc<dyn RecordScriptRunner> =
            if scripted { Arc::new(triggers(&db, &clock).await?) } else { Arc::new(NoScripts) };
        let (cpu, begun) = (cpu_time(), Instant::now());
        let core = Core { registry, ..Core::testing(&db, &clock) };
        let config = StreamConfig { urls: vec![jetstream.url()], ..StreamConfig::default() };
        let handle = start(&core, tracked, scripts, Arc::new(NoObserver), config);
        while cursors::get(&db, CURSOR_SOURCE).await? != Some(first + events as i64 - 1) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let (cpu, took) = (cpu_time().saturating_sub(cpu), begun.elapsed());
        println!(
            "{events} events: {:.0} per CPU-second ({:.1} µs each), {:.0} per second, {} MiB resident",
            events as f64 / cpu.as_secs_f64(),
            cpu.as_secs_f64() * 1e6 / events as f64,
            events as f64 / took.as_secs_f64(),
            resident_mib()
        );
        for (name, time) in by_thread() {
            println!("  {name:<20} {:.2} µs an event", time.as_secs_f64() * 1e6 / events as f64);
        }
        handle.finish().await;
        anyhow::Ok(())
    })
}

/// The registry, with a lexicon of the collection if the arguments ask for one.
async fn registry(db: &Db, now: Timestamp) -> anyhow::Result<Arc<Registry>> {
    let registry = Arc::new(Registry::default());
    let asked = |name| std::env::args().any(|arg| arg == name);
    if asked("validated") || asked("invalid") {
        let text = if asked("invalid") { "integer" } else { "string" };
        let lexicon = json!({ "lexicon": 1, "id": COLLECTION, "defs": { "main": { "type": "record", "record": {
            "type": "object", "required": ["text", "createdAt"], "properties": {
                "text": { "type": text, "maxLength": 3000, "maxGraphemes": 300 },
                "createdAt": { "type": "string", "format": "datetime" },
                "langs": { "type": "array", "maxLength": 3, "items": { "type": "string", "format": "language" } },
                "likes": { "type": "integer", "minimum": 0 },
                "subject": { "type": "ref", "ref": "#subject" } } } },
            "subject": { "type": "object", "required": ["uri"], "properties": {
                "uri": { "type": "string", "format": "at-uri" } } } } });
        let lexicon = NewLexicon {
            id: COLLECTION.to_owned(),
            lexicon_json: lexicon.to_string(),
            lexicon_type: "record".to_owned(),
            source: lexicons::MANUAL.to_owned(),
            ..NewLexicon::default()
        };
        lexicons::upsert(db, &lexicon, now).await?;
        registry.reload(db).await?;
    }
    Ok(registry)
}

/// An engine with one record script, which accepts every event.
async fn triggers(db: &Db, clock: &Clock) -> anyhow::Result<EventScripts> {
    let cache = std::env::temp_dir().join("belvedere-bench-guest");
    let engine = Engine::open(EngineConfig::new(cache)).await?;
    let scripts = ScriptRegistry::new();
    let trigger = format!("record.index:{COLLECTION}");
    scripts.replace(&engine, &[(trigger, "function handle() return true end".to_owned())]).await;
    let random = Random::system();
    let (events, _writer) = EventLog::start(db.clone(), clock.clone(), random.clone());
    let log = ServerLog::new(events.clone(), Variables::default());
    let services =
        Services::new(Arc::new(ServerIndex::new(db.clone())), Arc::new(log), clock.clone(), random);
    Ok(EventScripts::new(ScriptRuntime { engine, scripts: Arc::new(scripts), services }, events, db.clone()))
}

fn runtime(name: &str, threads: usize) -> std::io::Result<Runtime> {
    Builder::new_multi_thread().worker_threads(threads).thread_name(name).enable_all().build()
}

/// CPU time of all threads except the stand-in's and the main thread, which generated the events.
fn cpu_time() -> Duration {
    by_thread().into_iter().map(|(_, time)| time).sum()
}

fn by_thread() -> Vec<(String, Duration)> {
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else { return Vec::new() };
    let this = std::process::id().to_string();
    tasks
        .filter_map(|task| {
            let task = task.ok()?;
            let name = std::fs::read_to_string(task.path().join("comm")).ok()?.trim().to_owned();
            let stat = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
            let nanos = stat.split(' ').next()?.parse().ok()?;
            (name != "outside" && task.file_name() != *this).then_some((name, Duration::from_nanos(nanos)))
        })
        .collect()
}

fn resident_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).unwrap_or_default() / 1024
}
