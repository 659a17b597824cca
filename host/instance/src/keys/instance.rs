//! Generates the instance's keys and stores them sealed in the database. All hosts use the same keys.

use belvedere_base::clock::Clock;
use belvedere_base::random::Random;
use belvedere_protocol::crypto::{Algorithm, PrivateKey, SealingKey};
use belvedere_storage::store::{Db, StoreError, instance_keys};

/// The reason why a key can't be loaded.
#[derive(Debug, thiserror::Error)]
pub enum InstanceKeyError {
    #[error(transparent)]
    Store(#[from] StoreError),
    /// It was sealed under another TOKEN_ENCRYPTION_KEY, or is damaged.
    #[error("the {0} key in the database can't be decrypted: restore TOKEN_ENCRYPTION_KEY")]
    Sealed(&'static str),
}

/// Loads the key named `name`, which is generated if the database has none.
///
/// # Errors
/// When the store fails, or the stored key can't be decrypted. A key is never replaced: other servers rely on its
/// public key.
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
