//! Shows where shards are, and moves them.

use sqlx::{Connection as _, FromRow};

use super::{LOCK, ShardsError, cluster};
use crate::store::partitions::{Partition, shard_numbers};
use crate::store::{Db, Postgres, StoreError, intern};

/// A server of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, FromRow)]
pub struct Node {
    /// `host:port`
    pub name: String,
    pub is_coordinator: bool,
    /// Whether shards may be on it.
    pub takes_shards: bool,
    pub is_active: bool,
}

const NODES: &str = "SELECT nodename || ':' || nodeport AS name, groupid = 0 AS is_coordinator, \
     shouldhaveshards AS takes_shards, isactive AS is_active FROM pg_dist_node WHERE noderole = 'primary' \
     ORDER BY groupid";

/// A shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shard {
    pub number: u8,
    /// The node that it is on.
    pub node: String,
    /// Bytes of its tables with their indexes.
    pub bytes: i64,
    /// Its collections, with the numbers of their records.
    pub collections: Vec<(String, i64)>,
}

const SHARDS: &str = "SELECT table_name::text, nodename || ':' || nodeport, shard_size FROM citus_shards \
     WHERE citus_table_type = 'distributed'";

const COUNTS: &str = "SELECT collection_id, sum(records)::bigint FROM record_counts GROUP BY collection_id";

/// The servers of the cluster, the coordinator first.
///
/// # Errors
/// When the database has no Citus.
pub async fn nodes(db: &Db) -> Result<Vec<Node>, ShardsError> {
    Ok(list(cluster(db).await?).await?)
}

pub(super) async fn list(db: &Postgres) -> Result<Vec<Node>, sqlx::Error> {
    sqlx::query_as(NODES).fetch_all(db.reader()).await
}

/// All shards, in the order of their numbers.
///
/// # Errors
/// When the database is not in shards.
pub async fn shards(db: &Db) -> Result<Vec<Shard>, ShardsError> {
    let cluster = cluster(db).await?;
    let numbers = shard_numbers(cluster.reader()).await?;
    if numbers.is_empty() {
        return Err(ShardsError::NotInShards);
    }
    let tables: Vec<(String, String, i64)> = sqlx::query_as(SHARDS).fetch_all(cluster.reader()).await?;
    let counts: Vec<(i64, i64)> = sqlx::query_as(COUNTS).fetch_all(cluster.reader()).await?;
    let collections = intern::all_collections(db).await?;
    let shard = |number: u8| {
        let partition = Partition::Shard(number);
        let names = partition.tables().all();
        let own = || tables.iter().filter(|(name, ..)| names.contains(&name.as_str()));
        let records = |id| counts.iter().find(|(collection, _)| *collection == id).map_or(0, |(_, n)| *n);
        let collections = collections.iter().filter(|(_, collection)| collection.partition == partition);
        Shard {
            number,
            node: own().next().map(|(_, node, _)| node.clone()).unwrap_or_default(),
            bytes: own().map(|(.., bytes)| bytes).sum(),
            collections: collections.map(|(nsid, of)| (nsid.clone(), records(of.id))).collect(),
        }
    };
    Ok(numbers.into_iter().map(shard).collect())
}

/// Moves a shard to a node, while it is read and, but for its end, written.
///
/// # Errors
/// When there is no such shard or node, and when the move fails: then the shard is where it was.
pub async fn move_to(db: &Db, number: u8, node: &str) -> Result<(), ShardsError> {
    // A split of the shard gives its tables to others.
    let mut lock = cluster(db).await?.pool.acquire().await.map_err(StoreError::from)?.detach();
    sqlx::query("SELECT pg_advisory_lock_shared($1)").bind(LOCK).execute(&mut lock).await?;
    let moved = move_locked(db, number, node).await;
    lock.close().await?;
    moved
}

async fn move_locked(db: &Db, number: u8, node: &str) -> Result<(), ShardsError> {
    let found = shards(db).await?;
    let shard = found.into_iter().find(|shard| shard.number == number).ok_or(ShardsError::NoShard(number))?;
    let cluster = cluster(db).await?;
    let unknown = || ShardsError::UnknownNode(node.to_owned());
    let is_node = |known: &Node| known.name == node && known.takes_shards && known.is_active;
    if !list(cluster).await?.iter().any(is_node) {
        return Err(unknown());
    }
    if shard.node == node {
        return Ok(());
    }
    let address = |name: &str| {
        let (host, port) = name.rsplit_once(':').ok_or_else(unknown)?;
        Ok::<_, ShardsError>((host.to_owned(), port.parse::<i32>().map_err(|_| unknown())?))
    };
    let (from, to) = (address(&shard.node)?, address(node)?);
    let sql = "SELECT citus_move_shard_placement(s.shardid, $2, $3, $4, $5, 'auto') FROM pg_dist_shard s \
               WHERE s.logicalrelid = $1::regclass";
    let query = sqlx::query(sql).bind(Partition::Shard(number).records());
    let query = query.bind(from.0).bind(from.1).bind(to.0).bind(to.1);
    query.execute(&cluster.pool).await.map_err(StoreError::from)?;
    Ok(())
}
