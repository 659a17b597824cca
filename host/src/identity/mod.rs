//! DIDs to documents, cached.

use std::sync::Arc;

use url::Url;

use crate::atproto::Did;
use crate::clock::Clock;
use crate::crypto::PublicKey;
use crate::net;

/// What the index needs of a DID document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DidDocument {
    did: Did,
    pds: Option<String>,
    handle: Option<String>,
    signing_key: Option<PublicKey>,
}

impl DidDocument {
    pub fn did(&self) -> &Did {
        &self.did
    }

    /// Origin of the repository's host, without a trailing slash.
    pub fn pds(&self) -> Option<&str> {
        self.pds.as_deref()
    }

    /// The first `at://` name of `alsoKnownAs`. A claim: nobody has asked the handle whether it is true.
    pub fn handle(&self) -> Option<&str> {
        self.handle.as_deref()
    }

    /// The key of the `#atproto` verification method.
    pub fn signing_key(&self) -> Option<&PublicKey> {
        self.signing_key.as_ref()
    }
}

#[derive(Clone, Debug, thiserror::Error)]
pub enum IdentityError {
    #[error("DIDs of this method are not supported")]
    UnsupportedMethod,
    #[error("the DID does not exist")]
    NotFound,
    #[error("the DID document is invalid: {0}")]
    Invalid(String),
    #[error("the DID could not be resolved: {0}")]
    Unavailable(Arc<net::NetError>),
    #[error("the DID was refreshed a moment ago")]
    TooSoon,
}

/// Cheap to clone.
#[derive(Clone, Debug)]
pub struct Resolver(());

impl Resolver {
    pub fn new(_net: net::Client, _plc_url: Url, _clock: Clock) -> Self {
        todo!()
    }

    /// The document, from the cache when it is fresh enough.
    pub async fn resolve(&self, _did: &Did) -> Result<Arc<DidDocument>, IdentityError> {
        todo!()
    }

    /// The document, fetched anew (a signature failed under the cached key). Too soon after the last fetch of the same
    /// DID the cached one is given again.
    pub async fn refresh(&self, _did: &Did) -> Result<Arc<DidDocument>, IdentityError> {
        todo!()
    }

    /// Forgets a DID (an identity event came).
    pub async fn invalidate(&self, _did: &Did) {
        todo!()
    }
}
