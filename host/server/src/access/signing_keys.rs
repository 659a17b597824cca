//! Finds the keys of the issuers of tokens, in their DID documents.

use std::sync::Arc;

use belvedere_instance::identity::{DidDocument, IdentityError, Resolver};
use belvedere_protocol::atproto::Did;
use belvedere_protocol::crypto::PublicKey;
use belvedere_protocol::spaces::r10::token::KeyId;
use belvedere_web::fair_share::Full;

/// A source of issuers' keys.
pub trait SigningKeys: Send + Sync {
    /// The result for a key of a DID that needs no call to another server; `None` when it takes a look-up.
    /// With `fresh`, only a result that a fresh [`Self::look_up`] would return too.
    fn known(
        &self,
        did: &Did,
        id: KeyId,
        fresh: bool,
    ) -> impl Future<Output = Option<Result<PublicKey, SigningKeyError>>> + Send;

    /// A key in a DID's document; `fresh` bypasses the cache.
    fn look_up(
        &self,
        did: &Did,
        id: KeyId,
        fresh: bool,
    ) -> impl Future<Output = Result<PublicKey, SigningKeyError>> + Send;
}

/// The reason why there is no key. The text is for the log.
#[derive(Debug, thiserror::Error)]
pub enum SigningKeyError {
    /// The DID document could not be fetched, or has no usable key.
    #[error("{0}")]
    Unknown(String),
    /// Too many look-ups are in progress.
    #[error(transparent)]
    Busy(Full),
}

impl SigningKeys for Resolver {
    async fn known(&self, did: &Did, id: KeyId, fresh: bool) -> Option<Result<PublicKey, SigningKeyError>> {
        let known = if fresh { self.known_fresh(did).await } else { Self::known(self, did).await };
        known.map(|document| key_of(did, id, &document))
    }

    async fn look_up(&self, did: &Did, id: KeyId, fresh: bool) -> Result<PublicKey, SigningKeyError> {
        let document = if fresh { self.refresh(did).await } else { self.resolve(did).await };
        key_of(did, id, &document)
    }
}

fn key_of(
    did: &Did,
    id: KeyId,
    document: &Result<Arc<DidDocument>, IdentityError>,
) -> Result<PublicKey, SigningKeyError> {
    match document {
        Ok(document) => {
            let key = match id {
                KeyId::Atproto => document.signing_key(),
                KeyId::AtprotoSpace => document.space_key(),
            };
            key.cloned().ok_or_else(|| {
                SigningKeyError::Unknown(format!("the DID document of {did} has no {} key", id.as_str()))
            })
        }
        Err(IdentityError::Busy(full)) => Err(SigningKeyError::Busy(*full)),
        // The token is not at fault.
        Err(IdentityError::RateLimited(_)) => Err(SigningKeyError::Busy(Full::Timeout)),
        Err(error) => Err(SigningKeyError::Unknown(error.to_string())),
    }
}
