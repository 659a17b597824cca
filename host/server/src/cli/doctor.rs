//! `belvedere doctor`: checks everything that the server needs, and prints what to do about each problem.

use std::process::ExitCode;
use std::time::Instant;

use super::instance_file::DatabaseLocation;
use super::{existing, print_line, status};
use crate::app::{engine_config, existing_script_access, net_client, resources};
use belvedere_instance::checks::{self, Check, TIME_LIMIT};
use belvedere_instance::config::{self, Config, Database};
use belvedere_scripting::scripts::Engine;
use belvedere_storage::store::Db;
use belvedere_storage::store::script_sql::role::ScriptRole;

const CREATE_LATER: &str = "the next start or belvedere migrate creates it";

pub(super) async fn run(config: &Config) -> anyhow::Result<ExitCode> {
    let identity = config.server.identity(config.server.port);
    let mut found = checks::configuration(config, &identity);
    match existing::choose(config) {
        Ok(chosen) => {
            let access = existing_script_access(&config.secrets, &chosen);
            found.push(checks::secrets(config, &access));
            found.extend(database(&chosen, access.ok().flatten().as_ref()).await);
        }
        Err(error) => found.push(Check::new("database", "database", Err(error.to_string()))),
    }
    found.push(engine(config).await);
    match net_client(config, &identity, config.server.port) {
        Ok(net) => found.extend(checks::network(config, &net.trusted()).await),
        Err(error) => found.push(Check::new("network", "network", Err(error.to_string()))),
    }

    let mut sound = true;
    for Check { name, result, .. } in found {
        match result {
            Ok(text) => print_line(&format_args!("ok    {name}: {text}")),
            Err(text) => {
                sound = false;
                print_line(&format_args!("FAIL  {name}: {text}"));
            }
        }
    }
    Ok(status(sound))
}

async fn database(database: &Database, access: Option<&ScriptRole>) -> Vec<Check> {
    let shown = DatabaseLocation::of(database).map_or_else(|_| database.redacted_url(), |found| found.url);
    let only = |result| vec![Check::new("database", "database", result)];
    match Db::exists(&database.url) {
        Ok(true) => {}
        // Opening it would create it.
        Ok(false) => {
            let pending = checks::pending_migrations(Db::all_migrations(&database.url));
            let mut found = only(Ok(format!("{shown} does not exist yet; {CREATE_LATER}")));
            found.push(Check::new("migrations", "migrations", Ok(pending)));
            return found;
        }
        Err(error) => return only(Err(format!("{shown}: {error}. Check DATABASE_URL"))),
    }
    let role = access.unwrap_or(&ScriptRole::Guarded);
    let opened = Db::open_with(&database.url, resources(database), role);
    let db = match tokio::time::timeout(TIME_LIMIT, opened).await {
        Ok(Ok(db)) => db,
        Ok(Err(error)) => return only(Err(format!("{shown}: {error}. {}", checks::DATABASE_FIX))),
        Err(_) => return only(Err(format!("{shown} does not answer. {}", checks::DATABASE_FIX))),
    };
    let mut found = checks::of_open(&db, &shown, database.max_connections, access.is_some()).await;
    found.extend(replicas(&db, database).await);
    found.extend(checks::nodes(db.look_at_nodes().await));
    db.close().await;
    found
}

async fn replicas(db: &Db, database: &Database) -> Vec<Check> {
    let config::Replicas { urls, max_lag } = &database.replicas;
    let looked = async { db.clone().with_replicas(urls, *max_lag)?.look_at_replicas().await };
    let error = match tokio::time::timeout(TIME_LIMIT, looked).await {
        Ok(Ok(found)) => return checks::replicas(found),
        Ok(Err(error)) => error.to_string(),
        Err(_) => "no answer in time".to_owned(),
    };
    vec![Check::new("replica", "replicas", Err(format!("{error}. {}", checks::DATABASE_FIX)))]
}

/// Whether the script engine can be opened, as at the start.
async fn engine(config: &Config) -> Check {
    let started = Instant::now();
    let result = match Engine::open(engine_config(config)).await {
        Ok(_) => Ok(format!("ready after {} ms", started.elapsed().as_millis())),
        Err(error) => Err(format!("{error}. Rebuild with make, then belvedere guest prepare")),
    };
    Check::new("script_engine", "script engine", result)
}
