//! Values that connections with the same key share. Each is there while one of them has it.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use belvedere_web::fair_share::{Bounds, FairPool, Full, Permit, Tenant};

type ByKey<K, V> = Mutex<HashMap<K, Weak<V>>>;

/// The values of this host, by key. Cheap to clone.
#[derive(Debug)]
pub(super) struct Sharing<K, V> {
    by_key: Arc<ByKey<K, V>>,
    places: FairPool,
}

impl<K, V> Clone for Sharing<K, V> {
    fn clone(&self) -> Self {
        Self { by_key: Arc::clone(&self.by_key), places: self.places.clone() }
    }
}

/// The place of a value among those that are shared, which the value holds.
pub(super) struct Place<K: Hash + Eq, V> {
    pub(super) key: K,
    by_key: Weak<ByKey<K, V>>,
    _permit: Permit,
}

impl<K: Hash + Eq + Clone, V> Sharing<K, V> {
    /// `name` is that of the pool of places in metrics.
    pub(super) fn new(name: &'static str, places: usize, places_per_tenant: usize) -> Self {
        let bounds = Bounds {
            permits: places,
            per_tenant: places_per_tenant,
            // A connection lasts: waiting for the end of another makes no sense.
            waiting: 0,
            waiting_per_tenant: 0,
            max_wait: Duration::ZERO,
        };
        Self { by_key: Arc::default(), places: FairPool::new(name, bounds) }
    }

    /// The value with a key, which `make` makes if there is none.
    ///
    /// # Errors
    /// When there would be too many: of the tenant, or in total.
    pub(super) fn get(
        &self,
        key: &K,
        tenant: &Tenant,
        make: impl FnOnce(Place<K, V>) -> V,
    ) -> Result<Arc<V>, Full> {
        let mut by_key = lock(&self.by_key);
        if let Some(value) = by_key.get(key).and_then(Weak::upgrade) {
            return Ok(value);
        }
        let permit = self.places.try_enter(tenant)?;
        let place = Place { key: key.clone(), by_key: Arc::downgrade(&self.by_key), _permit: permit };
        let value = Arc::new(make(place));
        by_key.insert(key.clone(), Arc::downgrade(&value));
        Ok(value)
    }

    /// The number of values.
    pub(super) fn count(&self) -> usize {
        self.places.used()
    }
}

impl<K: Hash + Eq, V> Place<K, V> {
    /// Shares the value with no more connections. Those that have it keep it, and it keeps its place.
    pub(super) fn withdraw(&self) {
        if let Some(by_key) = self.by_key.upgrade() {
            lock(&by_key).remove(&self.key);
        }
    }
}

impl<K: Hash + Eq, V> Drop for Place<K, V> {
    fn drop(&mut self) {
        let Some(by_key) = self.by_key.upgrade() else { return };
        let mut by_key = lock(&by_key);
        // Another connection may have replaced the value by a new one.
        if by_key.get(&self.key).is_some_and(|value| value.strong_count() == 0) {
            by_key.remove(&self.key);
        }
    }
}

impl<K: Hash + Eq + fmt::Debug, V> fmt::Debug for Place<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.key.fmt(f)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Value(#[expect(dead_code, reason = "held")] Place<u8, Self>);

    #[test]
    fn a_value_is_shared_while_it_is_held_and_tenants_have_a_part_of_the_places() {
        let sharing: Sharing<u8, Value> = Sharing::new("test", 3, 2);
        let [a, b] = ["did:plc:a", "did:plc:b"].map(Tenant::of_did);
        let get = |key: u8, tenant: &Tenant| sharing.get(&key, tenant, Value);
        let first = get(1, &a).unwrap();
        assert!(Arc::ptr_eq(&first, &get(1, &b).unwrap()), "of another tenant too");
        let second = get(2, &a).unwrap();
        assert!(matches!(get(3, &a), Err(Full::Tenant)));
        let third = get(3, &b).unwrap();
        assert!(get(4, &b).is_err());
        assert_eq!(sharing.count(), 3);
        drop((first, second));
        assert_eq!(sharing.count(), 1);
        assert!(!Arc::ptr_eq(&get(1, &a).unwrap(), &third));
        assert_eq!(lock(&sharing.by_key).len(), 1, "nothing is left of values that are gone");
    }
}
