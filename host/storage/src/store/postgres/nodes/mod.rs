//! The nodes that have the shards of a distributed database (ADR 173): reads of a shard's records go to its node, past the
//! coordinator.
//!
//! A node knows where all shards are, so it answers a statement wherever its shard is, and where a read is sent decides only how long it
//! takes. Reads go to the coordinator while a node is not used, or has just lost the shard and this host does not know yet. Those of a node that
//! the coordinator can't reach either fail at once, or they would take the places of others until they fail there; other statements of the coordinator
//! are given up while a node is lost ([`lent_connection`](super::lent_connection)).

mod node;
mod script_tables;
mod views;
mod watch;

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use sqlx::postgres::PgConnectOptions;
use tokio_util::sync::CancellationToken;

#[cfg(test)]
use self::node::Address;
use self::node::Node;
use self::script_tables::Login;
use self::watch::Watch;
use super::Postgres;
use crate::store::read_pool::{ServerStatus, Watched as _};
use crate::store::{Db, StoreError};

/// Interval at which the places of shards are read. A shard that was moved is read through the node that had it until then.
const LOCATE_EVERY: Duration = Duration::from_secs(5);

/// The nodes as this host knows them; none at first.
#[derive(Debug)]
pub(in crate::store) struct Nodes {
    known: RwLock<Known>,
    login: Login,
}

#[derive(Debug, Default)]
struct Known {
    all: Vec<Arc<Node>>,
    /// The nodes of shards by their numbers, but for those on the coordinator.
    of_shards: BTreeMap<u8, Arc<Node>>,
}

/// A node, for operators.
#[derive(Clone, Debug)]
pub struct NodeStatus {
    pub server: ServerStatus,
    /// The numbers of the shards that it has.
    pub shards: Vec<u8>,
    /// Whether neither this host nor the coordinator can reach it: its shards can't be read or written.
    pub is_lost: bool,
}

impl Nodes {
    /// `url` and `options` describe the coordinator.
    pub(super) fn new(url: &str, options: &PgConnectOptions) -> Self {
        Self { known: RwLock::default(), login: Login::of(url, options) }
    }

    /// The node of a shard; `None` if the coordinator has it, and while it is not known.
    pub(super) fn of(&self, shard: u8) -> Option<Arc<Node>> {
        self.read(|known| known.of_shards.get(&shard).cloned())
    }

    /// Whether neither this host nor the coordinator can reach one of them.
    pub(super) fn have_lost(&self) -> bool {
        self.read(|known| known.all.iter().any(|node| node.service.is_lost()))
    }

    fn read<T>(&self, read: impl FnOnce(&Known) -> T) -> T {
        // It is replaced as a whole.
        read(&self.known.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes what was found, and returns the nodes that are gone.
    fn replace(&self, found: Known) -> Vec<Arc<Node>> {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *known, found);
        before
            .all
            .into_iter()
            .filter(|node| !known.all.iter().any(|other| Arc::ptr_eq(node, other)))
            .collect()
    }

    pub(super) async fn close(&self) {
        for node in self.read(|known| known.all.clone()) {
            node.close().await;
        }
    }
}

#[cfg(test)]
impl Nodes {
    /// One node, which is never asked.
    pub(super) fn with_one(db: &Postgres, url: &str) -> Self {
        let this = Self::new(url, &db.pool.connect_options());
        let address = Address { group: 1, host: "127.0.0.1".to_owned(), port: 5432 };
        this.replace(Known { all: vec![Arc::new(Node::new(db, address))], ..Known::default() });
        this
    }

    pub(super) fn set_lost(&self, is_lost: bool) {
        self.read(|known| known.all.iter().for_each(|node| node.service.set_lost(is_lost)));
    }
}

/// Makes room for migrations, which change tables and views of scripts: hosts define again what is made from them.
pub(in crate::store) async fn prepare_migrations(coordinator: &Postgres) -> Result<(), sqlx::Error> {
    views::remove(coordinator).await?;
    script_tables::outdate(coordinator).await
}

impl Db {
    /// Watches the nodes that have shards, and reads from those that are well, until `stop` is cancelled. Returns at once for a database
    /// that is not in shards.
    pub async fn watch_nodes(&self, stop: CancellationToken) {
        let Self::Postgres(db) = self else { return };
        let Some(nodes) = &db.nodes else { return };
        Watch::new(db, nodes).run(stop).await;
    }

    /// Looks at the nodes once, for a process that does not watch them.
    pub async fn look_at_nodes(&self) -> Vec<NodeStatus> {
        if let Self::Postgres(db) = self
            && let Some(nodes) = &db.nodes
        {
            Watch::new(db, nodes).look().await;
        }
        self.nodes()
    }

    /// Whether scripts' SQL can read the index. In shards a host defines the tables that it reads, if it may.
    ///
    /// # Errors
    /// When the database can't be asked.
    pub async fn has_script_tables(&self) -> Result<bool, StoreError> {
        let Self::Postgres(db) = self else { return Ok(true) };
        if db.nodes.is_none() {
            return Ok(true);
        }
        Ok(sqlx::query_scalar(script_tables::ARE_DEFINED).fetch_one(db.reader()).await?)
    }

    /// The nodes that have shards as this process knows them; empty for a database that is not in shards.
    pub fn nodes(&self) -> Vec<NodeStatus> {
        let Self::Postgres(db) = self else { return Vec::new() };
        let Some(nodes) = &db.nodes else { return Vec::new() };
        nodes.read(|known| {
            let status = |node: &Arc<Node>| NodeStatus {
                server: node.service.status(),
                is_lost: node.service.is_lost(),
                shards: known
                    .of_shards
                    .iter()
                    .filter(|(_, of)| Arc::ptr_eq(of, node))
                    .map(|(shard, _)| *shard)
                    .collect(),
            };
            known.all.iter().map(status).collect()
        })
    }
}
