//! Permits of calls that wait for other servers or write to the database, so that neither a tenant nor a plugin occupies them
//! all.

use std::time::Duration;

use crate::plugins::limits;
use belvedere_wasm::sandbox::outbound_permits;
use belvedere_web::fair_share::{Bounds, FairPool, Full, Permit, Tenant};

/// The permits of all calls. Cheap to clone.
#[derive(Clone, Debug)]
pub(in crate::plugins) struct HostPermits {
    /// Permits for requests: half of them for one tenant.
    http_tenants: FairPool,
    /// The same permits: half of them for one plugin.
    http_plugins: FairPool,
    /// Permits for writes of values, some of them for one plugin.
    writes: FairPool,
}

impl HostPermits {
    /// For calls in `instances`, half of which may have as many requests as one call sends at the same time.
    pub(in crate::plugins) fn new(instances: usize) -> Self {
        let requests = (instances / 2).max(1) * limits::HTTP_CONCURRENT;
        let waiting = instances * limits::HTTP_CONCURRENT;
        let writes = Bounds {
            permits: limits::KV_WRITERS,
            per_tenant: limits::KV_WRITERS_PER_PLUGIN,
            // A call writes one value at a time.
            waiting: instances,
            waiting_per_tenant: instances,
            max_wait: limits::QUEUE_WAIT,
        };
        Self {
            http_tenants: outbound_permits("plugin_http_callers", requests, waiting),
            http_plugins: outbound_permits("plugin_http", requests, waiting),
            writes: FairPool::new("plugin_values", writes),
        }
    }

    /// Waits for the permits of a request.
    pub(super) async fn request(
        &self,
        plugin: &str,
        tenant: &Tenant,
        max_wait: Duration,
    ) -> Result<(Permit, Permit), Full> {
        let of_tenant = self.http_tenants.enter_within(tenant, max_wait).await?;
        let of_plugin = self.http_plugins.enter_within(&Tenant::Domain(plugin.into()), max_wait).await?;
        Ok((of_tenant, of_plugin))
    }

    /// Waits for the permit of a write.
    pub(super) async fn write(&self, plugin: &str, max_wait: Duration) -> Result<Permit, Full> {
        self.writes.enter_within(&Tenant::Domain(plugin.into()), max_wait).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn no_plugin_and_no_tenant_takes_all_permits() {
        let permits = HostPermits::new(4);
        let (a, b) = (Tenant::client("a"), Tenant::client("b"));
        let max_wait = Duration::from_secs(1);
        let mut held = Vec::new();
        while let Ok(permit) = permits.request("steam", &a, max_wait).await {
            held.push(permit);
        }
        assert_eq!(held.len(), limits::HTTP_CONCURRENT);
        assert!(permits.request("xbox", &a, max_wait).await.is_err(), "a has its half");
        assert!(permits.request("steam", &b, max_wait).await.is_err(), "steam has its half");
        let _other = permits.request("xbox", &b, max_wait).await.unwrap();
        let mut writes = Vec::new();
        while let Ok(permit) = permits.write("steam", max_wait).await {
            writes.push(permit);
        }
        assert_eq!(writes.len(), limits::KV_WRITERS_PER_PLUGIN);
        let _other = permits.write("xbox", max_wait).await.unwrap();
    }
}
