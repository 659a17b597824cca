//! The pools for reads with a time limit, of one server.

use std::sync::Arc;

use sqlx::PgConnection;
use sqlx::postgres::PgConnectOptions;

use crate::store::lost::Losses;
use crate::store::read_pool::{CONNECTION_CHECK_INTERVAL, READ_TIME_LIMIT, ReadPool, Service};
use crate::store::reads::Reads;
use crate::store::scans::{self, SCAN_TIME_LIMIT};

#[derive(Clone, Debug)]
pub(in crate::store) struct ReadPools {
    pub(in crate::store) hot: Arc<ReadPool<PgConnection>>,
    pub(in crate::store) scans: Arc<ReadPool<PgConnection>>,
    pub(in crate::store) searches: Arc<ReadPool<PgConnection>>,
}

impl ReadPools {
    /// The pools of the primary.
    pub(super) fn new(options: &PgConnectOptions, sizes: PoolSizes, losses: &Arc<Losses>) -> Self {
        let pool = |reads| Arc::new(pool(reads, options, sizes, losses));
        Self { hot: pool(Reads::Hot), scans: pool(Reads::Scans), searches: pool(Reads::Searches) }
    }

    /// The same pools of another server; these answer the reads that it can't answer.
    pub(in crate::store) fn elsewhere(
        &self,
        options: &PgConnectOptions,
        sizes: PoolSizes,
        service: &Arc<Service>,
    ) -> Self {
        let losses = Arc::default();
        let pool = |reads| {
            let pool = pool(reads, options, sizes, &losses);
            Arc::new(pool.of_other_server(Arc::clone(service), Arc::clone(self.of(reads))))
        };
        Self { hot: pool(Reads::Hot), scans: pool(Reads::Scans), searches: pool(Reads::Searches) }
    }

    pub(in crate::store) fn of(&self, reads: Reads) -> &Arc<ReadPool<PgConnection>> {
        match reads {
            Reads::Hot => &self.hot,
            Reads::Scans => &self.scans,
            Reads::Searches => &self.searches,
        }
    }

    /// The number of connections in use.
    pub(super) fn used(&self) -> usize {
        self.hot.used() + self.scans.used() + self.searches.used()
    }

    pub(in crate::store) async fn close(&self) {
        self.hot.close().await;
        self.scans.close().await;
        self.searches.close().await;
    }
}

fn pool(
    reads: Reads,
    options: &PgConnectOptions,
    sizes: PoolSizes,
    losses: &Arc<Losses>,
) -> ReadPool<PgConnection> {
    let (time_limit, size, bitmaps) = match reads {
        // Lists read an index in its order. Before the first ANALYZE the planner assumes that every collection is tiny and
        // prefers a bitmap scan with a sort.
        Reads::Hot => (READ_TIME_LIMIT, sizes.reads, "off"),
        Reads::Scans => (SCAN_TIME_LIMIT, sizes.scans, "off"),
        // An index of trigrams is only read as a bitmap.
        Reads::Searches => (SCAN_TIME_LIMIT, sizes.scans, "on"),
    };
    let timeout = format!("{}ms", time_limit.as_millis());
    let options = options.clone().options([
        ("enable_bitmapscan", bitmaps),
        ("statement_timeout", &timeout),
        ("client_connection_check_interval", CONNECTION_CHECK_INTERVAL),
    ]);
    ReadPool::new(options, size).losses(Arc::clone(losses))
}

/// Half of the connections are for hot reads and scans, half for everything else.
#[derive(Clone, Copy, Debug)]
pub(in crate::store) struct PoolSizes {
    pub(super) reads: u32,
    pub(super) scans: u32,
}

impl PoolSizes {
    pub(in crate::store) fn of(connections: u32) -> Self {
        let scans = scans::max_on_postgres(connections);
        Self { reads: (connections / 2).saturating_sub(scans).max(1), scans }
    }
}
