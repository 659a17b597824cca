//! Permits for exports of records.

use std::time::Duration;

use belvedere_web::fair_share::{Bounds, FairPool};

/// Exports that are sent at a time. Tenants are users. Each holds a page of records in memory, and takes a permit for reads only while
/// it reads a page.
const EXPORTS: Bounds =
    Bounds { permits: 16, per_tenant: 4, waiting: 0, waiting_per_tenant: 0, max_wait: Duration::ZERO };

pub(super) fn pool() -> FairPool {
    FairPool::new("record_exports", EXPORTS)
}
