//! The keys with which this instance signs for spaces. Each is generated when it is needed first; all hosts use the same ones.

use tokio::sync::OnceCell;

use super::Spaces;
use crate::keys::instance::{self, InstanceKeyError};
use belvedere_protocol::crypto::{Algorithm, PrivateKey, PublicKey};
use belvedere_protocol::spaces::r10::token::KeyId;
use belvedere_storage::store::StoreError;

/// The keys that this host has loaded.
#[derive(Debug, Default)]
pub(super) struct HostKeys {
    space: OnceCell<PrivateKey>,
    delegation: OnceCell<PrivateKey>,
}

impl Spaces {
    /// The key `#atproto_space` of the DID document: it signs credentials and commits.
    ///
    /// # Errors
    /// As [`instance::load`].
    pub(super) async fn key(&self) -> Result<&PrivateKey, StoreError> {
        self.load(&self.0.keys.space, "atproto_space").await
    }

    /// The key of the delegation tokens that this instance issues to itself. It is in no document
    /// (docs/adr/0112-spaces-delegation-to-itself.md).
    ///
    /// # Errors
    /// As [`instance::load`].
    pub(super) async fn delegation_key(&self) -> Result<&PrivateKey, StoreError> {
        self.load(&self.0.keys.delegation, "space_delegation").await
    }

    /// The fragment and the public key, for the DID document.
    ///
    /// # Errors
    /// As [`instance::load`].
    pub async fn published_key(&self) -> Result<(String, PublicKey), StoreError> {
        Ok((KeyId::AtprotoSpace.as_str().to_owned(), self.key().await?.public()))
    }

    async fn load<'a>(
        &self,
        cell: &'a OnceCell<PrivateKey>,
        name: &'static str,
    ) -> Result<&'a PrivateKey, StoreError> {
        let core = self.core();
        let load =
            || instance::load(&core.db, &core.sealing, &core.random, &core.clock, name, Algorithm::Es256);
        cell.get_or_try_init(load).await.map_err(|error| match error {
            InstanceKeyError::Store(error) => error,
            sealed @ InstanceKeyError::Sealed(_) => StoreError::Corrupt(sealed.to_string()),
        })
    }
}
