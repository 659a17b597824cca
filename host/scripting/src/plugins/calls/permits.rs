//! Bounds how many calls of a plugin run at the same time, and how many of them one tenant makes.

use tokio::time::Instant;

use super::CallError;
use crate::plugins::limits;
use belvedere_web::fair_share::{Bounds, FairPool, Permit, Tenant};

/// The permits of all calls.
#[derive(Debug)]
pub(super) struct Permits {
    /// Permits of each tenant at each plugin.
    callers: FairPool,
    /// Permits of each plugin; they are instances.
    plugins: FairPool,
}

impl Permits {
    pub(super) fn new(instances: usize) -> Self {
        let callers = Bounds {
            // A tenant's share bounds it.
            permits: usize::MAX,
            per_tenant: limits::CALLS_PER_TENANT,
            waiting: usize::MAX,
            waiting_per_tenant: limits::WAITING_PER_TENANT,
            max_wait: limits::QUEUE_WAIT,
        };
        let plugins = Bounds {
            permits: instances,
            per_tenant: limits::CALLS_PER_PLUGIN.min(instances),
            waiting: usize::MAX,
            waiting_per_tenant: limits::WAITING_PER_PLUGIN,
            max_wait: limits::QUEUE_WAIT,
        };
        Self { callers: FairPool::new("plugin_callers", callers), plugins: FairPool::new("plugins", plugins) }
    }

    /// Waits for the permits of a call.
    pub(super) async fn enter(&self, plugin: &str, tenant: &Tenant) -> Result<(Permit, Permit), CallError> {
        let plugin = Tenant::Domain(plugin.into());
        let caller = Tenant::Route((tenant.clone(), plugin.clone()).into());
        let until = Instant::now() + limits::QUEUE_WAIT;
        let caller = self.callers.enter(&caller).await.map_err(|_| CallError::Busy)?;
        let max_wait = until.saturating_duration_since(Instant::now());
        let instance = self.plugins.enter_within(&plugin, max_wait).await.map_err(|_| CallError::Busy)?;
        Ok((caller, instance))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_plugin_and_a_tenant_have_their_shares() {
        let permits = Permits::new(6);
        let (a, b) = (Tenant::client("a"), Tenant::client("b"));
        let mut held = Vec::new();
        for tenant in [&a, &b] {
            for _ in 0..limits::CALLS_PER_TENANT {
                held.push(permits.enter("steam", tenant).await.unwrap());
            }
            assert!(matches!(permits.enter("steam", tenant).await, Err(CallError::Busy)), "{tenant:?}");
        }
        let c = Tenant::client("c");
        assert!(matches!(permits.enter("steam", &c).await, Err(CallError::Busy)), "the plugin is full");
        let _other = permits.enter("xbox", &c).await.unwrap();
        drop(held);
        assert!(permits.enter("steam", &c).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn both_waits_have_one_deadline() {
        let permits = Permits::new(8);
        let (a, b) = (Tenant::client("a"), Tenant::client("b"));
        let mine = (permits.enter("steam", &a).await.unwrap(), permits.enter("steam", &a).await.unwrap());
        let _others = (permits.enter("steam", &b).await.unwrap(), permits.enter("steam", &b).await.unwrap());
        let started = Instant::now();
        let free = async {
            tokio::time::sleep(limits::QUEUE_WAIT / 2).await;
            // The tenant's permit becomes free, the plugin's does not.
            let ((caller, instance), _kept) = mine;
            drop(caller);
            tokio::time::sleep(2 * limits::QUEUE_WAIT).await;
            drop(instance);
        };
        let waited = async {
            assert!(matches!(permits.enter("steam", &a).await, Err(CallError::Busy)));
            started.elapsed()
        };
        let ((), waited) = tokio::join!(free, waited);
        assert!(waited <= limits::QUEUE_WAIT + std::time::Duration::from_millis(10), "{waited:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn few_calls_wait() {
        let permits = Permits::new(8);
        let a = Tenant::client("a");
        let _held = (permits.enter("steam", &a).await.unwrap(), permits.enter("steam", &a).await.unwrap());
        let waiting: Vec<_> = (0..limits::WAITING_PER_TENANT).map(|_| permits.enter("steam", &a)).collect();
        let waiting = futures_util::future::join_all(waiting);
        let refused = async {
            tokio::task::yield_now().await;
            let started = Instant::now();
            let refused = permits.enter("steam", &a).await;
            assert!(refused.is_err() && started.elapsed().is_zero(), "at once: the queue is full");
        };
        tokio::join!(biased; waiting, refused);
    }
}
