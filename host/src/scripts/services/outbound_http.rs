//! The access of scripts to other servers: the guarded client, and bounds on how many runs may wait for it at once.
//!
//! There is no bound per called server: a slow server already delays only the tenant that calls it, and with such a
//! bound one tenant could keep all others from a server.

use std::time::Duration;

use crate::fair_share::{Bounds, FairPool, Full, Place, Tenant};
use crate::net;
use crate::scripts::limits;

/// The longest that a run waits for a place. It holds an instance meanwhile.
const PLACE_WAIT: Duration = Duration::from_secs(5);

/// The client of `http.*` and of the blobs of `atproto.*`. Cheap to clone.
#[derive(Clone, Debug)]
pub struct OutboundHttp {
    net: net::Client,
    exchanges: FairPool,
    blobs: FairPool,
}

impl OutboundHttp {
    /// Runs on half of the `instances` may wait for other servers at once, so that slow servers never block scripts
    /// that call none; a tenant may have half of those runs, and half of the runs that hold blobs.
    pub fn new(net: net::Client, instances: u32) -> Self {
        let instances = instances as usize;
        // A run waits for one place at a time, so no more wait than there are instances.
        let bounds = |places: usize| Bounds {
            places,
            per_tenant: places.div_ceil(2),
            waiting: instances.max(1),
            waiting_per_tenant: instances.div_ceil(2).max(1),
            patience: PLACE_WAIT,
        };
        Self {
            net,
            exchanges: FairPool::new("script_http", bounds((instances / 2).max(1))),
            blobs: FairPool::new("script_blobs", bounds(limits::BLOB_RUNS)),
        }
    }

    pub(in crate::scripts) fn client(&self) -> &net::Client {
        &self.net
    }

    /// A place among the runs that hold blobs.
    pub(in crate::scripts) async fn blob_place(&self, tenant: &Tenant) -> Result<Place, Full> {
        self.blobs.enter(tenant).await
    }

    /// A place among the runs that wait for other servers.
    pub(crate) async fn place(&self, tenant: &Tenant) -> Result<Place, Full> {
        self.exchanges.enter(tenant).await
    }
}
