//! `belvedere doctor`: checks everything that the server needs, and prints what to do about each problem.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use super::instance_file::DatabaseLocation;
use super::{FAILED, existing, print_line};
use crate::app::{engine_config, existing_script_access, net_client};
use crate::config::{Config, Database, SecretError};
use crate::net;
use crate::scripts::Engine;
use crate::store::script_sql::role::ScriptRole;
use crate::store::script_sql::{self, ScriptIsolation, ScriptSqlError};
use crate::store::{Backend, Db};

/// Time limit of each network check, ample for a healthy server.
const NETWORK_TIME: Duration = Duration::from_secs(10);

/// Bytes of a response that are read; its content is ignored.
const ANSWER_BYTES: usize = 64 * 1024;

/// Advice when the database role of scripts' SQL is missing.
const ROLE_FIX: &str = "Let the server's role create it (ALTER ROLE … CREATEROLE, then belvedere migrate), or create a \
    role that may only log in and set SCRIPT_DATABASE_URL, or run scripts' SQL under the server's role with \
    SCRIPT_SQL=guarded: docs/operations.md, Database rights";

/// Advice when nothing bounds the temporary files of scripts' SQL.
const UNBOUNDED_FILES: &str = ". Its statements may fill the database's disk with temporary files, for some seconds each: \
    set temp_file_limit for it, or let the server do it (docs/operations.md, Database rights)";

const CREATE_LATER: &str = "the next start or belvedere migrate creates it";

/// The result of one check: its subject, and its state or the advice.
struct Finding {
    what: String,
    result: Result<String, String>,
}

impl Finding {
    fn new(what: impl Into<String>, result: Result<String, String>) -> Self {
        Self { what: what.into(), result }
    }
}

pub(super) async fn run(config: &Config) -> anyhow::Result<ExitCode> {
    let identity = config.server.identity(config.server.port);
    let mut findings = vec![
        // A wrong configuration would have ended the command already.
        Finding::new("configuration", Ok(format!("{} as {}", identity.origin, identity.did))),
        Finding::new("data folder", data_folder(config)),
        Finding::new("proxies", Ok(config.server.proxy_advice().unwrap_or("nothing to set").to_owned())),
    ];
    match existing::choose(config) {
        Ok(chosen) => {
            let access = existing_script_access(&config.secrets, &chosen);
            findings.push(Finding::new("secrets", secrets(config, &access)));
            findings.extend(database(&chosen, access.ok().flatten().as_ref()).await);
        }
        Err(error) => findings.push(Finding::new("database", Err(error.to_string()))),
    }
    findings.push(Finding::new("script engine", engine(config).await));
    match net_client(config, &identity, config.server.port) {
        Ok(net) => findings.extend(network(config, &net.trusted()).await),
        Err(error) => findings.push(Finding::new("network", Err(error.to_string()))),
    }

    let mut sound = true;
    for Finding { what, result } in findings {
        match result {
            Ok(text) => print_line(&format_args!("ok    {what}: {text}")),
            Err(text) => {
                sound = false;
                print_line(&format_args!("FAIL  {what}: {text}"));
            }
        }
    }
    Ok(if sound { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
}

fn data_folder(config: &Config) -> Result<String, String> {
    let dir = &config.server.data_dir;
    let shown = std::path::absolute(dir).unwrap_or_else(|_| dir.clone());
    // The folder in which something would be created first.
    let existing = shown.ancestors().find(|folder| folder.exists()).unwrap_or(&shown);
    let probe = existing.join(".doctor");
    std::fs::write(&probe, b"").and_then(|()| std::fs::remove_file(&probe)).map_err(|error| {
        format!("{} can't be written ({error}). Fix its owner, or set DATA_DIR", existing.display())
    })?;
    let later = if existing == shown { "" } else { " does not exist yet; the first start creates it" };
    Ok(format!("{}{later}", shown.display()))
}

/// Which secrets the server will use. Values that other secrets encrypted are lost to it.
fn secrets(config: &Config, key: &Result<Option<ScriptRole>, SecretError>) -> Result<String, String> {
    match key {
        Ok(_) if config.secrets.are_given() => Ok("configured".to_owned()),
        Ok(Some(_)) => Ok("in the data folder; keep them with the backup".to_owned()),
        Ok(None) => Ok("none yet; the first start generates them in the data folder".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

async fn database(database: &Database, access: Option<&ScriptRole>) -> Vec<Finding> {
    let shown = DatabaseLocation::of(database).map_or_else(|_| database.redacted_url(), |found| found.url);
    let fix = "Check DATABASE_URL, that the server runs and that the user may connect";
    match Db::exists(&database.url) {
        Ok(true) => {}
        // Opening it would create it.
        Ok(false) => {
            return vec![
                Finding::new("database", Ok(format!("{shown} does not exist yet; {CREATE_LATER}"))),
                Finding::new("migrations", Ok(pending_migrations(Db::all_migrations(&database.url)))),
            ];
        }
        Err(error) => {
            return vec![Finding::new("database", Err(format!("{shown}: {error}. Check DATABASE_URL")))];
        }
    }
    let started = Instant::now();
    let opened = async {
        let role = access.unwrap_or(&ScriptRole::Guarded);
        let db = Db::open_with(&database.url, database.max_connections, role).await?;
        db.ping().await?;
        Ok::<_, crate::store::StoreError>(db)
    };
    let db = match tokio::time::timeout(NETWORK_TIME, opened).await {
        Ok(Ok(db)) => db,
        Ok(Err(error)) => {
            return vec![Finding::new("database", Err(format!("{shown}: {error}. {fix}")))];
        }
        Err(_) => {
            return vec![Finding::new("database", Err(format!("{shown} does not answer. {fix}")))];
        }
    };
    let took = started.elapsed().as_millis();
    let mut findings = vec![Finding::new("database", Ok(format!("{shown} answers after {took} ms")))];
    let pending = db.pending_migrations().await;
    let is_migrated = matches!(pending, Ok(0));
    findings.push(Finding::new(
        "migrations",
        match pending {
            Ok(0) => Ok("all applied".to_owned()),
            Ok(count) => Ok(pending_migrations(count)),
            Err(error) => Err(error.to_string()),
        },
    ));
    if db.backend() == Backend::Postgres
        && let Ok(Some(max)) = db.server_max_connections().await
    {
        let ours = i64::from(database.max_connections);
        findings.push(Finding::new(
            "connections",
            if ours < max {
                Ok(format!("{ours} of the server's {max}"))
            } else {
                Err(format!("the pool needs {ours}, the server has {max}: lower DATABASE_MAX_CONNECTIONS"))
            },
        ));
    }
    // The first migration creates the role of scripts' SQL, with a password that the encryption key determines.
    if is_migrated
        && access.is_some()
        && let Some(finding) = script_sql_protection(&db).await
    {
        findings.push(finding);
    }
    db.close().await;
    findings
}

/// Checks how scripts' SQL is kept from the server's tables.
async fn script_sql_protection(db: &Db) -> Option<Finding> {
    let result = match script_sql::isolation(db).await {
        Ok(ScriptIsolation::Sqlite) => return None,
        Ok(ScriptIsolation::GuardAndRole { name, limits_temp_files }) => {
            let protection = format!("each statement is checked and runs under the role {name}");
            let files = if limits_temp_files { "" } else { UNBOUNDED_FILES };
            Ok(format!("{protection}{files}"))
        }
        Ok(ScriptIsolation::Guard) => {
            Ok("each statement is checked, but runs under the server's role (SCRIPT_SQL=guarded)".to_owned())
        }
        Err(ScriptSqlError::RoleError(reason)) => Err(format!("{reason}, so db.raw is disabled. {ROLE_FIX}")),
        Err(error) => Err(error.to_string()),
    };
    Some(Finding::new("scripts' SQL", result))
}

fn pending_migrations(count: usize) -> String {
    format!("not migrated yet, {count} to apply; the next start or belvedere migrate applies them")
}

async fn engine(config: &Config) -> Result<String, String> {
    let started = Instant::now();
    match Engine::open(engine_config(config)).await {
        Ok(_) => Ok(format!("ready after {} ms", started.elapsed().as_millis())),
        Err(error) => Err(format!("{error}. Rebuild with make, then belvedere guest prepare")),
    }
}

async fn network(config: &Config, net: &net::Client) -> Vec<Finding> {
    let indexing = &config.indexing;
    let fixed =
        [("PLC directory", "PLC_URL", &indexing.plc_url), ("relay", "RELAY_URL", &indexing.relay_url)];
    let streams = indexing.jetstream_urls.iter().map(|url| ("Jetstream", "JETSTREAM_URL", url));
    let checks = fixed.into_iter().chain(streams).map(|(what, variable, url)| async move {
        Finding::new(format!("{what} {url}"), reach(net, variable, url).await)
    });
    futures_util::future::join_all(checks).await
}

/// Checks that the server of a URL answers a GET, with any status.
async fn reach(net: &net::Client, variable: &str, url: &str) -> Result<String, String> {
    let started = Instant::now();
    // A WebSocket handshake is an HTTP request, so ws is checked as http and wss as https.
    let url = url.strip_prefix("ws").map_or_else(|| url.to_owned(), |rest| format!("http{rest}"));
    let limits = net::Limits { max_bytes: ANSWER_BYTES, total: NETWORK_TIME };
    match net.get(&url, limits).await {
        Ok(answer) => Ok(format!("answers {} after {} ms", answer.status, started.elapsed().as_millis())),
        Err(net::NetError::TooLarge(_) | net::NetError::Malformed(_)) => Ok("answers".to_owned()),
        Err(error) => Err(format!("{error}. Check {variable}, DNS and the firewall")),
    }
}
