//! The access of scripts to other servers: the guarded client, and bounds on how many runs may wait for it at once.

use crate::scripts::limits;
use belvedere_wasm::sandbox::outbound_permits;
use belvedere_web::fair_share::{FairPool, Full, Permit, Tenant};
use belvedere_web::net;

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
        Self {
            net,
            exchanges: outbound_permits("script_http", (instances / 2).max(1), instances),
            blobs: outbound_permits("script_blobs", limits::BLOB_RUNS, instances),
        }
    }

    pub(in crate::scripts) fn client(&self) -> &net::Client {
        &self.net
    }

    /// A permit among the runs that hold blobs.
    pub(in crate::scripts) async fn blob_permit(&self, tenant: &Tenant) -> Result<Permit, Full> {
        self.blobs.enter(tenant).await
    }

    /// A permit among the runs that wait for other servers.
    pub async fn permit(&self, tenant: &Tenant) -> Result<Permit, Full> {
        self.exchanges.enter(tenant).await
    }
}
