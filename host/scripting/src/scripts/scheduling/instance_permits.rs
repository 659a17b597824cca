//! Bounds how many runs have an instance at the same time: each run holds a permit in a [`FairPool`], and with it one
//! instance.
//!
//! A run that calls a method through `xrpc.*` keeps its permit while the called method's script runs in another. So
//! each depth of nesting has a pool of its own (`docs/adr/0027-permits-by-depth.md`): a run waits only for permits of
//! deeper runs, and the deepest wait for none. However full the pools are, the runs in them end, and waiting runs
//! never form a cycle.

use std::array;
use std::time::Duration;

use crate::scripts::limits;
use belvedere_web::fair_share::{Bounds, FairPool, Full, Permit, Tenant};

const DEPTHS: usize = limits::XRPC_DEPTH as usize;

/// Names of the pools in the metrics, by depth of nesting.
const NAMES: [&str; DEPTHS] = [
    "nested_scripts_1",
    "nested_scripts_2",
    "nested_scripts_3",
    "nested_scripts_4",
    "nested_scripts_5",
    "nested_scripts_6",
    "nested_scripts_7",
    "nested_scripts_8",
];

/// The fewest permits of one depth: with two, a tenant that holds its half leaves one to others.
const MIN_PERMITS: u32 = 2;

#[derive(Debug)]
pub(in crate::scripts) struct InstancePermits {
    root: FairPool,
    nested: [FairPool; DEPTHS],
}

impl InstancePermits {
    /// `size` is the number of runs that no script called, `queue` the number of them that may wait.
    pub(in crate::scripts) fn new(size: u32, queue: u32) -> Self {
        Self {
            root: FairPool::new("scripts", bounds(size, queue)),
            nested: array::from_fn(|at| {
                let above = if at == 0 { size } else { permits_at_depth(size, at as u32) };
                // All runs one depth above may wait for a permit at the same time, and no other run can.
                FairPool::new(NAMES[at], bounds(permits_at_depth(size, at as u32 + 1), above))
            }),
        }
    }

    /// The number of instances for all permits.
    pub(in crate::scripts) fn instances(size: u32) -> u32 {
        size + (1..=limits::XRPC_DEPTH).map(|depth| permits_at_depth(size, depth)).sum::<u32>()
    }

    /// Waits for a permit for a run that is nested in `depth` others.
    pub(in crate::scripts) async fn enter(
        &self,
        tenant: &Tenant,
        depth: u32,
        max_wait: Duration,
    ) -> Result<Permit, Full> {
        let pool = match depth.checked_sub(1) {
            None => &self.root,
            // `xrpc.*` refuses to go deeper.
            Some(at) => self.nested.get(at as usize).ok_or(Full::Pool)?,
        };
        pool.enter_within(tenant, max_wait).await
    }
}

/// Permits of a depth: half as many as one depth above, because most scripts call no other, and most called scripts call
/// no other either.
fn permits_at_depth(size: u32, depth: u32) -> u32 {
    (size >> depth).max(MIN_PERMITS)
}

fn bounds(permits: u32, queue: u32) -> Bounds {
    Bounds::half_per_tenant(permits as usize, queue as usize, limits::QUEUE_WAIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_permits_double_the_pool_at_most() {
        assert_eq!(InstancePermits::instances(64), 64 + 32 + 16 + 8 + 4 + 2 + 2 + 2 + 2);
        assert_eq!(InstancePermits::instances(1), 1 + 8 * MIN_PERMITS);
    }

    #[tokio::test(start_paused = true)]
    async fn a_tenant_holds_half_of_each_depth() {
        let permits = InstancePermits::new(8, 8);
        let (a, b) = (Tenant::client("a"), Tenant::client("b"));
        for depth in 0..=limits::XRPC_DEPTH {
            let all = if depth == 0 { 8 } else { permits_at_depth(8, depth) };
            let mut held = Vec::new();
            for _ in 0..all / 2 {
                held.push(permits.enter(&a, depth, Duration::ZERO).await.unwrap());
            }
            assert_eq!(permits.enter(&a, depth, Duration::ZERO).await.unwrap_err(), Full::Timeout);
            assert!(permits.enter(&b, depth, Duration::ZERO).await.is_ok(), "depth {depth}");
        }
        let too_deep = permits.enter(&a, limits::XRPC_DEPTH + 1, Duration::ZERO).await;
        assert_eq!(too_deep.unwrap_err(), Full::Pool);
    }
}
