//! Subscriptions: methods whose lexicon is of type `subscription`, fed by the changes of their target collection (ADR 165).
//!
//! One task of this host reads the changes after their commit, encodes each message once for all connections that get the same
//! bytes, and passes it to their queues. A connection that resumes first reads the changes since its cursor from the table.

mod feed;
mod hub;
mod queue;
mod render;
mod stream;

use std::collections::BTreeSet;

use belvedere_protocol::atproto::event_stream::Subprotocol;
use belvedere_protocol::atproto::{Did, Nsid};

pub use feed::Subscriptions;
pub use stream::{ChangeStream, Next};

/// The messages that a connection gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The subscription.
    pub nsid: Nsid,
    /// The collection whose changes it shows.
    pub collection: Nsid,
    /// The accounts whose records are shown; `None`: all.
    pub dids: Option<BTreeSet<Did>>,
    pub subprotocol: Subprotocol,
}
