//! A database in shards: distributed over the nodes of a Citus cluster (ADR 172). Everything that differs from one PostgreSQL is here,
//! but for the names of tables ([`partitions`](super::partitions)) and the reads on their nodes ([`nodes`](super::nodes)).
//!
//! A partition of the records is a shard: a table of its own on one node, with the tables that its statements read and write beside
//! it. Tables that are small, or that all shards need, have a copy on each node. Everything else stays on the coordinator, which plans
//! statements, has the sequences and the advisory locks, and passes a statement that names one partition to its node as a whole.

mod distribute;
mod placements;
pub(super) mod sizes;
mod split;
mod tables;

pub use self::distribute::{Contents, distribute, distribute_new, planned};
pub use self::placements::{Node, Shard, move_to, nodes, shards};
pub use self::split::{Split, plan_split, split};
#[cfg(test)]
pub(super) use self::tables::partition_of;

use sqlx::PgConnection;

use super::partitions::SHARD_NUMBERS;
use super::{Db, Postgres};

/// Key of the advisory lock of what makes and fills tables of shards; what moves them shares it.
const LOCK: i64 = 4_918_534_420_475;

/// Statements before those that make and fill tables, for all servers: one connection to each node, so that later statements see what
/// earlier ones have done.
const BEFORE: &[&str] = &[
    "SET LOCAL citus.propagate_set_commands = 'local'",
    "SET LOCAL statement_timeout = 0",
    "SET LOCAL lock_timeout = 0",
    "SET LOCAL idle_in_transaction_session_timeout = 0",
    "SET LOCAL citus.multi_shard_modify_mode = 'sequential'",
];

/// Begins what makes and fills tables, when no other process does so or moves a shard.
async fn one_at_a_time(tx: &mut PgConnection) -> Result<(), sqlx::Error> {
    for statement in BEFORE {
        sqlx::raw_sql(*statement).execute(&mut *tx).await?;
    }
    sqlx::query("SELECT pg_advisory_xact_lock($1)").bind(LOCK).execute(tx).await.map(drop)
}

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
    #[error("{0} is no shard: belvedere shards lists them")]
    NoShard(u8),
    #[error("shard {0} has one collection at most: a collection is on one node as a whole")]
    OneCollection(u8),
    #[error("shard {0} can't be split while an index of a field is built: try again later")]
    BuildingIndex(u8),
    #[error(
        "a write to shard {number} has not ended in time, so nothing was changed: try again in a minute. {reason}"
    )]
    Writing { number: u8, reason: String },
    #[error("a database has {SHARD_NUMBERS} numbers for shards, and all of them are taken")]
    NoNumber,
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
