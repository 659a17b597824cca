//! Keys that the instance made for itself and keeps sealed in the database. All hosts end up with the same.

use crate::clock::Clock;
use crate::crypto::{Algorithm, PrivateKey, SealingKey};
use crate::random::Random;
use crate::store::{Db, StoreError, instance_keys};

/// Why a key can't be had.
#[derive(Debug, thiserror::Error)]
pub enum InstanceKeyError {
    #[error(transparent)]
    Store(#[from] StoreError),
    /// It was sealed under another TOKEN_ENCRYPTION_KEY, or is damaged.
    #[error("the {0} key in the database can't be decrypted: restore TOKEN_ENCRYPTION_KEY")]
    Sealed(&'static str),
}

/// The key of a name, made when there is none.
///
/// # Errors
/// When the store can't be used, or what it holds can't be decrypted. A key is never replaced: what others know it by
/// could not be honoured any more.
pub async fn load(
    db: &Db,
    sealing: &SealingKey,
    random: &Random,
    clock: &Clock,
    name: &'static str,
    algorithm: Algorithm,
) -> Result<PrivateKey, InstanceKeyError> {
    let purpose = format!("instance_keys.{name}");
    let stored = if let Some(stored) = instance_keys::get(db, name).await? {
        stored
    } else {
        let fresh = PrivateKey::generate(algorithm, random);
        let sealed = sealing.seal(random, &purpose, &*fresh.to_bytes());
        instance_keys::get_or_insert(db, name, &sealed, clock.now()).await?
    };
    let scalar = sealing.open(&purpose, &stored).map_err(|_| InstanceKeyError::Sealed(name))?;
    PrivateKey::from_bytes(algorithm, &scalar).map_err(|_| InstanceKeyError::Sealed(name))
}
