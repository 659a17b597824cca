//! Measures the throughput of the server: `make bench`.
//!
//! Starts the release server on a database, fills it with 100,000 records through a local Jetstream stand-in, and
//! measures each case and two baselines in the same run: a bare hyper server with a body of the same size, and
//! a plain loop through sqlx over the same rows. Figures are per second of the server's CPU time (and of the
//! database's, on PostgreSQL), so that other load on the machine changes them little. Uses loopback only.
//!
//! `cargo bench --bench load -- [sqlite|postgres|fairness|neighbours|foreign|sessions|spaces|replay|backfill|all] [--records N] [--seconds N] [--only TEXT]`
//! `cargo bench --bench load -- versions PATH [sqlite|postgres|all]`: another build of the server, beside this one.
//! `BELVEDERE_TEST_CITUS_URL=URL cargo bench --bench load -- shards [--interrupt COMMAND]`: a database in shards, beside one PostgreSQL; or while a
//! command of the shell kills nodes and starts them again.
//! `cargo bench --bench load -- apps [--records N] [--only sqlite|postgres] [--page TEXT] [--url URL]`: the example apps on a large index; with a
//! database of an earlier run, on its records.
//! `cargo bench --bench load -- live [--sockets N] [--filters N] [--accounts N] [--rate N] [--seconds N] [--records N] [--only sqlite|postgres]`:
//! a subscription with many connections, which `all` leaves out. A small run: `live --sockets 200 --filters 10 --rate 100 --records 2000`.
//! `cargo bench --bench load -- scale [--records N] [--only sqlite|postgres] [--cache-mib N]`: a large index, which `all` leaves out.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command-line program prints its results")]
#![expect(unreachable_pub, reason = "the modules of a binary share items as pub")]

mod apps;
mod backfill;
mod baseline;
mod cases;
mod cpu;
mod fairness;
mod foreign;
mod http;
mod live;
mod neighbours;
mod replay;
mod report;
mod scale;
mod server;
mod sessions;
mod shards;
mod spaces;
mod versions;
mod writing;

#[path = "../support/mod.rs"]
#[expect(dead_code, reason = "only the integration tests use all of it")]
mod support;

use std::path::Path;
use std::time::Duration;

use sqlx::Connection;

use crate::cpu::Servers;
use crate::report::Table;
use crate::versions::Side;

/// The databases that one table is measured on.
#[derive(Debug)]
pub struct Databases {
    pub name: &'static str,
    pub url: String,
    /// Empty, for the write baseline.
    pub baseline_url: String,
    /// The servers of the database; `None` on SQLite.
    pub database: Option<Servers>,
}

/// The parameters of a run.
#[derive(Debug)]
pub struct Plan {
    pub records: usize,
    /// The duration of each read case.
    pub seconds: Duration,
    /// Measures only the neighbours, backfills or databases whose name contains this; empty for all.
    pub only: String,
    /// Measures only the pages of the apps whose name contains this; empty for all.
    pub page: String,
    /// An existing database; empty for new ones.
    pub url: String,
    /// `DATABASE_CACHE_MIB` of the server with a large index.
    pub cache_mib: u64,
}

fn main() -> anyhow::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    // A loop over one connection has no use for several threads, and they would cost CPU time.
    let alone = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let arg = |i: usize| args.get(i).map(String::as_str);
    match (arg(0), arg(1)) {
        (Some("baseline-http"), Some(size)) => runtime.block_on(baseline::serve_http(size.parse()?)),
        (Some("baseline-list"), Some(url)) => alone.block_on(baseline::read(url, false)),
        (Some("baseline-single"), Some(url)) => alone.block_on(baseline::read(url, true)),
        (Some("baseline-insert"), Some(url)) => {
            let records = arg(2).unwrap_or_default().parse()?;
            alone.block_on(writing::insert(url, records))
        }
        (Some("versions"), Some(other)) => {
            runtime.block_on(versions_of(Path::new(other), arg(2).unwrap_or("all"), &plan(&args)?))
        }
        (Some("shards"), _) => runtime.block_on(shards::run(&plan(&args)?, &text(&args, "--interrupt"))),
        (Some("scale"), _) => runtime.block_on(large(&plan(&args)?)),
        (Some("live"), _) => runtime.block_on(subscriptions(&args)),
        (Some("apps"), _) => runtime.block_on(apps(&plan(&args)?)),
        (which, _) => runtime.block_on(compare(which.unwrap_or("all"), &plan(&args)?)),
    }
}

/// The number after a name among the arguments.
fn number(args: &[String], name: &str, default: u64) -> anyhow::Result<u64> {
    args.iter().position(|a| a == name).map_or(Ok(default), |at| {
        Ok(args.get(at + 1).ok_or_else(|| anyhow::anyhow!("{name} needs a number"))?.parse()?)
    })
}

/// The text after a name among the arguments.
fn text(args: &[String], name: &str) -> String {
    args.iter().skip_while(|a| *a != name).nth(1).cloned().unwrap_or_default()
}

/// Measures a subscription with many connections on each database.
async fn subscriptions(args: &[String]) -> anyhow::Result<()> {
    let plan = live::Plan {
        sockets: number(args, "--sockets", 10_000)? as usize,
        filters: number(args, "--filters", 100)? as usize,
        accounts: number(args, "--accounts", 10_000)? as usize,
        rate: number(args, "--rate", 1_000)? as usize,
        seconds: number(args, "--seconds", 20)? as usize,
        records: number(args, "--records", 20_000)? as usize,
    };
    let (only, mut rows) = (text(args, "--only"), Vec::new());
    if "sqlite".contains(&only) {
        let directory = tempfile::tempdir()?;
        rows.push(live::measure(&sqlite(directory.path()), &plan).await?);
    }
    if "postgres".contains(&only) {
        rows.push(live::measure(&postgres().await?, &plan).await?);
    }
    println!("\n{}\n\n{}", report::machine(), live::HEAD);
    for row in rows {
        println!("{row}");
    }
    Ok(())
}

fn plan(args: &[String]) -> anyhow::Result<Plan> {
    let value = |name: &str, default: u64| number(args, name, default);
    let text = |name: &str| text(args, name);
    let is_large = args.first().is_some_and(|which| matches!(which.as_str(), "scale" | "apps"));
    let records = if is_large { 10_000_000 } else { 100_000 };
    Ok(Plan {
        records: value("--records", records)? as usize,
        seconds: Duration::from_secs(value("--seconds", 5)?),
        cache_mib: value("--cache-mib", 96)?,
        only: text("--only"),
        page: text("--page"),
        url: text("--url"),
    })
}

async fn compare(which: &str, plan: &Plan) -> anyhow::Result<()> {
    let mut tables: Vec<Table> = Vec::new();
    if matches!(which, "all" | "sqlite") {
        let directory = tempfile::tempdir()?;
        tables.push(cases::measure(&sqlite(directory.path()), plan).await?);
    }
    if matches!(which, "all" | "postgres") {
        tables.push(cases::measure(&postgres().await?, plan).await?);
    }
    let mut backfills = Vec::new();
    if matches!(which, "all" | "backfill") {
        let directory = tempfile::tempdir()?;
        backfills.extend(backfill::measure(&sqlite(directory.path()), &plan.only).await?);
        backfills.extend(backfill::measure(&postgres().await?, &plan.only).await?);
    }
    let mut fair = Vec::new();
    if matches!(which, "all" | "fairness") {
        let directory = tempfile::tempdir()?;
        for (how, file, environment) in [
            ("as installed", "a.db", &[][..]),
            ("half a core for each client", "b.db", &[("SCRIPT_CLIENT_FUEL", "5000000000")]),
        ] {
            let url = format!("sqlite://{}", directory.path().join(file).display());
            fair.push(fairness::measure(how, &url, plan, environment).await?);
        }
    }
    let mut neighbours = Vec::new();
    if matches!(which, "all" | "neighbours") {
        let directory = tempfile::tempdir()?;
        neighbours = neighbours::measure(directory.path(), plan).await?;
    }
    let mut foreign = Vec::new();
    if matches!(which, "all" | "foreign") {
        let directory = tempfile::tempdir()?;
        foreign = foreign::measure(directory.path(), plan).await?;
    }
    let mut sessions = Vec::new();
    if matches!(which, "all" | "sessions") {
        let directory = tempfile::tempdir()?;
        let url = format!("sqlite://{}", directory.path().join("sessions.db").display());
        sessions.push(sessions::measure("SQLite", &url).await?);
        let url = belvedere_standins::postgres::create_database().await;
        sessions.push(sessions::measure("PostgreSQL", &url).await?);
    }
    let mut spaces = Vec::new();
    if matches!(which, "all" | "spaces") {
        let directory = tempfile::tempdir()?;
        let (here, apart) = (sqlite(directory.path()), postgres().await?);
        spaces.push(spaces::measure("SQLite", [&here.url, &here.baseline_url]).await?);
        spaces.push(spaces::measure("PostgreSQL", [&apart.url, &apart.baseline_url]).await?);
    }
    let mut replays = Vec::new();
    if matches!(which, "all" | "replay") {
        let directory = tempfile::tempdir()?;
        replays.push(replay::measure("SQLite", &sqlite(directory.path()).url).await?);
        replays.push(replay::measure("PostgreSQL", &postgres().await?.url).await?);
    }
    println!("\n{}", report::machine());
    for table in tables {
        println!("\n{table}");
    }
    if !replays.is_empty() {
        println!("\n{}", replay::HEAD);
        for row in &replays {
            println!("{row}");
        }
    }
    if !spaces.is_empty() {
        println!("\n{}", spaces::HEAD);
        for row in &spaces {
            println!("{row}");
        }
    }
    if !sessions.is_empty() {
        println!("\n{}", sessions::HEAD);
        for row in &sessions {
            println!("{row}");
        }
    }
    if !backfills.is_empty() {
        println!("\n{}", backfill::HEAD);
        for row in &backfills {
            println!("{row}");
        }
    }
    if !neighbours.is_empty() {
        println!("\n{}", neighbours::HEAD);
        for row in &neighbours {
            println!("{row}");
        }
    }
    if !foreign.is_empty() {
        println!("\n{}", foreign::HEAD);
        for row in &foreign {
            println!("{row}");
        }
    }
    if !fair.is_empty() {
        println!("\n{}", fairness::HEAD);
        for row in &fair {
            println!("{row}");
        }
    }
    Ok(())
}

async fn builds(databases: &Databases, other: &Path, plan: &Plan) -> anyhow::Result<versions::Table> {
    let Databases { name, url, baseline_url, database } = databases;
    let other = other.to_str().ok_or_else(|| anyhow::anyhow!("the path is not UTF-8"))?;
    let sides = [
        Side {
            name: "other build",
            url: baseline_url.clone(),
            database: *database,
            binary: Some(other.into()),
        },
        Side { name: "this build", url: url.clone(), database: *database, binary: None },
    ];
    versions::measure(name, sides, plan).await
}

/// Compares another build of the server with this one.
async fn versions_of(other: &Path, which: &str, plan: &Plan) -> anyhow::Result<()> {
    let mut tables = Vec::new();
    if matches!(which, "all" | "sqlite") {
        let directory = tempfile::tempdir()?;
        tables.push(builds(&sqlite(directory.path()), other, plan).await?);
    }
    if matches!(which, "all" | "postgres") {
        tables.push(builds(&postgres().await?, other, plan).await?);
    }
    println!("\n{}", report::machine());
    for table in tables {
        println!("\n{table}");
    }
    Ok(())
}

/// Measures a large index on each database.
async fn large(plan: &Plan) -> anyhow::Result<()> {
    let mut tables = Vec::new();
    if "sqlite".contains(&plan.only) {
        let directory = tempfile::tempdir()?;
        tables.push(scale::measure(&sqlite(directory.path()), plan.records, plan.cache_mib).await?);
    }
    if "postgres".contains(&plan.only) {
        tables.push(scale::measure(&postgres().await?, plan.records, plan.cache_mib).await?);
    }
    println!("\n{}", report::machine());
    for table in tables {
        println!("\n{table}");
    }
    Ok(())
}

/// Measures the pages of the example apps on each database.
async fn apps(plan: &Plan) -> anyhow::Result<()> {
    let mut pages = Vec::new();
    if !plan.url.is_empty() {
        let existing = Databases {
            name: "existing",
            url: plan.url.clone(),
            baseline_url: String::new(),
            database: if plan.url.starts_with("postgres") {
                Some(postmaster(&plan.url).await?)
            } else {
                None
            },
        };
        pages.extend(apps::measure(&existing, plan).await?);
    } else if "sqlite".contains(&plan.only) {
        let directory = tempfile::tempdir()?;
        pages.extend(apps::measure(&sqlite(directory.path()), plan).await?);
    }
    if plan.url.is_empty() && "postgres".contains(&plan.only) {
        pages.extend(apps::measure(&postgres().await?, plan).await?);
    }
    println!("\n{}\n\n{}", report::machine(), apps::HEAD);
    for page in pages {
        println!("{page}");
    }
    Ok(())
}

fn sqlite(directory: &Path) -> Databases {
    let url = |name: &str| format!("sqlite://{}", directory.join(name).display());
    Databases { name: "SQLite", url: url("load.db"), baseline_url: url("base.db"), database: None }
}

async fn postgres() -> anyhow::Result<Databases> {
    let url = belvedere_standins::postgres::create_database().await;
    Ok(Databases {
        name: "PostgreSQL",
        baseline_url: belvedere_standins::postgres::create_database().await,
        database: Some(postmaster(&url).await?),
        url,
    })
}

/// The server behind a PostgreSQL URL on this machine: the parent of our backend.
async fn postmaster(url: &str) -> anyhow::Result<Servers> {
    let mut connection = sqlx::PgConnection::connect(url).await?;
    let backend: i32 = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&mut connection).await?;
    let parent = cpu::parent(backend.try_into()?);
    connection.close().await?;
    let parent = parent.ok_or_else(|| anyhow::anyhow!("PostgreSQL does not run on this machine"))?;
    Ok(Vec::leak(vec![parent]))
}
