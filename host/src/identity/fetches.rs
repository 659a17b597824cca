//! Places for look-ups at other servers. The directory of did:plc is one host that the operator chose; the hosts of
//! did:web and of handles are the callers' to choose. Each kind has places of its own, so that slow hosts of the second
//! kind never delay the first.

use std::time::Duration;

use crate::fair_share::{Bounds, FairPool, Full, Place, Tenant};

/// Look-ups at the directory. One tenant: which caller asks is bounded where callers are known.
const PLC: Bounds = Bounds {
    // The directory answers in some 50 ms: this is 600 look-ups a second, more than it allows us.
    places: 32,
    per_tenant: 32,
    // A second's worth: a server that starts with a cold cache must not refuse its first callers.
    waiting: 512,
    waiting_per_tenant: 512,
    patience: PATIENCE,
};

/// Look-ups at hosts that callers name, by registrable domain.
const WEB: Bounds = Bounds {
    places: 32,
    // A domain that stalls every look-up until its timeout holds an eighth of the places.
    per_tenant: 4,
    waiting: 256,
    waiting_per_tenant: 16,
    patience: PATIENCE,
};

/// As long as the look-up itself may take.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(super) struct Fetches {
    plc: FairPool,
    web: FairPool,
}

impl Default for Fetches {
    fn default() -> Self {
        Self { plc: FairPool::new("did_plc", PLC), web: FairPool::new("did_web", WEB) }
    }
}

impl Fetches {
    pub(super) async fn plc(&self) -> Result<Place, Full> {
        self.plc.enter(&Tenant::Instance).await
    }

    /// A place for a host that a caller named; ports and percent-encoding are not part of its name.
    pub(super) async fn web(&self, host: &str) -> Result<Place, Full> {
        let name = host.split('%').next().unwrap_or_default();
        self.web.enter(&Tenant::of_host(name)).await
    }
}
