//! Opens PostgreSQL and owns its connection pools: the PostgreSQL variant of [`super::Db`].

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{ConnectOptions, Connection, PgConnection, PgPool};

use super::StoreError;
use super::fields::FieldUsage;
use super::intern::Interner;
use super::read_pool::{READ_TIME_LIMIT, ReadPool};
use super::scans::{self, SCAN_TIME_LIMIT};
use super::script_sql::role::{Role, RoleError, ScriptRole};
use super::script_sql::{self, ScriptIsolation, ScriptSqlError};
use crate::fair_share::FairPool;

/// A request that waits longer than this for a connection fails with [`StoreError::Unavailable`].
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(10);
/// A connection that was idle for longer is pinged before use: the server may have restarted. Busy connections are not
/// pinged, which saves a round trip per request.
const PING_AFTER: Duration = Duration::from_secs(5);
/// Ends a transaction that a bug left open, so that it does not hold its locks for ever.
const IDLE_IN_TRANSACTION: &str = "60s";
/// Number of prepared statements kept per connection.
const STATEMENT_CACHE: usize = 256;

#[derive(Clone, Debug)]
pub struct Postgres {
    pub pool: PgPool,
    /// Connections for hot reads.
    pub(super) read_pool: Arc<ReadPool<PgConnection>>,
    /// Connections for reads that hold a place in `scans`.
    pub(super) scan_pool: Arc<ReadPool<PgConnection>>,
    pub(super) scans: FairPool,
    /// Connections for scripts' own SQL.
    pub(super) script_sql: Arc<script_sql::Connections<PgConnection>>,
    /// The role that these connections log in as; `None` for the server's own role.
    pub(super) script_role: Arc<Result<Option<Role>, RoleError>>,
    pub(super) connections: u32,
    pub(super) ids: Arc<Interner>,
    pub(super) fields: Arc<FieldUsage>,
}

impl Postgres {
    pub(super) async fn open(url: &str, connections: u32, scripts: &ScriptRole) -> Result<Self, StoreError> {
        let options = PgConnectOptions::from_str(url)
            .map_err(|_| StoreError::Open("the PostgreSQL URL is malformed".into()))?
            .disable_statement_logging()
            .application_name("belvedere")
            .statement_cache_capacity(STATEMENT_CACHE)
            .options([
                ("idle_in_transaction_session_timeout", IDLE_IN_TRANSACTION),
                // Compilation takes longer than it saves for a statement of a tenth of a millisecond.
                ("jit", "off"),
            ]);
        // Half of the connections are for hot reads, half for everything else. Lists read an index in its order. Before
        // the first ANALYZE the planner assumes that every collection is tiny and prefers a bitmap scan with a sort.
        let reads = |time_limit: Duration| {
            let timeout = format!("{}ms", time_limit.as_millis());
            options.clone().options([("enable_bitmapscan", "off"), ("statement_timeout", &timeout)])
        };
        let max_scans = scans::max_on_postgres(connections);
        let scan_pool = Arc::new(ReadPool::new(reads(SCAN_TIME_LIMIT), max_scans).within(SCAN_TIME_LIMIT));
        let read_pool = Arc::new(ReadPool::new(
            reads(READ_TIME_LIMIT),
            (connections / 2).saturating_sub(max_scans).max(1),
        ));
        let own_options = options.clone();
        let pool = PgPoolOptions::new()
            .max_connections(connections.div_ceil(2))
            .acquire_timeout(ACQUIRE_TIMEOUT)
            .test_before_acquire(false)
            .before_acquire(|conn, meta| {
                Box::pin(async move {
                    if meta.idle_for > PING_AFTER && conn.ping().await.is_err() {
                        return Ok(false);
                    }
                    Ok(true)
                })
            })
            .connect_with(options)
            .await?;
        let database: String = sqlx::query_scalar("SELECT current_database()::text").fetch_one(&pool).await?;
        let script_role = Role::of(scripts, &database, &own_options);
        let role = script_role.as_ref().ok().and_then(Option::as_ref);
        let script_sql = Arc::new(script_sql::Connections::new(&own_options, role));
        Ok(Self {
            pool,
            read_pool,
            scan_pool,
            scans: scans::pool(max_scans),
            script_sql,
            script_role: Arc::new(script_role),
            connections,
            ids: Arc::default(),
            fields: Arc::default(),
        })
    }

    /// Creates the scripts' role and grants its rights. The inner `Err` says what the server's own role is not allowed
    /// to do.
    pub(super) async fn prepare_script_role(&self) -> Result<Result<(), RoleError>, StoreError> {
        match self.script_role.as_ref() {
            Ok(Some(role)) => Ok(role.prepare(&mut *self.pool.acquire().await?).await?),
            Ok(None) => Ok(Ok(())),
            Err(no_role) => Ok(Err(no_role.clone())),
        }
    }

    /// Which protections apply to scripts' SQL: the guard alone, or also a role without other rights.
    pub(super) async fn script_isolation(&self) -> Result<ScriptIsolation, ScriptSqlError> {
        match self.script_role.as_ref() {
            Ok(None) => Ok(ScriptIsolation::Guard),
            Err(no_role) => Err(ScriptSqlError::RoleError(no_role.clone())),
            Ok(Some(role)) => {
                let limits_temp_files = script_sql::postgres::try_role(&self.script_sql, role).await?;
                Ok(ScriptIsolation::GuardAndRole { name: role.name().to_owned(), limits_temp_files })
            }
        }
    }

    pub(super) async fn close(&self) {
        self.read_pool.close().await;
        self.scan_pool.close().await;
        self.script_sql.close().await;
        self.pool.close().await;
    }
}
