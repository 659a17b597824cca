//! Resolves DIDs to DID documents, with a cache, and handles to DIDs.

mod batch;
mod did_web;
mod directory_pause;
mod document;
mod fetches;
mod handles;
mod resolver;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

pub use self::batch::Handles;
pub use self::document::DidDocument;
pub use self::handles::HandleError;
pub use self::resolver::{CHANGE_TIME, MIN_REFRESH_SECONDS, Resolver};
use belvedere_web::fair_share::Full;
use belvedere_web::net::NetError;

/// The reason why a DID could not be resolved to a document.
#[derive(Clone, Debug, thiserror::Error)]
pub enum IdentityError {
    /// Neither a did:plc nor a did:web without a path.
    #[error("DIDs of this form are not supported")]
    Unsupported,
    #[error("the DID does not exist")]
    NotFound,
    /// The account's owner has ended the DID for good (did:plc).
    #[error("the DID is tombstoned")]
    Tombstoned,
    /// The response is not a document of this DID.
    #[error("the DID document is invalid: {0}")]
    Invalid(&'static str),
    /// The look-up failed; a later one may succeed.
    #[error("the DID could not be resolved: {0}")]
    Unavailable(Arc<NetError>),
    /// The directory limits the rate of look-ups (429), and is not asked for this time. Never cached.
    #[error("the DID could not be resolved: the directory asks to wait {} s", .0.as_secs().max(1))]
    RateLimited(Duration),
    /// Not looked up, because too many look-ups are in progress. Never cached.
    #[error("the DID could not be resolved: {0}")]
    Busy(#[from] Full),
    /// See [`Resolver::without_look_ups`]. Never cached.
    #[error("it is not cached, and this run may not use the network")]
    NotCached,
}

impl IdentityError {
    /// Whether a retry may succeed.
    pub fn is_temporary(&self) -> bool {
        matches!(self, Self::Unavailable(_) | Self::RateLimited(_) | Self::Busy(_) | Self::NotCached)
    }
}
