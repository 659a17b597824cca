//! A database in shards: distributed over the nodes of a Citus cluster (ADR 172). Everything that differs from one PostgreSQL is here,
//! but for the names of tables ([`partitions`](super::partitions)).
//!
//! A partition of the records is a shard: a table of its own on one node, with the tables that its statements read and write beside
//! it. Tables that are small, or that all shards need, have a copy on each node. Everything else stays on the coordinator, which plans
//! statements, has the sequences and the advisory locks, and passes a statement that names one partition to its node as a whole.

mod distribute;
mod placements;

pub use self::distribute::{Contents, distribute, planned};
pub use self::placements::{Node, Shard, move_to, nodes, shards};

use super::{Db, Postgres};

/// Whether the database is in shards.
pub(super) const IS_DISTRIBUTED: &str = "SELECT to_regclass('tombstones_00') IS NOT NULL";

/// Tables that are divided by collection, like the records.
const DIVIDED: [&str; 5] = ["records", "record_refs", "invalid_records", "tombstones", "link_counts"];

/// Tables with a copy on each node: statements on records read them.
const COPIED: [&str; 7] =
    ["dids", "collections", "repo_tombstones", "hidden_records", "labelers", "labels", "unread_refs"];

/// The reason why a database can't be distributed, or a shard not moved.
#[derive(Debug, thiserror::Error)]
pub enum ShardsError {
    #[error("only PostgreSQL can be in shards: DATABASE_URL names a SQLite file")]
    NotPostgres,
    #[error(
        "the database has no Citus: run CREATE EXTENSION citus on each node, and add the nodes (docs/scaling.md)"
    )]
    NoCitus,
    #[error("the cluster has no node that takes shards: add one with citus_add_node (docs/scaling.md)")]
    NoNode,
    #[error("the database is in shards already: belvedere shards shows where they are")]
    AlreadyInShards,
    #[error("the database is not in shards: belvedere shards distribute does that")]
    NotInShards,
    #[error("{0} is no shard: they have the numbers 0 to 15")]
    NoShard(u8),
    #[error("{0} is no node of the cluster that takes shards: belvedere shards lists them")]
    UnknownNode(String),
    #[error(transparent)]
    Store(#[from] super::StoreError),
}

impl From<sqlx::Error> for ShardsError {
    fn from(error: sqlx::Error) -> Self {
        Self::Store(error.into())
    }
}

/// The database, if it is PostgreSQL with Citus.
async fn cluster(db: &Db) -> Result<&Postgres, ShardsError> {
    let Db::Postgres(db) = db else { return Err(ShardsError::NotPostgres) };
    let sql = "SELECT EXISTS (SELECT 1 FROM pg_extension WHERE extname = 'citus')";
    let has_citus: bool = sqlx::query_scalar(sql).fetch_one(db.reader()).await?;
    if has_citus { Ok(db) } else { Err(ShardsError::NoCitus) }
}

async fn is_distributed(db: &Postgres) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar(IS_DISTRIBUTED).fetch_one(db.reader()).await
}
