//! Bounds the concurrent look-ups at other servers. The operator chooses the one directory of did:plc; callers choose
//! the hosts of did:web and of handles. Each kind has a pool of its own, so that slow hosts named by callers never
//! delay look-ups at the directory. Reads of records and tasks have pools of their own, so that they never delay logins.

use std::time::Duration;

use belvedere_web::fair_share::{Bounds, FairPool, Full, Permit, Tenant};

/// Look-ups at the directory. They share one tenant: the callers' shares are bounded where the caller is known.
const PLC: Bounds = Bounds {
    // The directory answers within about 50 ms: this is 600 look-ups a second, more than its rate limit.
    permits: 32,
    per_tenant: 32,
    // The look-ups of a second: a server with a cold cache must not refuse its first callers.
    waiting: 512,
    waiting_per_tenant: 512,
    max_wait: MAX_WAIT,
};

/// Look-ups at hosts that callers name. Tenants are registrable domains.
const WEB: Bounds = Bounds {
    permits: 32,
    // A domain that stalls every look-up until its timeout occupies an eighth of the pool.
    per_tenant: 4,
    waiting: 256,
    waiting_per_tenant: 16,
    max_wait: MAX_WAIT,
};

/// Look-ups for reads of records, at the directory and at hosts that callers name. Half as many permits as those of
/// logins have.
const READS_PERMITS: usize = 16;

/// Look-ups of tasks at hosts that repos name. A domain may have a host for each of its accounts: its look-ups wait for
/// each other.
const TASKS_WEB: Bounds = Bounds {
    permits: WEB.permits,
    per_tenant: 8,
    waiting: 1_024,
    waiting_per_tenant: 1_024,
    max_wait: Duration::from_mins(1),
};

/// Time that a look-up waits for a permit: as long as the look-up itself may take.
const MAX_WAIT: Duration = Duration::from_secs(10);

/// The pools of concurrent look-ups.
#[derive(Debug)]
pub(super) struct LookupPools {
    plc: FairPool,
    web: FairPool,
}

impl LookupPools {
    pub(super) fn for_callers() -> Self {
        Self { plc: FairPool::new("did_plc", PLC), web: FairPool::new("did_web", WEB) }
    }

    pub(super) fn for_reads() -> Self {
        let plc = Bounds { permits: READS_PERMITS, per_tenant: READS_PERMITS, ..PLC };
        let web = Bounds { permits: READS_PERMITS, ..WEB };
        Self { plc: FairPool::new("reads_did_plc", plc), web: FairPool::new("reads_did_web", web) }
    }

    /// `permits` is how many look-ups the tasks have in progress.
    pub(super) fn for_tasks(permits: usize) -> Self {
        let plc = Bounds { permits, per_tenant: permits, ..PLC };
        let web = Bounds { permits, ..TASKS_WEB };
        Self { plc: FairPool::new("tasks_did_plc", plc), web: FairPool::new("tasks_did_web", web) }
    }

    /// Enters the pool for a look-up at the directory.
    pub(super) async fn plc(&self) -> Result<Permit, Full> {
        self.plc.enter(&Tenant::Instance).await
    }

    /// Enters the pool for a look-up at a host that a caller named. `host` may have a percent-encoded port, which is
    /// ignored.
    pub(super) async fn web(&self, host: &str) -> Result<Permit, Full> {
        let name = host.split('%').next().unwrap_or_default();
        self.web.enter(&Tenant::of_host(name)).await
    }
}
