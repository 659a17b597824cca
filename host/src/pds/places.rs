//! Places for calls to PDSs. They are apart from those of scripts' own requests: slow servers that scripts call delay no
//! write, and a slow PDS delays no script.

use std::time::Duration;

use url::Url;

use super::PdsError;
use crate::fair_share::{Bounds, FairPool, Place, Tenant};

/// How long a call waits for a place. A PDS answers a write in a fraction of a second, so this is many turns.
const PATIENCE: Duration = Duration::from_secs(5);

/// Calls at once. Each holds a record or a commit, and at worst a blob of an upload.
const CALLS: usize = 128;

/// Of one tenant's calls at once, those to one PDS operator. With [`CALLS`] and half of them for a tenant, a slow PDS
/// takes a quarter of what a tenant has.
const CALLS_TO_ONE: usize = 16;

const BY_TENANT: Bounds = Bounds {
    places: CALLS,
    per_tenant: CALLS / 2,
    waiting: 4 * CALLS,
    waiting_per_tenant: CALLS,
    patience: PATIENCE,
};

/// Calls wait here before they count in [`BY_TENANT`], so that calls to a slow PDS hold nothing that others need.
const BY_ROUTE: Bounds = Bounds {
    // As many as may hold a place of the tenant's pool, or wait for one.
    places: CALLS + 4 * CALLS,
    per_tenant: CALLS_TO_ONE,
    waiting: 4 * CALLS,
    waiting_per_tenant: 4 * CALLS_TO_ONE,
    patience: PATIENCE,
};

/// Shared by all calls to PDSs. Cheap to clone.
#[derive(Clone, Debug)]
pub struct PdsPlaces {
    routes: FairPool,
    tenants: FairPool,
}

/// The right to one call; dropping it gives it back.
#[derive(Debug)]
pub(super) struct CallPlace {
    _tenant: Place,
    _route: Place,
}

impl Default for PdsPlaces {
    fn default() -> Self {
        Self { routes: FairPool::new("pds_routes", BY_ROUTE), tenants: FairPool::new("pds", BY_TENANT) }
    }
}

impl PdsPlaces {
    /// Calls of one tenant to one PDS operator at once.
    #[cfg(test)]
    pub(super) fn most_to_one() -> usize {
        CALLS_TO_ONE
    }

    /// A place for a call of `tenant` to the PDS at an origin.
    pub(super) async fn enter(&self, tenant: &Tenant, origin: &str) -> Result<CallPlace, PdsError> {
        let url = Url::parse(origin).ok();
        let route = tenant.route_to(url.as_ref().and_then(Url::host_str).unwrap_or(origin));
        let route = self.routes.enter(&route).await?;
        Ok(CallPlace { _tenant: self.tenants.enter(tenant).await?, _route: route })
    }
}
