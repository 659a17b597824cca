//! Places for runs: each run holds one, and with it one instance of the pool.
//!
//! A run that calls a method through `xrpc.*` keeps its place while the called method's script runs in another. So each
//! depth of nesting has places of its own: a run waits only for places of deeper runs, and the deepest wait for none.
//! However full the places are, the runs that hold them end, and no run waits in a circle.

use std::array;
use std::time::Duration;

use super::limits;
use crate::fair_share::{Bounds, FairPool, Full, Place, Tenant};

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

/// The fewest places of one depth: with two, a tenant that holds its half leaves one to others.
const FEWEST: u32 = 2;

#[derive(Debug)]
pub(super) struct Places {
    first: FairPool,
    nested: [FairPool; DEPTHS],
}

impl Places {
    /// `size` is the number of runs that no script called, `queue` how many of them may wait.
    pub(super) fn new(size: u32, queue: u32) -> Self {
        Self {
            first: FairPool::new("scripts", bounds(size, queue)),
            nested: array::from_fn(|at| {
                let above = if at == 0 { size } else { at_depth(size, at as u32) };
                // All runs above may wait for a place at the same time; there are no others.
                FairPool::new(NAMES[at], bounds(at_depth(size, at as u32 + 1), above))
            }),
        }
    }

    /// Instances for all places.
    pub(super) fn instances(size: u32) -> u32 {
        size + (1..=limits::XRPC_DEPTH).map(|depth| at_depth(size, depth)).sum::<u32>()
    }

    /// A place for a run that is nested in `depth` others.
    pub(super) async fn enter(&self, tenant: &Tenant, depth: u32, patience: Duration) -> Result<Place, Full> {
        let pool = match depth.checked_sub(1) {
            None => &self.first,
            // `xrpc.*` refuses to go deeper.
            Some(at) => self.nested.get(at as usize).ok_or(Full::Pool)?,
        };
        pool.enter_within(tenant, patience).await
    }
}

/// Places of a depth: each has half of those above it, because most scripts call none, and most of the called call no
/// other.
fn at_depth(size: u32, depth: u32) -> u32 {
    (size >> depth).max(FEWEST)
}

/// A tenant holds half of the places and of the queue, so that one alone never takes all.
fn bounds(places: u32, queue: u32) -> Bounds {
    let half = |all: u32| all.div_ceil(2).max(1) as usize;
    Bounds {
        places: places as usize,
        per_tenant: half(places),
        waiting: queue as usize,
        waiting_per_tenant: half(queue).min(queue as usize),
        patience: limits::QUEUE_WAIT,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_places_double_the_pool_at_most() {
        assert_eq!(Places::instances(64), 64 + 32 + 16 + 8 + 4 + 2 + 2 + 2 + 2);
        assert_eq!(Places::instances(1), 1 + 8 * FEWEST);
    }

    #[tokio::test(start_paused = true)]
    async fn a_tenant_holds_half_of_each_depth() {
        let places = Places::new(8, 8);
        let (a, b) = (Tenant::client("a"), Tenant::client("b"));
        for depth in 0..=limits::XRPC_DEPTH {
            let all = if depth == 0 { 8 } else { at_depth(8, depth) };
            let mut held = Vec::new();
            for _ in 0..all / 2 {
                held.push(places.enter(&a, depth, Duration::ZERO).await.unwrap());
            }
            assert_eq!(places.enter(&a, depth, Duration::ZERO).await.unwrap_err(), Full::Patience);
            assert!(places.enter(&b, depth, Duration::ZERO).await.is_ok(), "depth {depth}");
        }
        let too_deep = places.enter(&a, limits::XRPC_DEPTH + 1, Duration::ZERO).await;
        assert_eq!(too_deep.unwrap_err(), Full::Pool);
    }
}
