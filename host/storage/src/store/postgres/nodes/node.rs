//! A node with its pools.

use std::fmt;
use std::sync::Arc;

use sqlx::ConnectOptions as _;
use sqlx::postgres::PgConnectOptions;

use super::views;
use crate::store::postgres::{PoolSizes, Postgres, ReadPools};
use crate::store::read_pool::{Progress, ServerKind, Service, Unused};

/// The place of a node in the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Address {
    /// Citus's number of it.
    pub(super) group: i32,
    pub(super) host: String,
    pub(super) port: u16,
}

pub(in crate::store::postgres) struct Node {
    pub(super) address: Address,
    pub(super) service: Arc<Service>,
    pub(super) options: PgConnectOptions,
    read_pools: ReadPools,
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The options may contain a password.
        f.debug_struct("Node").field("service", &self.service).finish_non_exhaustive()
    }
}

impl Node {
    /// A node with the name and password of the coordinator's connections.
    pub(super) fn new(coordinator: &Postgres, address: Address) -> Self {
        let service = Arc::new(Service::new(ServerKind::Node, format!("{}:{}", address.host, address.port)));
        let options = (*coordinator.pool.connect_options()).clone();
        let options = options.host(&address.host).port(address.port).disable_statement_logging();
        let sizes = PoolSizes::of(coordinator.connections);
        let of_reads = options.clone().options([("search_path", views::SEARCH_PATH)]);
        let read_pools = coordinator.read_pools.elsewhere(&of_reads, sizes, &service);
        Self { address, service, options, read_pools }
    }

    pub(in crate::store::postgres) fn read_pools(&self) -> &ReadPools {
        &self.read_pools
    }

    pub(super) async fn close(&self) {
        self.service.set(Err(Unused::Ending), Progress::default());
        self.read_pools.close().await;
    }
}
