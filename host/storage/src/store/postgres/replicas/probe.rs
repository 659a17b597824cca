//! Looks at a database server: which one it is, and how far a replica has come.

use std::time::Instant;

use sqlx::postgres::PgConnectOptions;
use sqlx::{PgConnection, PgExecutor};

use crate::store::POSTGRES_MIGRATIONS;
use crate::store::lost::UNDEFINED_TABLE;
use belvedere_base::clock::Timestamp;

use crate::store::read_pool::position::{Position, position_sql};
use crate::store::read_pool::{Probe, Unused};

/// The cluster of a server and the database in it. Streaming replicas have those of their primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    /// Chosen when the cluster was created.
    system: i64,
    database: i64,
}

const IDENTITY: &str = "SELECT (SELECT system_identifier FROM pg_control_system()), \
     (SELECT oid::bigint FROM pg_database WHERE datname = current_database())";

/// Without a recovery the function of the position returns the last one of an earlier recovery, or NULL.
const PROGRESS: &str = concat!(
    "SELECT pg_is_in_recovery(), coalesce(",
    position_sql!("pg_last_wal_replay_lsn()"),
    ", 0), (extract(epoch FROM pg_last_xact_replay_timestamp()) * 1000000)::bigint"
);

impl Identity {
    pub(super) async fn of(executor: impl PgExecutor<'_>) -> Result<Self, sqlx::Error> {
        let rows: Vec<(i64, i64)> = sqlx::query_as(IDENTITY).fetch_all(executor).await?;
        let (system, database) = rows.first().copied().ok_or(sqlx::Error::RowNotFound)?;
        Ok(Self { system, database })
    }

    /// Whether both are databases of one cluster, whichever.
    pub(super) fn is_same_cluster(self, other: Self) -> bool {
        self.system == other.system
    }
}

/// The state that a replica reports.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub(super) identity: Identity,
    pub(super) in_recovery: bool,
    pub(super) replayed: Position,
    pub(super) replayed_at: Option<Timestamp>,
    /// The time after its report.
    pub(super) at: Instant,
    /// Migrations of this program that it has not replayed.
    pub(super) missing_migrations: usize,
}

/// Looks at a replica.
pub(super) struct ReplicaProbe {
    probe: Probe,
    /// Known until the connection is lost.
    identity: Option<Identity>,
    is_migrated: bool,
}

impl ReplicaProbe {
    pub(super) fn new(options: PgConnectOptions) -> Self {
        Self { probe: Probe::new(options), identity: None, is_migrated: false }
    }

    pub(super) async fn look(&mut self) -> Result<Seen, Unused> {
        let (identity, is_migrated) = (self.identity.take(), std::mem::take(&mut self.is_migrated));
        let seen = self.probe.look(async |connection| ask(connection, identity, is_migrated).await).await?;
        self.identity = Some(seen.identity);
        self.is_migrated = seen.missing_migrations == 0;
        Ok(seen)
    }
}

async fn ask(
    connection: &mut PgConnection,
    known: Option<Identity>,
    is_migrated: bool,
) -> Result<Seen, sqlx::Error> {
    let identity = match known {
        Some(identity) => identity,
        None => Identity::of(&mut *connection).await?,
    };
    let (in_recovery, replayed, replayed_at): (bool, i64, Option<i64>) =
        sqlx::query_as(PROGRESS).fetch_one(&mut *connection).await?;
    let at = Instant::now();
    let missing_migrations = if is_migrated { 0 } else { missing_migrations(connection).await? };
    Ok(Seen {
        identity,
        in_recovery,
        replayed: Position(replayed),
        replayed_at: replayed_at.map(Timestamp),
        at,
        missing_migrations,
    })
}

async fn missing_migrations(connection: &mut PgConnection) -> Result<usize, sqlx::Error> {
    let sql = "SELECT version FROM _sqlx_migrations WHERE success";
    let applied: Vec<i64> = match sqlx::query_scalar(sql).fetch_all(connection).await {
        Err(sqlx::Error::Database(error)) if error.code().as_deref() == Some(UNDEFINED_TABLE) => Vec::new(),
        result => result?,
    };
    Ok(POSTGRES_MIGRATIONS.iter().filter(|migration| !applied.contains(&migration.version)).count())
}
