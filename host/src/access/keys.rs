//! Caches look-ups of admin API keys, so that most calls with a key need no query.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Admin;
use crate::clock::Timestamp;
use crate::crypto::{sha256, sha256_hex};
use crate::store::{Db, StoreError, api_keys};

/// How long a looked-up key is cached. In this process a revocation takes effect at once ([`AdminKeys::forget`]); this
/// bounds how long another process on the same database may still accept the key.
const BELIEVED_SECONDS: i64 = 5;

/// Maximum number of cached keys. When it is reached, the cache is cleared.
const MOST: usize = 1024;

#[derive(Debug, Default)]
pub struct AdminKeys(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
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
            let known = self.known();
            match known.by_hash.get(&hash) {
                Some((admin, until)) if *until > now => return Ok(Some(admin.clone())),
                _ => known.generation,
            }
        };
        let Some((row, user)) = api_keys::find_by_hash(db, &sha256_hex(key.as_bytes())).await? else {
            return Ok(None);
        };
        let admin = Admin::through_key(&user, &row.id, &row.permissions)
            .ok_or_else(|| StoreError::Corrupt(format!("the DID of user {}", user.id)))?;
        let mut known = self.known();
        if known.generation == generation {
            if known.by_hash.len() >= MOST {
                known.by_hash.clear();
            }
            known.by_hash.insert(hash, (admin.clone(), now.plus_seconds(BELIEVED_SECONDS)));
        }
        Ok(Some(admin))
    }

    /// Clears the cache. Must be called after a key was revoked, or a user was deleted or its permissions changed.
    pub fn forget(&self) {
        let mut known = self.known();
        known.generation += 1;
        known.by_hash.clear();
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
