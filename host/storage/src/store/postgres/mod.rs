//! Opens PostgreSQL and owns its connection pools: the PostgreSQL variant of [`super::Db`].

mod lent_connection;
pub mod nodes;
mod read_pools;
pub mod replicas;

use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{ConnectOptions, Connection, PgConnection, PgPool, PgTransaction};

use self::nodes::Nodes;
use self::read_pools::{PoolSizes, ReadPools};
use self::replicas::Replicas;
use super::StoreError;
use super::dedicated_connection::DedicatedConnection;
use super::executor::{ConnectionPool as _, Statements};
use super::fence::Fence;
use super::fields::FieldUsage;
use super::intern::Interner;
use super::lost::{Losses, is_lost};
use super::partitions::{Partition, shard_numbers};
use super::read_pool::{ReadPool, Service};
use super::reads::{self, Reads};
use super::resources::Resources;
use super::scans;
use super::script_sql::role::{Role, RoleError, ScriptRole};
use super::script_sql::{self, ScriptIsolation, ScriptSqlError};
use belvedere_web::fair_share::FairPool;

/// The name of this server's sessions in `pg_stat_activity`.
pub(super) const APPLICATION_NAME: &str = "belvedere";
/// A request that waits longer than this for a connection fails with [`StoreError::Unavailable`].
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(10);
/// A connection that was idle for longer is pinged before use, because a write on a lost connection is not repeated.
/// Busy connections are not pinged, which saves a round trip per statement.
const PING_AFTER: Duration = Duration::from_millis(200);
/// A connection whose ping takes longer counts as lost: a cut cable produces no error.
const PING_TIMEOUT: Duration = Duration::from_secs(2);
/// Ends a transaction that a bug left open, so that it does not hold its locks for ever.
const IDLE_IN_TRANSACTION: &str = "60s";
/// Number of prepared statements kept per connection: frequent statements exist once for each partition that is in use.
const STATEMENT_CACHE: usize = 512;

#[derive(Clone, Debug)]
pub struct Postgres {
    /// Statements run on [`Postgres::reader`] or [`Postgres::writer`], which take their connections from here.
    pub pool: PgPool,
    /// Losses of all connections but those of scripts' SQL, which must not be able to close the others.
    pub(super) losses: Arc<Losses>,
    /// Connections for reads with a time limit.
    pub(super) read_pools: ReadPools,
    pub(super) reads: FairPool,
    pub(super) scans: FairPool,
    /// Connections for scripts' own SQL.
    pub(super) script_sql: Arc<script_sql::Connections<PgConnection>>,
    pub(super) script_costs: Arc<script_sql::Costs>,
    /// The role that these connections log in as; `None` for the server's own role.
    pub(super) script_role: Arc<Result<Option<Role>, RoleError>>,
    /// The condition that the transactions of this handle check first.
    pub(super) fence: Option<Fence>,
    /// Servers that answer reads which may be slightly old; `None` without any.
    pub(super) replicas: Option<Arc<Replicas>>,
    /// The nodes that have the shards; `None` for a database that is not in shards.
    pub(super) nodes: Option<Arc<Nodes>>,
    pub(super) connections: u32,
    pub(super) ids: Arc<Interner>,
    pub(super) fields: Arc<FieldUsage>,
}

impl Postgres {
    pub(super) async fn open(
        url: &str,
        resources: Resources,
        scripts: &ScriptRole,
    ) -> Result<Self, StoreError> {
        let connections = resources.connections;
        let options = connect_options(url)?;
        let losses = Arc::<Losses>::default();
        let sizes @ PoolSizes { reads: max_reads, scans: max_scans } = PoolSizes::of(connections);
        let read_pools = ReadPools::new(&options, sizes, &losses);
        let own_options = options.clone();
        let pool = PgPoolOptions::new()
            .max_connections(connections.div_ceil(2))
            .acquire_timeout(ACQUIRE_TIMEOUT)
            // A slow acquisition ends well or with an error. sqlx's warning before that calls for no action.
            .acquire_slow_threshold(ACQUIRE_TIMEOUT)
            .test_before_acquire(false)
            .before_acquire({
                let losses = Arc::clone(&losses);
                move |connection, meta| {
                    let losses = Arc::clone(&losses);
                    Box::pin(async move { Ok(is_usable(connection, meta.idle_for, &losses).await) })
                }
            })
            .connect_with(options)
            .await?;
        let database: String = sqlx::query_scalar("SELECT current_database()::text").fetch_one(&pool).await?;
        let shards = shard_numbers(&pool).await?;
        let script_role = Role::of(scripts, &database, &own_options);
        let role = script_role.as_ref().ok().and_then(Option::as_ref);
        let script_sql = Arc::new(script_sql::Connections::new(&own_options, role));
        Ok(Self {
            pool,
            losses,
            read_pools,
            reads: reads::pool("reads", max_reads, reads::per_tenant_on_postgres(max_reads)),
            scans: scans::pool("scans", max_scans),
            script_sql,
            script_costs: Arc::default(),
            script_role: Arc::new(script_role),
            fence: None,
            replicas: None,
            nodes: (!shards.is_empty()).then(|| Arc::new(Nodes::new(url, &own_options))),
            connections,
            ids: Arc::new(resources.interner(&shards)),
            fields: Arc::default(),
        })
    }

    /// A handle whose hot reads and scans run on a replica, and on the primary while the replica is not used. A replica
    /// has as many connections for them as the primary has, which its own permits share among tenants.
    pub(super) fn on_replica(&self, options: &PgConnectOptions, service: &Arc<Service>) -> Self {
        let sizes @ PoolSizes { reads: max_reads, scans: max_scans } = PoolSizes::of(self.connections);
        let name = |what: &str| format!("{what} {}", service.server());
        Self {
            read_pools: self.read_pools.elsewhere(options, sizes, service),
            reads: reads::pool(name("reads"), max_reads, reads::per_tenant_on_postgres(max_reads)),
            scans: scans::pool(name("scans"), max_scans),
            replicas: None,
            nodes: None,
            ..self.clone()
        }
    }

    /// The connections for reads of a partition's records: those to its node, if it is a shard whose node is in use.
    pub(super) fn pool_of(&self, partition: Partition, reads: Reads) -> Arc<ReadPool<PgConnection>> {
        let node = match (partition, &self.nodes) {
            (Partition::Shard(number), Some(nodes)) => nodes.of(number),
            _ => None,
        };
        let pools = node.as_ref().map_or(&self.read_pools, |node| node.read_pools());
        Arc::clone(pools.of(reads))
    }

    /// Runs statements that only read; they are repeated once when their connection was lost.
    pub(super) fn reader(&self) -> Statements<'_, Self> {
        Statements::new(self, true)
    }

    pub(super) fn writer(&self) -> Statements<'_, Self> {
        Statements::new(self, false)
    }

    /// A connection beside the pools, for one purpose.
    pub(super) async fn dedicated_connection(&self) -> Result<DedicatedConnection, StoreError> {
        let options = (*self.pool.connect_options()).clone();
        DedicatedConnection::open(options, Arc::clone(&self.losses)).await
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

    /// The protections that apply to scripts' SQL: the guard alone, or also a role without other rights.
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
        if let Some(replicas) = &self.replicas {
            replicas.close().await;
        }
        if let Some(nodes) = &self.nodes {
            nodes.close().await;
        }
        self.read_pools.close().await;
        self.script_sql.close().await;
        self.pool.close().await;
    }
}

/// The options of all connections of this server.
pub(super) fn connect_options(url: &str) -> Result<PgConnectOptions, StoreError> {
    let options = PgConnectOptions::from_str(url)
        .map_err(|_| StoreError::Open("the PostgreSQL URL is malformed".into()))?;
    Ok(options
        .disable_statement_logging()
        .application_name(APPLICATION_NAME)
        .statement_cache_capacity(STATEMENT_CACHE)
        .options([
            ("idle_in_transaction_session_timeout", IDLE_IN_TRANSACTION),
            // Compilation takes longer than it saves for a statement of a tenth of a millisecond.
            ("jit", "off"),
        ]))
}

impl Statements<'_, Postgres> {
    /// Begins a transaction; on another connection if the first is lost, since nothing was written yet. Fails if the
    /// handle is fenced and its term is over.
    pub(super) async fn begin(self) -> Result<PgTransaction<'static>, sqlx::Error> {
        let mut transaction = match self.pool.pool.begin().await {
            Err(error) if is_lost(&error) => {
                self.pool.lost();
                self.pool.pool.begin().await?
            }
            begun => begun?,
        };
        if let Some(fence) = self.pool.fence {
            fence.check(&mut transaction).await?;
        }
        Ok(transaction)
    }
}

/// Whether an idle connection can be used. `false` closes it.
async fn is_usable(connection: &mut PgConnection, idle_for: Duration, losses: &Losses) -> bool {
    if Instant::now().checked_sub(idle_for).is_none_or(|since| losses.happened_after(since)) {
        return false;
    }
    if idle_for <= PING_AFTER {
        return true;
    }
    let answers = matches!(tokio::time::timeout(PING_TIMEOUT, connection.ping()).await, Ok(Ok(())));
    if !answers {
        losses.record();
    }
    answers
}
