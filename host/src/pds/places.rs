//! Places for calls to PDSs. They are apart from those of scripts' own requests: slow servers that scripts call delay no
//! write, and a slow PDS delays no script.

use std::time::Duration;

use url::Url;

use super::PdsError;
use crate::atproto::Did;
use crate::fair_share::{Bounds, FairPool, Place, Tenant};

/// How long a call waits for a place. A PDS answers a write in a fraction of a second, so this is many turns.
const PATIENCE: Duration = Duration::from_secs(5);

/// Calls at once, without uploads. Each holds a record or a commit.
const CALLS: usize = 128;

/// Of one tenant's calls at once, those to one PDS operator. With [`CALLS`] and half of them for a tenant, a slow PDS
/// takes a quarter of what a tenant has.
const CALLS_TO_ONE: usize = 16;

/// Uploads at once. They may take minutes, of a slow caller as well as of a slow PDS, so that they have places apart.
const UPLOADS: usize = 64;

/// Of these, uploads of one account: a page that sends several pictures sends them two by two.
const UPLOADS_OF_ONE: usize = 2;

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

const UPLOADS_BY_TENANT: Bounds = Bounds {
    places: UPLOADS,
    per_tenant: UPLOADS / 2,
    waiting: 4 * UPLOADS,
    waiting_per_tenant: UPLOADS,
    patience: PATIENCE,
};

/// As [`BY_ROUTE`], for [`UPLOADS_BY_TENANT`].
const UPLOADS_BY_ACCOUNT: Bounds = Bounds {
    places: UPLOADS + 4 * UPLOADS,
    per_tenant: UPLOADS_OF_ONE,
    waiting: 4 * UPLOADS,
    waiting_per_tenant: 4 * UPLOADS_OF_ONE,
    patience: PATIENCE,
};

/// Shared by all calls to PDSs. Cheap to clone.
#[derive(Clone, Debug)]
pub struct PdsPlaces {
    routes: FairPool,
    tenants: FairPool,
    accounts_uploading: FairPool,
    tenants_uploading: FairPool,
}

/// The right to one call; dropping it gives it back.
#[derive(Debug)]
pub(super) struct CallPlace {
    _tenant: Place,
    /// Of the narrower pool, that of a route or an account.
    _narrow: Place,
}

impl Default for PdsPlaces {
    fn default() -> Self {
        Self {
            routes: FairPool::new("pds_routes", BY_ROUTE),
            tenants: FairPool::new("pds", BY_TENANT),
            accounts_uploading: FairPool::new("pds_uploads_of_accounts", UPLOADS_BY_ACCOUNT),
            tenants_uploading: FairPool::new("pds_uploads", UPLOADS_BY_TENANT),
        }
    }
}

impl PdsPlaces {
    /// Calls of one tenant to one PDS operator at once, and uploads of one account.
    #[cfg(test)]
    pub(super) fn most_of_one() -> (usize, usize) {
        (CALLS_TO_ONE, UPLOADS_OF_ONE)
    }

    /// A place for a call of `tenant` to the PDS at an origin.
    pub(super) async fn enter(&self, tenant: &Tenant, origin: &str) -> Result<CallPlace, PdsError> {
        let url = Url::parse(origin).ok();
        let route = tenant.route_to(url.as_ref().and_then(Url::host_str).unwrap_or(origin));
        let route = self.routes.enter(&route).await?;
        Ok(CallPlace { _tenant: self.tenants.enter(tenant).await?, _narrow: route })
    }

    /// A place for an upload of `tenant` in the name of an account.
    pub(super) async fn enter_upload(&self, tenant: &Tenant, account: &Did) -> Result<CallPlace, PdsError> {
        let account = self.accounts_uploading.enter(&Tenant::Account(account.as_str().into())).await?;
        Ok(CallPlace { _tenant: self.tenants_uploading.enter(tenant).await?, _narrow: account })
    }
}
