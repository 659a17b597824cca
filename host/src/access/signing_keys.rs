//! Keys of the issuers of service tokens: from their DID documents.

use std::sync::Arc;

use crate::atproto::Did;
use crate::crypto::PublicKey;
use crate::fair_share::Full;
use crate::identity::{DidDocument, IdentityError, Resolver};

/// Where the keys of issuers come from.
pub trait SigningKeys: Send + Sync {
    /// What is known of the `#atproto` key of a DID without asking another server, if anything. With `fresh` only what
    /// [`Self::look_up`] could not better.
    fn known(&self, did: &Did, fresh: bool) -> impl Future<Output = Option<Result<PublicKey, NoKey>>> + Send;

    /// The `#atproto` key of a DID's document; `fresh` past the cache.
    fn look_up(&self, did: &Did, fresh: bool) -> impl Future<Output = Result<PublicKey, NoKey>> + Send;
}

/// Why there is no key. The text is for the log.
#[derive(Debug, thiserror::Error)]
pub enum NoKey {
    /// A DID document could not be had, or has no usable key.
    #[error("{0}")]
    Unknown(String),
    /// Too many look-ups are under way.
    #[error(transparent)]
    Busy(Full),
}

impl SigningKeys for Resolver {
    async fn known(&self, did: &Did, fresh: bool) -> Option<Result<PublicKey, NoKey>> {
        let known = if fresh { self.known_fresh(did).await } else { Self::known(self, did).await };
        known.map(|document| key_of(did, &document))
    }

    async fn look_up(&self, did: &Did, fresh: bool) -> Result<PublicKey, NoKey> {
        let document = if fresh { self.refresh(did).await } else { self.resolve(did).await };
        key_of(did, &document)
    }
}

fn key_of(did: &Did, document: &Result<Arc<DidDocument>, IdentityError>) -> Result<PublicKey, NoKey> {
    match document {
        Ok(document) => {
            let key = document.signing_key().cloned();
            key.ok_or_else(|| NoKey::Unknown(format!("the document of {did} has no #atproto key")))
        }
        Err(IdentityError::Busy(full)) => Err(NoKey::Busy(*full)),
        Err(error) => Err(NoKey::Unknown(error.to_string())),
    }
}
