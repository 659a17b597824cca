//! Bounds how many calls of a plugin run at the same time, and how many of them one tenant makes.

use tokio::time::Instant;

use super::CallError;
use crate::plugins::limits;
use belvedere_web::fair_share::{Bounds, FairPool, Place, Tenant};

/// The places of all calls.
#[derive(Debug)]
pub(super) struct Places {
    /// Places of each tenant at each plugin.
    callers: FairPool,
    /// Places of each plugin; they are instances.
    plugins: FairPool,
}

impl Places {
    pub(super) fn new(instances: usize) -> Self {
        let callers = Bounds {
            // A tenant's share bounds it.
            places: usize::MAX,
            per_tenant: limits::CALLS_PER_TENANT,
            waiting: usize::MAX,
            waiting_per_tenant: limits::WAITING_PER_TENANT,
            patience: limits::QUEUE_WAIT,
        };
        let plugins = Bounds {
            places: instances,
            per_tenant: limits::CALLS_PER_PLUGIN.min(instances),
            waiting: usize::MAX,
            waiting_per_tenant: limits::WAITING_PER_PLUGIN,
            patience: limits::QUEUE_WAIT,
        };
        Self { callers: FairPool::new("plugin_callers", callers), plugins: FairPool::new("plugins", plugins) }
    }

    /// Waits for the places of a call.
    pub(super) async fn enter(&self, plugin: &str, tenant: &Tenant) -> Result<(Place, Place), CallError> {
        let plugin = Tenant::Domain(plugin.into());
        let caller = Tenant::Route((tenant.clone(), plugin.clone()).into());
        let until = Instant::now() + limits::QUEUE_WAIT;
        let caller = self.callers.enter(&caller).await.map_err(|_| CallError::Busy)?;
        let patience = until.saturating_duration_since(Instant::now());
        let instance = self.plugins.enter_within(&plugin, patience).await.map_err(|_| CallError::Busy)?;
        Ok((caller, instance))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_plugin_and_a_tenant_have_their_shares() {
        let places = Places::new(6);
        let (a, b) = (Tenant::client("a"), Tenant::client("b"));
        let mut held = Vec::new();
        for tenant in [&a, &b] {
            for _ in 0..limits::CALLS_PER_TENANT {
                held.push(places.enter("steam", tenant).await.unwrap());
            }
            assert!(matches!(places.enter("steam", tenant).await, Err(CallError::Busy)), "{tenant:?}");
        }
        let c = Tenant::client("c");
        assert!(matches!(places.enter("steam", &c).await, Err(CallError::Busy)), "the plugin is full");
        let _other = places.enter("xbox", &c).await.unwrap();
        drop(held);
        assert!(places.enter("steam", &c).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn both_waits_have_one_deadline() {
        let places = Places::new(8);
        let (a, b) = (Tenant::client("a"), Tenant::client("b"));
        let mine = (places.enter("steam", &a).await.unwrap(), places.enter("steam", &a).await.unwrap());
        let _others = (places.enter("steam", &b).await.unwrap(), places.enter("steam", &b).await.unwrap());
        let started = Instant::now();
        let free = async {
            tokio::time::sleep(limits::QUEUE_WAIT / 2).await;
            // The tenant's place becomes free, the plugin's does not.
            let ((caller, instance), _kept) = mine;
            drop(caller);
            tokio::time::sleep(2 * limits::QUEUE_WAIT).await;
            drop(instance);
        };
        let waited = async {
            assert!(matches!(places.enter("steam", &a).await, Err(CallError::Busy)));
            started.elapsed()
        };
        let ((), waited) = tokio::join!(free, waited);
        assert!(waited <= limits::QUEUE_WAIT + std::time::Duration::from_millis(10), "{waited:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn few_calls_wait() {
        let places = Places::new(8);
        let a = Tenant::client("a");
        let _held = (places.enter("steam", &a).await.unwrap(), places.enter("steam", &a).await.unwrap());
        let waiting: Vec<_> = (0..limits::WAITING_PER_TENANT).map(|_| places.enter("steam", &a)).collect();
        let waiting = futures_util::future::join_all(waiting);
        let refused = async {
            tokio::task::yield_now().await;
            let started = Instant::now();
            let refused = places.enter("steam", &a).await;
            assert!(refused.is_err() && started.elapsed().is_zero(), "at once: the queue is full");
        };
        tokio::join!(biased; waiting, refused);
    }
}
