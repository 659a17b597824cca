//! DIDs to documents, cached, and handles to DIDs.

mod document;
mod fetches;
mod handles;
mod resolver;
#[cfg(test)]
mod tests;

use std::sync::Arc;

pub use self::document::DidDocument;
pub use self::handles::HandleError;
pub use self::resolver::Resolver;
use crate::fair_share::Full;
use crate::net::NetError;

/// Why there is no document for a DID.
#[derive(Clone, Debug, thiserror::Error)]
pub enum IdentityError {
    /// Neither did:plc nor a did:web of a host alone.
    #[error("DIDs of this form are not supported")]
    Unsupported,
    #[error("the DID does not exist")]
    NotFound,
    /// What the DID resolves to is no document of this DID.
    #[error("the DID document is invalid: {0}")]
    Invalid(&'static str),
    /// Nobody could say; worth another try later.
    #[error("the DID could not be resolved: {0}")]
    Unavailable(Arc<NetError>),
    /// It was not asked for: too many look-ups are under way. Never remembered.
    #[error("the DID could not be resolved: {0}")]
    Busy(#[from] Full),
}

impl IdentityError {
    /// Whether it may be different in a minute.
    pub fn is_temporary(&self) -> bool {
        matches!(self, Self::Unavailable(_) | Self::Busy(_))
    }
}
