//! Bounds the concurrent calls to PDSs. These pools are separate from those of scripts' own requests, so that slow
//! servers that scripts call don't delay writes, and a slow PDS does not delay scripts.

use std::time::Duration;

use url::Url;

use super::PdsError;
use belvedere_protocol::atproto::Did;
use belvedere_web::fair_share::{Bounds, FairPool, Permit, Tenant};

/// Time that a call waits for a permit. A PDS answers a write in a fraction of a second.
const MAX_WAIT: Duration = Duration::from_secs(5);

/// Concurrent calls, without uploads. Each keeps a record or a commit in memory.
const MAX_CALLS: usize = 128;

/// Concurrent calls of one tenant to one PDS operator: a quarter of the tenant's share, which is half of [`MAX_CALLS`].
const MAX_CALLS_PER_PDS: usize = 16;

/// Concurrent uploads. They may take minutes because of a slow client or a slow PDS, so they have pools of their own.
const MAX_UPLOADS: usize = 64;

/// Concurrent uploads of one account.
const MAX_UPLOADS_PER_ACCOUNT: usize = 2;

const BY_TENANT: Bounds = Bounds {
    permits: MAX_CALLS,
    per_tenant: MAX_CALLS / 2,
    waiting: 4 * MAX_CALLS,
    waiting_per_tenant: MAX_CALLS,
    max_wait: MAX_WAIT,
};

/// Calls enter this pool before that of [`BY_TENANT`], so that calls to a slow PDS wait without taking permits of the
/// tenant.
const BY_ROUTE: Bounds = Bounds {
    // The number of calls that may be in the tenants' pool or wait for it.
    permits: MAX_CALLS + 4 * MAX_CALLS,
    per_tenant: MAX_CALLS_PER_PDS,
    waiting: 4 * MAX_CALLS,
    waiting_per_tenant: 4 * MAX_CALLS_PER_PDS,
    max_wait: MAX_WAIT,
};

const UPLOADS_BY_TENANT: Bounds = Bounds {
    permits: MAX_UPLOADS,
    per_tenant: MAX_UPLOADS / 2,
    waiting: 4 * MAX_UPLOADS,
    waiting_per_tenant: MAX_UPLOADS,
    max_wait: MAX_WAIT,
};

/// Like [`BY_ROUTE`], for [`UPLOADS_BY_TENANT`].
const UPLOADS_BY_ACCOUNT: Bounds = Bounds {
    permits: MAX_UPLOADS + 4 * MAX_UPLOADS,
    per_tenant: MAX_UPLOADS_PER_ACCOUNT,
    waiting: 4 * MAX_UPLOADS,
    waiting_per_tenant: 4 * MAX_UPLOADS_PER_ACCOUNT,
    max_wait: MAX_WAIT,
};

/// The pools of concurrent calls to PDSs. Cheap to clone.
#[derive(Clone, Debug)]
pub struct PdsPools {
    routes: FairPool,
    tenants: FairPool,
    accounts_uploading: FairPool,
    tenants_uploading: FairPool,
}

/// The permits of one call; dropping it releases them.
#[derive(Debug)]
pub(super) struct CallPermits {
    _tenant: Permit,
    /// The permit in the pool of the route or account.
    _route_or_account: Permit,
}

impl Default for PdsPools {
    fn default() -> Self {
        Self {
            routes: FairPool::new("pds_routes", BY_ROUTE),
            tenants: FairPool::new("pds", BY_TENANT),
            accounts_uploading: FairPool::new("pds_uploads_of_accounts", UPLOADS_BY_ACCOUNT),
            tenants_uploading: FairPool::new("pds_uploads", UPLOADS_BY_TENANT),
        }
    }
}

impl PdsPools {
    /// The bounds of concurrent calls of a tenant to one PDS operator, and of uploads of an account.
    #[cfg(test)]
    pub(super) fn max_per_route_and_account() -> (usize, usize) {
        (MAX_CALLS_PER_PDS, MAX_UPLOADS_PER_ACCOUNT)
    }

    /// Waits for the permits of a call of `tenant` to the PDS at an origin.
    pub(super) async fn enter(&self, tenant: &Tenant, origin: &str) -> Result<CallPermits, PdsError> {
        let url = Url::parse(origin).ok();
        let route = tenant.route_to(url.as_ref().and_then(Url::host_str).unwrap_or(origin));
        let route = self.routes.enter(&route).await?;
        Ok(CallPermits { _tenant: self.tenants.enter(tenant).await?, _route_or_account: route })
    }

    /// Waits for the permits of an upload of `tenant` to the repo of an account.
    pub(super) async fn enter_upload(&self, tenant: &Tenant, account: &Did) -> Result<CallPermits, PdsError> {
        let account = self.accounts_uploading.enter(&Tenant::Account(account.as_str().into())).await?;
        Ok(CallPermits { _tenant: self.tenants_uploading.enter(tenant).await?, _route_or_account: account })
    }
}
