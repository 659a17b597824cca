//! Looks at a database server: which one it is, and how far a replica has come.

use std::time::Instant;

use sqlx::postgres::PgConnectOptions;
use sqlx::{Connection as _, PgConnection, PgExecutor};

use crate::store::POSTGRES_MIGRATIONS;
use belvedere_base::clock::Timestamp;

use crate::store::read_pool::PROBE_TIMEOUT;
use crate::store::read_pool::Unused;
use crate::store::read_pool::position::{Position, position_sql};

/// PostgreSQL's `undefined_table`.
const UNDEFINED_TABLE: &str = "42P01";

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

/// A connection to a replica that is kept between looks.
pub(super) struct Probe {
    options: PgConnectOptions,
    connection: Option<(PgConnection, Identity)>,
    is_migrated: bool,
}

impl Probe {
    pub(super) fn new(options: PgConnectOptions) -> Self {
        Self { options, connection: None, is_migrated: false }
    }

    /// Looks at the replica. After an error the next look connects again.
    pub(super) async fn look(&mut self) -> Result<Seen, Unused> {
        match tokio::time::timeout(PROBE_TIMEOUT, self.ask()).await {
            Ok(Ok(seen)) => Ok(seen),
            Ok(Err(error)) => {
                self.forget();
                Err(Unused::Unreachable(error.to_string()))
            }
            Err(_) => {
                self.forget();
                Err(Unused::Silent)
            }
        }
    }

    fn forget(&mut self) {
        self.connection = None;
        self.is_migrated = false;
    }

    async fn ask(&mut self) -> Result<Seen, sqlx::Error> {
        let (connection, identity) = match &mut self.connection {
            Some((connection, identity)) => (connection, *identity),
            none => {
                let mut connection = PgConnection::connect_with(&self.options).await?;
                let identity = Identity::of(&mut connection).await?;
                (&mut none.insert((connection, identity)).0, identity)
            }
        };
        let (in_recovery, replayed, replayed_at): (bool, i64, Option<i64>) =
            sqlx::query_as(PROGRESS).fetch_one(&mut *connection).await?;
        let at = Instant::now();
        let missing_migrations = if self.is_migrated { 0 } else { missing_migrations(connection).await? };
        self.is_migrated = missing_migrations == 0;
        Ok(Seen {
            identity,
            in_recovery,
            replayed: Position(replayed),
            replayed_at: replayed_at.map(Timestamp),
            at,
            missing_migrations,
        })
    }
}

async fn missing_migrations(connection: &mut PgConnection) -> Result<usize, sqlx::Error> {
    let sql = "SELECT version FROM _sqlx_migrations WHERE success";
    let applied: Vec<i64> = match sqlx::query_scalar(sql).fetch_all(connection).await {
        Err(sqlx::Error::Database(error)) if error.code().as_deref() == Some(UNDEFINED_TABLE) => Vec::new(),
        result => result?,
    };
    Ok(POSTGRES_MIGRATIONS.iter().filter(|migration| !applied.contains(&migration.version)).count())
}
