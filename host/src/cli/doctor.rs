//! `belvedere doctor`: checks everything that the server needs, and prints what to do about each problem.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use super::{FAILED, print_line};
use crate::app::{engine_config, net_client, script_access};
use crate::config::Config;
use crate::net;
use crate::scripts::Engine;
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
    findings.extend(database(config).await);
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
    let probe = dir.join(".doctor");
    std::fs::create_dir_all(dir)
        .and_then(|()| std::fs::write(&probe, b""))
        .and_then(|()| std::fs::remove_file(&probe))
        .map(|()| dir.display().to_string())
        .map_err(|error| {
            format!("{} can't be written ({error}). Fix its owner, or set DATA_DIR", dir.display())
        })
}

async fn database(config: &Config) -> Vec<Finding> {
    let shown = config.database.redacted_url();
    let fix = "Check DATABASE_URL, that the server runs and that the user may connect";
    match Db::exists(&config.database.url) {
        Ok(true) => {}
        // Opening it would create it.
        Ok(false) => {
            return vec![
                Finding::new("database", Ok(format!("{shown} does not exist yet; {CREATE_LATER}"))),
                Finding::new("migrations", Ok(pending_migrations(Db::all_migrations(&config.database.url)))),
            ];
        }
        Err(error) => {
            return vec![Finding::new("database", Err(format!("{shown}: {error}. Check DATABASE_URL")))];
        }
    }
    let started = Instant::now();
    let access = match script_access(config) {
        Ok(access) => access,
        Err(error) => return vec![Finding::new("secrets", Err(error.to_string()))],
    };
    let opened = async {
        let db = Db::open_with(&config.database.url, config.database.max_connections, &access).await?;
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
        let ours = i64::from(config.database.max_connections);
        findings.push(Finding::new(
            "connections",
            if ours < max {
                Ok(format!("{ours} of the server's {max}"))
            } else {
                Err(format!("the pool needs {ours}, the server has {max}: lower DATABASE_MAX_CONNECTIONS"))
            },
        ));
    }
    // The first migration creates the role of scripts' SQL.
    if is_migrated && let Some(finding) = script_sql_protection(&db).await {
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
