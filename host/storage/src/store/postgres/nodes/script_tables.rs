//! The tables that the views of scripts' SQL read in a database in shards.
//!
//! Citus sends the parts of a statement to the nodes under the role of the statement, without the views that it went through. So the
//! views of scripts read other tables on the coordinator, in a schema of their own: foreign tables of the shards, which PostgreSQL
//! reads as the owner of the view, and the coordinator's own copies of the tables that each node has. A foreign table reads what hosts read
//! on its node ([`views`](super::views)).

use std::fmt;

use percent_encoding::percent_decode_str;
use sqlx::postgres::{PgConnectOptions, PgSslMode};
use sqlx::{Connection as _, PgConnection};
use url::Url;

use crate::store::definitions::run;
use crate::store::partitions::COUNT;
use crate::store::postgres::Postgres;
use crate::store::script_sql::role::quoted;
use crate::store::script_sql::{STATEMENT_TIME_LIMIT, VIEW_SCHEMA};

/// The cost of a request to a node, in PostgreSQL's units: some hundred microseconds.
const ROUND_TRIP_COST: u32 = 10;

/// Rows that a request to a node answers. Each may have a megabyte, and each connection of scripts keeps that many.
const FETCH_ROWS: u32 = 50;

/// The tables of all shards that the views read.
const DIVIDED: [&str; 3] = ["records", "record_refs", "invalid_records"];

/// The places and columns of the tables: with others they are made again.
macro_rules! content {
    () => {
        "(SELECT string_agg(concat_ws(' ', s.shardid, n.groupid, n.nodename, n.nodeport, c.relnatts), ',' ORDER BY s.shardid, n.groupid) \
         FROM pg_dist_shard s JOIN pg_class c ON c.oid = s.logicalrelid JOIN pg_dist_placement p ON p.shardid = s.shardid \
         JOIN pg_dist_node n ON n.groupid = p.groupid AND n.noderole = 'primary')"
    };
}

const ARE_OUTDATED: &str = concat!(
    "SELECT obj_description(to_regnamespace('shard_scripts'), 'pg_namespace') IS DISTINCT FROM ",
    content!()
);

/// A statement of a script that reads the old tables ends within the time limit of scripts. Until then other statements must not
/// wait behind this one, so it gives up and is tried again.
const BEFORE: &str = "SELECT set_config('citus.enable_ddl_propagation', 'off', true), set_config('lock_timeout', '200ms', true), \
     set_config('search_path', 'shard_scripts, public', true), pg_advisory_xact_lock(4918534420474)";

/// The views, written without the schema of the tables that they read.
const VIEWS: &str = "SELECT relname::text, replace(pg_get_viewdef(oid), 'public.', '') FROM pg_class \
     WHERE relnamespace = to_regnamespace($1) AND relkind = 'v' ORDER BY relname";

/// The place of a table of a shard, and whether the server is a node, on which hosts define views.
const PLACE: &str = "SELECT n.nodename, n.nodeport, n.groupid <> 0 \
     FROM pg_dist_shard s JOIN pg_dist_placement p ON p.shardid = s.shardid \
     JOIN pg_dist_node n ON n.groupid = p.groupid AND n.noderole = 'primary' \
     WHERE s.logicalrelid = to_regclass('public.' || $1)";

/// The tables of which the coordinator has a copy, and the names of the copies.
const COPIES: &str = "SELECT c.relname::text, format('%s_%s', c.relname, s.shardid) FROM pg_dist_partition t \
     JOIN pg_dist_shard s ON s.logicalrelid = t.logicalrelid JOIN pg_dist_placement p ON p.shardid = s.shardid AND p.groupid = 0 \
     JOIN pg_class c ON c.oid = t.logicalrelid AND c.relnamespace = 'public'::regnamespace WHERE t.repmodel = 't'";

const SERVERS: &str = "SELECT s.srvname::text FROM pg_foreign_server s WHERE s.srvname LIKE 'shards at %'";

const UNUSED_SERVERS: &str = "SELECT s.srvname::text FROM pg_foreign_server s WHERE s.srvname LIKE 'shards at %' \
     AND NOT EXISTS (SELECT 1 FROM pg_foreign_table t WHERE t.ftserver = s.oid)";

const SERVER_EXISTS: &str = "SELECT EXISTS (SELECT 1 FROM pg_foreign_server WHERE srvname = $1)";

/// The parts of a shard that was split: of one collection, and of the others.
#[derive(Debug, sqlx::FromRow)]
struct Parts {
    #[sqlx(try_from = "i16")]
    number: u8,
    collection_id: i64,
    #[sqlx(try_from = "i16")]
    own: u8,
    #[sqlx(try_from = "i16")]
    rest: u8,
}

/// A database that a version before has distributed has none.
const HAS_SPLITS: &str = "SELECT to_regclass('shard_splits') IS NOT NULL";
const SPLITS: &str = "SELECT number, collection_id, own, rest FROM shard_splits";

/// The condition for the reasons why a record is invalid, and that by which one shard is asked for them in place of all.
const OF_THE_RECORD: &str = "i.record_id = r.id";
const OF_THE_COLLECTION: &str = "i.collection_id = r.collection_id";

/// The name and the password with which the coordinator reads on the nodes.
pub(super) struct Login {
    user: String,
    password: String,
    database: String,
    /// Whether connections have to be encrypted.
    needs_tls: bool,
}

impl Login {
    /// Those of the server's own connections, which `url` describes.
    pub(super) fn of(url: &str, options: &PgConnectOptions) -> Self {
        let user = options.get_username().to_owned();
        Self {
            password: Url::parse(url).ok().and_then(|url| password(&url)).unwrap_or_default(),
            database: options.get_database().unwrap_or(&user).to_owned(),
            needs_tls: matches!(
                options.get_ssl_mode(),
                PgSslMode::Require | PgSslMode::VerifyCa | PgSslMode::VerifyFull
            ),
            user,
        }
    }

    /// The options of a mapping of users. `verb` begins each.
    fn options(&self, verb: &str) -> String {
        format!("OPTIONS ({verb}user {}, {verb}password {})", literal(&self.user), literal(&self.password))
    }
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login").field("user", &self.user).finish_non_exhaustive()
    }
}

/// That of the query before that in front of the host, as for the server's own connections.
fn password(url: &Url) -> Option<String> {
    let of_query = url.query_pairs().filter(|(name, _)| name == "password").last();
    of_query.map(|(_, password)| password.into_owned()).or_else(|| {
        url.password().map(|password| percent_decode_str(password).decode_utf8_lossy().into_owned())
    })
}

/// A text for a statement that takes no parameters.
fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// Whether the views of scripts read these tables.
pub(super) const ARE_DEFINED: &str = "SELECT to_regnamespace('shard_scripts') IS NOT NULL";

pub(super) async fn are_outdated(coordinator: &Postgres) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar(ARE_OUTDATED).fetch_one(coordinator.reader()).await
}

/// A migration may define views on the distributed tables: then these are defined again, whatever their content is.
pub(super) async fn outdate(coordinator: &Postgres) -> Result<(), sqlx::Error> {
    let sql = "DO $$ BEGIN IF to_regnamespace('shard_scripts') IS NOT NULL THEN \
               SET LOCAL citus.enable_ddl_propagation = off; COMMENT ON SCHEMA shard_scripts IS NULL; END IF; END $$";
    sqlx::raw_sql(sql).execute(&coordinator.pool).await.map(drop)
}

/// Defines them again if they are outdated, with the views of scripts on them, and tells the coordinator the present password.
pub(super) async fn define(coordinator: &Postgres, login: &Login) -> Result<(), sqlx::Error> {
    let mut connection = coordinator.pool.acquire().await?;
    let mut tx = connection.begin().await?;
    sqlx::query(BEFORE).execute(&mut *tx).await?;
    let servers: Vec<String> = sqlx::query_scalar(SERVERS).fetch_all(&mut *tx).await?;
    for server in servers {
        let options = login.options("SET ");
        run(&mut tx, format!("ALTER USER MAPPING FOR CURRENT_USER SERVER {} {options}", quoted(&server)))
            .await?;
    }
    if sqlx::query_scalar(ARE_OUTDATED).fetch_one(&mut *tx).await? {
        define_again(&mut tx, login).await?;
    }
    tx.commit().await
}

async fn define_again(tx: &mut PgConnection, login: &Login) -> Result<(), sqlx::Error> {
    // Before the places themselves, so that a change between the two is seen later.
    let content: String = sqlx::query_scalar(concat!("SELECT ", content!())).fetch_one(&mut *tx).await?;
    let views: Vec<(String, String)> = sqlx::query_as(VIEWS).bind(VIEW_SCHEMA).fetch_all(&mut *tx).await?;
    run(tx, "CREATE EXTENSION IF NOT EXISTS postgres_fdw".to_owned()).await?;
    run(
        tx,
        "DO $$ BEGIN IF to_regnamespace('shard_scripts') IS NOT NULL THEN \
         ALTER SCHEMA shard_scripts RENAME TO shard_scripts_before; END IF; END $$; CREATE SCHEMA shard_scripts"
            .to_owned(),
    )
    .await?;
    let copies: Vec<(String, String)> = sqlx::query_as(COPIES).fetch_all(&mut *tx).await?;
    for (table, copy) in copies {
        run(tx, format!("CREATE VIEW shard_scripts.{table} AS SELECT * FROM public.{copy}")).await?;
    }
    let splits = if sqlx::query_scalar(HAS_SPLITS).fetch_one(&mut *tx).await? {
        sqlx::query_as(SPLITS).fetch_all(&mut *tx).await?
    } else {
        Vec::new()
    };
    for table in DIVIDED {
        let columns = format!("LIKE public.{table}");
        run(tx, format!("CREATE TABLE shard_scripts.{table} ({columns}) PARTITION BY HASH (collection_id)"))
            .await?;
        for number in 0..COUNT {
            let place = format!("{table} FOR VALUES WITH (MODULUS {COUNT}, REMAINDER {number})");
            define_partition(tx, login, table, number, &splits, &place).await?;
        }
    }
    for (view, definition) in views {
        let definition = if definition.contains(OF_THE_COLLECTION) {
            definition
        } else {
            definition.replace(OF_THE_RECORD, &format!("{OF_THE_RECORD} AND {OF_THE_COLLECTION}"))
        };
        run(tx, format!("CREATE OR REPLACE VIEW {VIEW_SCHEMA}.{} AS {definition}", quoted(&view))).await?;
    }
    run(tx, "DROP SCHEMA IF EXISTS shard_scripts_before CASCADE".to_owned()).await?;
    let unused: Vec<String> = sqlx::query_scalar(UNUSED_SERVERS).fetch_all(&mut *tx).await?;
    for server in unused {
        run(tx, format!("DROP SERVER {} CASCADE", quoted(&server))).await?;
    }
    run(tx, format!("COMMENT ON SCHEMA shard_scripts IS {}", literal(&content))).await
}

/// Defines the partition of a table that has the rows of a shard. That of one that was split has two partitions in its turn: of one
/// collection, and of the others, which may have been split again.
async fn define_partition(
    tx: &mut PgConnection,
    login: &Login,
    table: &str,
    mut number: u8,
    splits: &[Parts],
    place: &str,
) -> Result<(), sqlx::Error> {
    let mut place = place.to_owned();
    while let Some(split) = splits.iter().find(|split| split.number == number) {
        let parent = format!("{table}_{number:02}");
        let sql = format!(
            "CREATE TABLE shard_scripts.{parent} PARTITION OF shard_scripts.{place} PARTITION BY LIST (collection_id)"
        );
        run(tx, sql).await?;
        let own = format!("{parent} FOR VALUES IN ({})", split.collection_id);
        define_shard(tx, login, table, split.own, &own).await?;
        (number, place) = (split.rest, format!("{parent} DEFAULT"));
    }
    define_shard(tx, login, table, number, &place).await
}

async fn define_shard(
    tx: &mut PgConnection,
    login: &Login,
    table: &str,
    number: u8,
    place: &str,
) -> Result<(), sqlx::Error> {
    let name = format!("{table}_{number:02}");
    let (host, port, has_views): (String, i32, bool) =
        sqlx::query_as(PLACE).bind(&name).fetch_one(&mut *tx).await?;
    let server = format!("shards at {host}:{port}");
    if !sqlx::query_scalar(SERVER_EXISTS).bind(&server).fetch_one(&mut *tx).await? {
        create_server(tx, login, &server, &host, port).await?;
    }
    // On the coordinator itself the distributed table, because hosts define no views there.
    let schema = if has_views { "shard_reads" } else { "public" };
    // The few rows of reasons are found by their key, and planning would ask all shards for their costs.
    let asks_for_costs = table != "invalid_records";
    run(
        tx,
        format!(
            "CREATE FOREIGN TABLE shard_scripts.{name} PARTITION OF shard_scripts.{place} SERVER {} \
             OPTIONS (schema_name '{schema}', table_name '{name}', use_remote_estimate '{asks_for_costs}')",
            quoted(&server),
        ),
    )
    .await
}

async fn create_server(
    tx: &mut PgConnection,
    login: &Login,
    server: &str,
    host: &str,
    port: i32,
) -> Result<(), sqlx::Error> {
    let (server, host, database) = (quoted(server), literal(host), literal(&login.database));
    let tls = if login.needs_tls { "require" } else { "prefer" };
    let time_limit = STATEMENT_TIME_LIMIT.as_millis();
    run(
        tx,
        format!(
            "CREATE SERVER {server} FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host {host}, port '{port}', \
             dbname {database}, sslmode '{tls}', connect_timeout '2', async_capable 'true', \
             fdw_startup_cost '{ROUND_TRIP_COST}', fetch_size '{FETCH_ROWS}', \
             options '-c statement_timeout={time_limit}ms -c default_transaction_read_only=on')"
        ),
    )
    .await?;
    run(tx, format!("CREATE USER MAPPING FOR CURRENT_USER SERVER {server} {}", login.options(""))).await
}

#[cfg(test)]
mod tests {
    use std::str::FromStr as _;

    use super::*;

    #[test]
    fn the_login_is_that_of_the_url() {
        let url = "postgres://ann:it%27s@db/index?sslmode=verify-full";
        let login = Login::of(url, &PgConnectOptions::from_str(url).unwrap());
        assert_eq!(login.options("SET "), "OPTIONS (SET user 'ann', SET password 'it''s')");
        assert!(login.needs_tls && login.database == "index");
        assert!(!format!("{login:?}").contains("it's"));
        let url = "postgres://ann:old@db/index?password=it%27s";
        let login = Login::of(url, &PgConnectOptions::from_str(url).unwrap());
        assert_eq!(login.options(""), "OPTIONS (user 'ann', password 'it''s')");
    }
}
