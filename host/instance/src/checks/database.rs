//! Checks of the database.

use std::time::Instant;

use super::{Check, TIME_LIMIT};
use belvedere_storage::store::nodes::NodeStatus;
use belvedere_storage::store::replicas::{ServerStatus, Unused};
use belvedere_storage::store::script_sql::{self, ScriptIsolation, ScriptSqlError};
use belvedere_storage::store::{Backend, Db};

/// Advice when the database does not answer.
pub const DATABASE_FIX: &str = "Check DATABASE_URL, that the server runs and that the user may connect";

/// Advice when scripts' SQL can't read a database in shards.
const SHARDS_FIX: &str = "db.raw can't read the index in shards: run CREATE EXTENSION postgres_fdw on the coordinator, and GRANT \
     USAGE ON FOREIGN DATA WRAPPER postgres_fdw to the server's role. A running host does the rest within seconds";
/// Advice when PostgreSQL has little memory for a large index.
const BUFFERS_FIX: &str = "Events wait for pages of the index: set shared_buffers to a quarter of the machine's memory \
     (docs/operations.md, Sizing)";
/// From this size on the operator has chosen it for a large index, in bytes.
const LARGE_BUFFERS: i64 = 1 << 30;
/// A database of that many times its memory has few of its pages there.
const FEW_PAGES: i64 = 8;
/// Advice when the database role of scripts' SQL is missing.
const ROLE_FIX: &str = "Let the server's role create it (ALTER ROLE … CREATEROLE, then belvedere migrate), or create a \
    role that may only log in and set SCRIPT_DATABASE_URL, or run scripts' SQL under the server's role with \
    SCRIPT_SQL=guarded: docs/operations.md, Database rights";

/// Advice when a replica is not used.
const REPLICA_FIX: &str = "Check that it runs and follows the primary: docs/operations.md, Read replicas";

/// Advice when nothing bounds the temporary files of scripts' SQL.
const UNBOUNDED_FILES: &str = ". Its statements may fill the database's disk with temporary files, for some seconds each: \
    set temp_file_limit for it, or let the server do it (docs/operations.md, Database rights)";

/// An open database: `shown` is its URL without a password, `max_connections` what the server may open, and `has_role`
/// says whether the role of scripts' SQL is known.
pub async fn of_open(db: &Db, shown: &str, max_connections: u32, has_role: bool) -> Vec<Check> {
    let started = Instant::now();
    match tokio::time::timeout(TIME_LIMIT, db.ping()).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            return vec![Check::new(
                "database",
                "database",
                Err(format!("{shown}: {error}. {DATABASE_FIX}")),
            )];
        }
        Err(_) => {
            return vec![Check::new(
                "database",
                "database",
                Err(format!("{shown} does not answer. {DATABASE_FIX}")),
            )];
        }
    }
    let took = started.elapsed().as_millis();
    let mut checks = vec![Check::new("database", "database", Ok(format!("{shown} answers after {took} ms")))];
    let pending = db.pending_migrations().await;
    let is_migrated = matches!(pending, Ok(0));
    let migrations = match pending {
        Ok(0) => Ok("all applied".to_owned()),
        Ok(count) => Ok(pending_migrations(count)),
        Err(error) => Err(error.to_string()),
    };
    checks.push(Check::new("migrations", "migrations", migrations));
    checks.extend(connections(db, max_connections).await);
    checks.extend(buffers(db).await);
    // The first migration creates the role of scripts' SQL, with a password that the encryption key determines.
    if is_migrated && has_role {
        checks.extend(script_sql_protection(db).await);
    }
    checks
}

/// The replicas, each with what to do when it is not used.
pub fn replicas(found: Vec<ServerStatus>) -> Vec<Check> {
    let check = |status: ServerStatus| {
        let behind = status.lag.map(|lag| format!("at most {:.1} s behind", lag.as_secs_f64()));
        let result = match status.unused {
            None => Ok(behind.unwrap_or_else(|| "in use".to_owned())),
            // A replica that has just been connected to is not judged yet.
            Some(Unused::New | Unused::Measuring) => {
                Ok("it is a replica; its lag is not known yet".to_owned())
            }
            Some(reason) if reason.is_misconfigured() => Err(reason.to_string()),
            Some(reason) => Err(format!("not used: {reason}. Reads go to the primary. {REPLICA_FIX}")),
        };
        Check::new("replica", format!("replica {}", status.server), result)
    };
    found.into_iter().map(check).collect()
}

/// The nodes that have shards, each with what to do when it is not used.
pub fn nodes(found: Vec<NodeStatus>) -> Vec<Check> {
    let check = |NodeStatus { server, shards, is_lost }: NodeStatus| {
        let result = match server.unused {
            None => Ok(format!("{} shards", shards.len())),
            Some(Unused::New) => Ok("it has not been asked yet".to_owned()),
            Some(reason) if is_lost => Err(format!(
                "{reason}. The collections of its {} shards can't be read or written until it is back",
                shards.len()
            )),
            Some(reason) => {
                Err(format!("{reason}. Its reads take the way over the coordinator, which is slower"))
            }
        };
        Check::new("node", format!("node {}", server.server), result)
    };
    found.into_iter().map(check).collect()
}

/// The state of a database that is not migrated.
pub fn pending_migrations(count: usize) -> String {
    format!("not migrated yet, {count} to apply; the next start or belvedere migrate applies them")
}

async fn connections(db: &Db, ours: u32) -> Option<Check> {
    if db.backend() != Backend::Postgres {
        return None;
    }
    let max = db.server_max_connections().await.ok()??;
    let result = if i64::from(ours) < max {
        Ok(format!("{ours} of the server's {max}"))
    } else {
        Err(format!("the pool needs {ours}, the server has {max}: lower DATABASE_MAX_CONNECTIONS"))
    };
    Some(Check::new("connections", "connections", result))
}

/// The memory of PostgreSQL for pages. No failure: only writes to a large index are slower without.
async fn buffers(db: &Db) -> Option<Check> {
    let (buffers, database) = db.server_buffers().await.ok()??;
    Some(Check::new("buffers", "memory for pages", Ok(buffers_text(buffers, database))))
}

fn buffers_text(buffers: i64, database: i64) -> String {
    let mib = |bytes: i64| bytes / (1024 * 1024);
    let text = format!("PostgreSQL keeps {} of {} MiB in memory", mib(buffers), mib(database));
    if buffers < LARGE_BUFFERS && database / buffers.max(1) > FEW_PAGES {
        format!("{text}. {BUFFERS_FIX}")
    } else {
        text
    }
}

/// The protection of the server's tables from scripts' SQL.
async fn script_sql_protection(db: &Db) -> Option<Check> {
    let result = match script_sql::isolation(db).await {
        Ok(_) if db.has_script_tables().await.is_ok_and(|has| !has) => Err(SHARDS_FIX.to_owned()),
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
    Some(Check::new("script_sql", "scripts' SQL", result))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn little_memory_for_a_large_index_is_named() {
        let mib = |n: i64| n << 20;
        assert_eq!(buffers_text(mib(128), mib(1_000)), "PostgreSQL keeps 128 of 1000 MiB in memory");
        assert!(buffers_text(mib(128), mib(2_000)).ends_with("(docs/operations.md, Sizing)"));
        assert!(!buffers_text(mib(1_024), mib(100_000)).contains("shared_buffers"));
    }
}
