//! Places of runs and calls that wait for other servers.
//!
//! There is no bound per called server: a slow server already delays only the tenant that calls it, and with such a
//! bound one tenant could keep all others from a server.

use std::time::Duration;

use belvedere_web::fair_share::{Bounds, FairPool};

/// The longest wait for a place. The waiting run occupies an instance meanwhile.
const PLACE_WAIT: Duration = Duration::from_secs(5);

/// A pool of `places`, half of them for one tenant, for runs in `instances`. `name` is its label in the metrics.
pub fn outbound_places(name: &'static str, places: usize, instances: usize) -> FairPool {
    // A run waits for one place at a time, so no more wait than there are instances.
    FairPool::new(name, Bounds::half_per_tenant(places, instances.max(1), PLACE_WAIT))
}
