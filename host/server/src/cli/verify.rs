//! `belvedere verify`: compares the index with the PDSs, for operators and for cron.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::Args;

use super::{FAILED, NOT_DONE, existing, print_error, print_line, print_stderr};
use crate::app::{net_client, resolver};
use belvedere_base::clock::Clock;
use belvedere_base::random::Random;
use belvedere_instance::backfill::{Differences, Report, Scope, Verifier};
use belvedere_instance::config::Config;
use belvedere_instance::lexicons::Registry;
use belvedere_instance::settings::Settings;
use belvedere_protocol::atproto::Nsid;
use belvedere_storage::store::{Db, scripts};

#[derive(Args, Debug)]
pub(super) struct Command {
    /// Compare that many repos, chosen at random [default: all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    sample: Option<u32>,
    /// The collection to compare [default: every collection that has a record lexicon]
    #[arg(long, value_name = "NSID")]
    collection: Option<String>,
    /// The account whose repo to compare, as a DID or a handle [default: every repo that the index or the relay has]
    #[arg(long, value_name = "DID", conflicts_with = "sample")]
    did: Option<String>,
    /// Print the result as one JSON object
    #[arg(long)]
    json: bool,
    /// Seconds for the stream to deliver what a first look misses, at most 600 [default: 15]
    #[arg(long, value_name = "SECONDS", default_value_t = 15, hide_default_value = true,
        value_parser = clap::value_parser!(u32).range(..=600))]
    wait: u32,
}

/// Exit status: 0 the index equals the network, 1 it differs, 2 it could not be compared.
pub(super) async fn run(command: Command, config: &Config) -> ExitCode {
    let is_json = command.json;
    match compare(command, config).await {
        Ok(report) if is_json => {
            // Numbers and strings always serialize.
            print_line(&serde_json::to_string(&report).unwrap_or_default());
            status(&report)
        }
        Ok(report) => {
            print(&report);
            status(&report)
        }
        Err(error) => {
            print_error(&format_args!("{error:#}"));
            ExitCode::from(NOT_DONE)
        }
    }
}

fn status(report: &Report) -> ExitCode {
    match report {
        report if report.has_differences() => ExitCode::from(FAILED),
        report if report.not_reached.count > 0 => ExitCode::from(NOT_DONE),
        _ => ExitCode::SUCCESS,
    }
}

async fn compare(command: Command, config: &Config) -> anyhow::Result<Report> {
    let db = existing::open(config).await?;
    let result = compare_with(&db, command, config).await;
    db.close().await;
    result
}

async fn compare_with(db: &Db, command: Command, config: &Config) -> anyhow::Result<Report> {
    let Command { sample, collection, did, json: _, wait } = command;
    let registry = Registry::default();
    registry.reload(db).await?;
    let collections = collections(registry.snapshot().tracked(), collection.as_deref())?;
    let settings = Settings::new(config);
    settings.reload(db, |_| ()).await?;
    let clock = Clock::system();
    let identity = config.server.identity(config.server.port);
    let net = net_client(config, &identity, config.server.port)?;
    let resolver = resolver(config, net.clone(), clock.clone());
    let did = match did {
        Some(account) => Some(resolver.account(&account).await.with_context(|| format!("--did {account}"))?),
        None => None,
    };
    warn_of_scripts(db, &collections).await?;
    let verifier = Verifier {
        db: db.clone(),
        net,
        resolver,
        clock,
        random: Random::system(),
        settings: settings.backfill(),
        relay_url: config.indexing.relay_url.clone(),
        max_wait: Duration::from_secs(wait.into()),
    };
    Ok(verifier.verify(&Scope { collections, did, sample: sample.map(|n| n as usize) }).await?)
}

fn collections(tracked: &Arc<[Nsid]>, name: Option<&str>) -> anyhow::Result<Arc<[Nsid]>> {
    match name {
        None if tracked.is_empty() => bail!("no record lexicon is uploaded, so there is nothing to compare"),
        None => Ok(Arc::clone(tracked)),
        Some(name) => match tracked.iter().find(|nsid| nsid.as_str() == name) {
            Some(nsid) => Ok(Arc::from([nsid.clone()])),
            None => bail!("{name} has no record lexicon; GET /admin/lexicons lists those that are uploaded"),
        },
    }
}

/// A record script may keep records out of the index on purpose.
async fn warn_of_scripts(db: &Db, collections: &[Nsid]) -> anyhow::Result<()> {
    for script in scripts::list(db, None).await? {
        let of_collection = script.id.strip_prefix("record.").and_then(|id| id.split_once(':'));
        if of_collection.is_some_and(|(_, name)| collections.iter().any(|nsid| nsid.as_str() == name)) {
            let id = script.id;
            print_error(&format_args!("the script {id} decides about records: those it drops are missing"));
        }
    }
    Ok(())
}

fn print(report: &Report) {
    for (kind, Differences { count, uris }) in
        [("missing", &report.missing), ("stale", &report.stale), ("extra", &report.extra)]
    {
        for uri in uris {
            print_line(&format_args!("{kind} {uri}"));
        }
        print_rest(kind, *count, uris.len());
    }
    for (what, why) in &report.not_reached.list {
        print_line(&format_args!("not reached {what}: {why}"));
    }
    print_rest("not reached", report.not_reached.count, report.not_reached.list.len());
    let Report { repos, records, missing, stale, extra, not_reached } = report;
    print_stderr(&format_args!(
        "compared {repos} repos with {records} records: {} missing, {} stale, {} extra, {} not reached",
        missing.count, stale.count, extra.count, not_reached.count
    ));
}

fn print_rest(kind: &str, count: u64, listed: usize) {
    if count > listed as u64 {
        print_line(&format_args!("{kind} … and {} more", count - listed as u64));
    }
}
