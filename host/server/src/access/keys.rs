//! Caches look-ups of admin API keys, so that most calls with a key need no query.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::Admin;
use belvedere_base::clock::Timestamp;
use belvedere_protocol::crypto::{sha256, sha256_hex};
use belvedere_storage::store::{Db, StoreError, api_keys};

/// Time for which a looked-up key is cached. In this process a revocation takes effect at once ([`AdminKeys::forget`]);
/// another process on the same database accepts the key for this time at most.
const CACHE_SECONDS: i64 = 5;

/// Maximum number of cached keys. When it is reached, the cache is cleared.
const MAX_CACHED: usize = 1024;

#[derive(Debug, Default)]
pub struct AdminKeys {
    cache: Mutex<KeyCache>,
    /// Notified by [`AdminKeys::forget`].
    changes: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct KeyCache {
    by_hash: HashMap<[u8; 32], (Admin, Timestamp)>,
    /// Counts the calls of `forget`, so that a look-up which began before one isn't cached after it.
    generation: u64,
}

impl AdminKeys {
    /// The user of a key, with the permissions that it has through the key. `None` for unknown and revoked keys.
    ///
    /// # Errors
    /// When the store can't be read.
    pub async fn resolve(&self, db: &Db, key: &str, now: Timestamp) -> Result<Option<Admin>, StoreError> {
        let hash = sha256(key.as_bytes());
        let generation = {
            let cache = self.cache();
            match cache.by_hash.get(&hash) {
                Some((admin, until)) if *until > now => return Ok(Some(admin.clone())),
                _ => cache.generation,
            }
        };
        let Some((row, user)) = api_keys::find_by_hash(db, &sha256_hex(key.as_bytes())).await? else {
            return Ok(None);
        };
        let admin = Admin::through_key(&user, &row)
            .ok_or_else(|| StoreError::Corrupt(format!("the DID of user {}", user.id)))?;
        let mut cache = self.cache();
        if cache.generation == generation {
            if cache.by_hash.len() >= MAX_CACHED {
                cache.by_hash.clear();
            }
            cache.by_hash.insert(hash, (admin.clone(), now.plus_seconds(CACHE_SECONDS)));
        }
        Ok(Some(admin))
    }

    /// Clears the cache. Must be called after a key was revoked, or a user was deleted or its permissions changed.
    pub fn forget(&self) {
        let mut cache = self.cache();
        cache.generation += 1;
        cache.by_hash.clear();
        drop(cache);
        self.changes.send_replace(());
    }

    /// Notified whenever users, permissions or keys may have changed: at once when a host changed them, and each minute.
    pub fn changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }

    fn cache(&self) -> MutexGuard<'_, KeyCache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
