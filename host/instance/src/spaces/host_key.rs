//! The key that signs for the spaces that this instance hosts: `#atproto_space` in its DID document.

use super::Spaces;
use crate::keys::instance::{self, InstanceKeyError};
use belvedere_protocol::crypto::{Algorithm, PrivateKey, PublicKey};
use belvedere_storage::store::{StoreError, instance_keys};

/// The key's name in the table of instance keys.
const NAME: &str = "atproto_space";

/// The fragment of the key in the DID document.
pub const FRAGMENT: &str = "#atproto_space";

impl Spaces {
    /// The key. It is generated when it is needed first; all hosts use the same one.
    ///
    /// # Errors
    /// As [`instance::load`].
    pub(super) async fn key(&self) -> Result<&PrivateKey, StoreError> {
        let core = self.core();
        let load =
            || instance::load(&core.db, &core.sealing, &core.random, &core.clock, NAME, Algorithm::Es256);
        self.0.key.get_or_try_init(load).await.map_err(|error| match error {
            InstanceKeyError::Store(error) => error,
            sealed @ InstanceKeyError::Sealed(_) => StoreError::Corrupt(sealed.to_string()),
        })
    }

    /// The fragment and the public key, for the DID document; `None` as long as no space has needed the key.
    ///
    /// # Errors
    /// As [`instance::load`].
    pub async fn published_key(&self) -> Result<Option<(String, PublicKey)>, StoreError> {
        if self.0.key.get().is_none() && instance_keys::get(&self.core().db, NAME).await?.is_none() {
            return Ok(None);
        }
        Ok(Some((FRAGMENT.to_owned(), self.key().await?.public())))
    }
}
