//! Reads where shards are, and looks at the nodes that have them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use sqlx::PgConnection;
use tokio_util::sync::CancellationToken;

use super::node::{Address, Node};
use super::{Known, LOCATE_EVERY, Nodes, script_tables, views};
use crate::store::lost::is_of_node;
use crate::store::partitions::{Partition, shard_numbers};
use crate::store::postgres::Postgres;
use crate::store::read_pool::position::Position;
use crate::store::read_pool::{Probe, Progress, Unused, Watched, watch};

/// The places of the tables `$1`, by their places in the list.
const PLACES: &str = "SELECT t.at - 1, n.groupid, n.nodename, n.nodeport \
     FROM unnest($1::text[]) WITH ORDINALITY t (name, at) JOIN pg_dist_shard s ON s.logicalrelid = to_regclass(t.name) \
     JOIN pg_dist_placement p ON p.shardid = s.shardid JOIN pg_dist_node n ON n.groupid = p.groupid AND n.noderole = 'primary'";

/// The number of the server in its cluster, and all servers of the cluster as it knows them.
const IDENTITY: &str = "SELECT (SELECT groupid FROM pg_dist_local_group), (SELECT string_agg(concat_ws(' ', nodeid, groupid, \
     nodename, nodeport), ',' ORDER BY nodeid) FROM pg_dist_node)";

/// Time that the coordinator has to connect to a node.
const COORDINATOR_TIMEOUT: Duration = Duration::from_secs(2);

pub(super) struct Watch<'a> {
    coordinator: &'a Postgres,
    nodes: &'a Nodes,
    probes: HashMap<Address, Probe>,
    /// The servers of the cluster as the coordinator knows them.
    cluster: String,
    located: Option<Instant>,
    /// The coordinator has the password that scripts' tables need.
    has_password: bool,
}

impl<'a> Watch<'a> {
    pub(super) fn new(coordinator: &'a Postgres, nodes: &'a Nodes) -> Self {
        Self {
            coordinator,
            nodes,
            probes: HashMap::new(),
            cluster: String::new(),
            located: None,
            has_password: false,
        }
    }

    /// Watches until `stop` is cancelled.
    pub(super) async fn run(mut self, stop: CancellationToken) {
        watch(&stop, &mut self).await;
    }

    /// Until it succeeds once also when they are not outdated, because the password may be.
    async fn define_script_tables(&mut self) {
        let (coordinator, login) = (self.coordinator, &self.nodes.login);
        let defining = async {
            if !self.has_password || script_tables::are_outdated(coordinator).await? {
                script_tables::define(coordinator, login).await?;
            }
            Ok::<_, sqlx::Error>(())
        };
        match defining.await {
            Ok(()) => self.has_password = true,
            Err(error) => tracing::debug!(%error, "the tables of scripts' views can't be defined"),
        }
    }

    async fn locate(&mut self) -> Result<(), sqlx::Error> {
        let coordinator = self.coordinator;
        let (_, cluster): (i32, String) = sqlx::query_as(IDENTITY).fetch_one(coordinator.reader()).await?;
        let numbers = shard_numbers(coordinator.reader()).await?;
        coordinator.ids.set_shards(&numbers);
        let tables: Vec<&str> = numbers.iter().map(|number| Partition::Shard(*number).records()).collect();
        let places: Vec<(i64, i32, String, i32)> =
            sqlx::query_as(PLACES).bind(tables).fetch_all(coordinator.reader()).await?;
        let mut found = Known::default();
        let before = self.nodes.read(|known| known.all.clone());
        for (at, group, host, port) in places {
            let shard = usize::try_from(at).ok().and_then(|at| numbers.get(at));
            let (Some(shard), Ok(port)) = (shard, u16::try_from(port)) else { continue };
            if group == COORDINATOR {
                continue;
            }
            let address = Address { group, host, port };
            let is_it = |node: &&Arc<Node>| node.address == address;
            let node = match found.all.iter().chain(&before).find(is_it) {
                Some(node) => Arc::clone(node),
                None => Arc::new(Node::new(coordinator, address)),
            };
            if !found.all.iter().any(|other| Arc::ptr_eq(other, &node)) {
                found.all.push(Arc::clone(&node));
            }
            found.of_shards.insert(*shard, node);
        }
        self.cluster = cluster;
        for gone in self.nodes.replace(found) {
            gone.close().await;
        }
        Ok(())
    }
}

impl Watched for Watch<'_> {
    /// Looks at each node.
    async fn look(&mut self) {
        let locates = self.located.is_none_or(|at| at.elapsed() >= LOCATE_EVERY);
        if locates {
            match self.locate().await {
                Ok(()) => {
                    self.define_script_tables().await;
                    self.located = Some(Instant::now());
                }
                // Reads go on where they went before.
                Err(error) => tracing::debug!(%error, "the coordinator can't be asked where shards are"),
            }
        }
        let all = self.nodes.read(|known| known.all.clone());
        let mut probes = std::mem::take(&mut self.probes);
        let looks = all.into_iter().map(|node| {
            let probe = probes.remove(&node.address).unwrap_or_else(|| Probe::new(node.options.clone()));
            look_at(self.coordinator, node, probe, &self.cluster, locates)
        });
        self.probes = join_all(looks).await.into_iter().collect();
    }
}

/// Whether the coordinator can connect to a node. `true` when it does not say: then its reads show it.
async fn reaches(coordinator: &Postgres, Address { host, port, .. }: &Address) -> bool {
    let sql = "SELECT citus_check_connection_to_node($1, $2)";
    let query = sqlx::query_scalar(sql).bind(host).bind(i32::from(*port));
    match tokio::time::timeout(COORDINATOR_TIMEOUT, query.fetch_one(coordinator.reader())).await {
        Ok(Ok(reaches)) => reaches,
        // It was given up.
        Ok(Err(error)) if is_of_node(&error) => false,
        Ok(Err(error)) => {
            tracing::debug!(%error, "the coordinator can't be asked whether it reaches a node");
            true
        }
        // It waits for an answer of the node.
        Err(_) => false,
    }
}

/// Citus's number of the coordinator.
const COORDINATOR: i32 = 0;

/// `all`: also at its views, which are made before the node is used.
async fn look_at(
    coordinator: &Postgres,
    node: Arc<Node>,
    mut probe: Probe,
    cluster: &str,
    all: bool,
) -> (Address, Probe) {
    let ask = async |connection: &mut PgConnection| {
        let query = sqlx::query_as::<_, (i32, Option<String>)>(IDENTITY);
        let identity = query.fetch_one(&mut *connection).await?;
        Ok((identity, all && views::are_outdated(connection).await?))
    };
    let result = match probe.look(ask).await {
        Ok(((group, Some(known)), are_outdated)) if group == node.address.group && known == cluster => {
            if are_outdated {
                views::define(&node.options).await;
            }
            Ok(Position(0))
        }
        Ok(_) => Err(Unused::OtherNode),
        Err(reason) => Err(reason),
    };
    let is_silent = matches!(result, Err(Unused::Unreachable(_) | Unused::Silent));
    node.service.set_lost(is_silent && !reaches(coordinator, &node.address).await);
    node.service.set(result, Progress::default());
    (node.address.clone(), probe)
}
