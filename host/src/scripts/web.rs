//! The way of scripts to other servers: the guarded client, and how many runs may wait for it at once.
//!
//! There is no cap per server that is called: one tenant's slow server already costs that tenant alone, and with such
//! a cap one tenant could keep all others from a server.

use std::time::Duration;

use super::limits;
use crate::fair_share::{Bounds, FairPool, Full, Place, Tenant};
use crate::net;

/// How long a run waits for its turn to wait for others. It holds an instance meanwhile.
const TURN_WAIT: Duration = Duration::from_secs(5);

/// What `http.*` and the blobs of `atproto.*` go through. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Web {
    net: net::Client,
    exchanges: FairPool,
    blobs: FairPool,
}

impl Web {
    /// Half of the `instances` may wait for other servers at once, so that slow servers never take the pool from
    /// scripts that ask nobody; a tenant has half of that. Of the runs that hold blobs, a tenant has half too.
    pub fn new(net: net::Client, instances: u32) -> Self {
        let instances = instances as usize;
        // A run waits once at a time, so that no more wait than there are instances.
        let bounds = |places: usize| Bounds {
            places,
            per_tenant: places.div_ceil(2),
            waiting: instances.max(1),
            waiting_per_tenant: instances.div_ceil(2).max(1),
            patience: TURN_WAIT,
        };
        Self {
            net,
            exchanges: FairPool::new("script_http", bounds((instances / 2).max(1))),
            blobs: FairPool::new("script_blobs", bounds(limits::BLOB_RUNS)),
        }
    }

    pub(super) fn client(&self) -> &net::Client {
        &self.net
    }

    /// A place among the runs that hold blobs.
    pub(super) async fn blob_place(&self, tenant: &Tenant) -> Result<Place, Full> {
        self.blobs.enter(tenant).await
    }

    /// A place among the runs that wait for other servers.
    pub(crate) async fn turn(&self, tenant: &Tenant) -> Result<Place, Full> {
        self.exchanges.enter(tenant).await
    }
}
