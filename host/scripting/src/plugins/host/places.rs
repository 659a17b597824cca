//! Places of calls that wait for other servers or write to the database, so that neither a tenant nor a plugin occupies them
//! all.

use std::time::Duration;

use crate::plugins::limits;
use belvedere_wasm::sandbox::outbound_places;
use belvedere_web::fair_share::{Bounds, FairPool, Full, Place, Tenant};

/// The places of all calls. Cheap to clone.
#[derive(Clone, Debug)]
pub(in crate::plugins) struct HostPlaces {
    /// Places for requests: half of them for one tenant.
    http_tenants: FairPool,
    /// The same places: half of them for one plugin.
    http_plugins: FairPool,
    /// Places for writes of values, some of them for one plugin.
    writes: FairPool,
}

impl HostPlaces {
    /// For calls in `instances`, half of which may have as many requests as one call sends at the same time.
    pub(in crate::plugins) fn new(instances: usize) -> Self {
        let requests = (instances / 2).max(1) * limits::HTTP_CONCURRENT;
        let waiting = instances * limits::HTTP_CONCURRENT;
        let writes = Bounds {
            places: limits::KV_WRITERS,
            per_tenant: limits::KV_WRITERS_PER_PLUGIN,
            // A call writes one value at a time.
            waiting: instances,
            waiting_per_tenant: instances,
            patience: limits::QUEUE_WAIT,
        };
        Self {
            http_tenants: outbound_places("plugin_http_callers", requests, waiting),
            http_plugins: outbound_places("plugin_http", requests, waiting),
            writes: FairPool::new("plugin_values", writes),
        }
    }

    /// Waits for the places of a request.
    pub(super) async fn request(
        &self,
        plugin: &str,
        tenant: &Tenant,
        patience: Duration,
    ) -> Result<(Place, Place), Full> {
        let of_tenant = self.http_tenants.enter_within(tenant, patience).await?;
        let of_plugin = self.http_plugins.enter_within(&Tenant::Domain(plugin.into()), patience).await?;
        Ok((of_tenant, of_plugin))
    }

    /// Waits for the place of a write.
    pub(super) async fn write(&self, plugin: &str, patience: Duration) -> Result<Place, Full> {
        self.writes.enter_within(&Tenant::Domain(plugin.into()), patience).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn no_plugin_and_no_tenant_takes_all_places() {
        let places = HostPlaces::new(4);
        let (a, b) = (Tenant::client("a"), Tenant::client("b"));
        let patience = Duration::from_secs(1);
        let mut held = Vec::new();
        while let Ok(place) = places.request("steam", &a, patience).await {
            held.push(place);
        }
        assert_eq!(held.len(), limits::HTTP_CONCURRENT);
        assert!(places.request("xbox", &a, patience).await.is_err(), "a has its half");
        assert!(places.request("steam", &b, patience).await.is_err(), "steam has its half");
        let _other = places.request("xbox", &b, patience).await.unwrap();
        let mut writes = Vec::new();
        while let Ok(place) = places.write("steam", patience).await {
            writes.push(place);
        }
        assert_eq!(writes.len(), limits::KV_WRITERS_PER_PLUGIN);
        let _other = places.write("xbox", patience).await.unwrap();
    }
}
