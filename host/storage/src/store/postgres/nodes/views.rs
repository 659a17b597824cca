//! Views on a node with the names of the distributed tables, on the tables that it has itself.
//!
//! Citus plans each statement on a distributed table again, which takes longer than the statement. On the connections for reads these views come
//! first in the search path, so that the same statement reads the node's own tables, and PostgreSQL keeps its plan. A view refuses to
//! answer, as if it did not exist, once the cluster says that the shard is elsewhere: its old copy stays for a while. Then the read goes to the coordinator. When the copy is dropped, its view is, and
//! the name is that of the distributed table again. So does the view of a shard that was split, whose table has another name since the rows that
//! were moved are gone from it.

use std::time::Duration;

use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _, PgConnection};

use crate::store::postgres::Postgres;

/// For the connections that read; names without a view are those of the distributed tables.
pub(super) const SEARCH_PATH: &str = "shard_reads,public";

/// Time to define the views, when a node is busy.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The distributed tables of which the node has the rows, and what their views are made from: with other columns a view is made again.
macro_rules! outdated {
    () => {
        "FROM (SELECT c.relname, s.shardid, g.groupid, t.repmodel = 't' AS is_copied, format('%s columns of shard %s', \
             (SELECT count(*) FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped), s.shardid) AS content \
             FROM pg_dist_local_group g JOIN pg_dist_placement p ON p.groupid = g.groupid JOIN pg_dist_shard s ON s.shardid = p.shardid \
             JOIN pg_dist_partition t ON t.logicalrelid = s.logicalrelid \
             JOIN pg_class c ON c.oid = s.logicalrelid AND c.relnamespace = 'public'::regnamespace) e \
         WHERE obj_description(to_regclass(format('shard_reads.%I', e.relname)), 'pg_class') IS DISTINCT FROM e.content"
    };
}

const ARE_OUTDATED: &str = concat!("SELECT EXISTS (SELECT 1 ", outdated!(), ")");

const DEFINE: &str = concat!(
    "DO $$ DECLARE found record; is_here text; BEGIN \
     PERFORM set_config('citus.enable_ddl_propagation', 'off', true); \
     PERFORM pg_advisory_xact_lock(4918534420473); \
     IF to_regnamespace('shard_reads') IS NULL THEN CREATE SCHEMA shard_reads; END IF; \
     FOR found IN SELECT relname FROM pg_class WHERE relnamespace = 'shard_reads'::regnamespace AND relkind = 'v' \
         AND to_regclass(format('public.%I', relname)) IS NULL \
         LOOP EXECUTE format('DROP VIEW shard_reads.%I', found.relname); END LOOP; \
     FOR found IN SELECT * ",
    outdated!(),
    " LOOP \
         is_here := CASE WHEN NOT found.is_copied THEN format(' WHERE (SELECT CASE WHEN count(*) = 1 THEN true \
             ELSE concat(''moved_'', count(*))::regclass IS NULL END FROM pg_dist_placement p WHERE p.shardid = %s AND p.groupid = %s \
             AND to_regclass(''public.%s_%1$s'') IS NOT NULL)', found.shardid, found.groupid, found.relname) ELSE '' END; \
         IF to_regclass(format('shard_reads.%I', found.relname)) IS NOT NULL THEN \
             EXECUTE format('DROP VIEW shard_reads.%I', found.relname); END IF; \
         EXECUTE format('CREATE VIEW shard_reads.%I AS SELECT * FROM public.%I', found.relname, found.relname || '_' || found.shardid) \
             || is_here; \
         EXECUTE format('COMMENT ON VIEW shard_reads.%I IS %L', found.relname, found.content); \
     END LOOP; END $$"
);

pub(super) async fn are_outdated(node: &mut PgConnection) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar(ARE_OUTDATED).persistent(false).fetch_one(node).await
}

/// Makes those that are missing or outdated. Without the right to, reads go on without them.
pub(super) async fn define(node: &PgConnectOptions) {
    let defining = async {
        let mut connection = node.connect().await?;
        sqlx::raw_sql(DEFINE).execute(&mut connection).await?;
        connection.close().await
    };
    match tokio::time::timeout(TIMEOUT, defining).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "the views of a node's own tables can't be defined"),
        Err(_) => tracing::debug!("the views of a node's own tables were not defined in time"),
    }
}

/// Removes them on all nodes: a migration can't change the columns of a table that has a view.
pub(super) async fn remove(coordinator: &Postgres) -> Result<(), sqlx::Error> {
    let sql = "SELECT run_command_on_all_nodes('DROP SCHEMA IF EXISTS shard_reads CASCADE')";
    sqlx::query(sql).execute(&coordinator.pool).await.map(drop)
}
