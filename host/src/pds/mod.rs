//! Writing to a user's repo: calls to their PDS with a session that they gave us.
//!
//! [`Sessions`] knows who has a [`Session`], [`Vault`] opens the stored ones and renews their tokens, and [`Agent`] makes
//! the calls of one. Nothing here touches the index.

mod agent;
mod answer;
mod authority;
mod bound;
mod ceiling;
mod places;
mod revocation;
mod session;
#[cfg(test)]
pub(crate) mod standin;
pub mod sweep;
#[cfg(test)]
mod tests;
mod vault;

pub use agent::Agent;
pub use answer::{Committed, PdsError, Refusal};
pub use authority::Authority;
pub use bound::BoundSession;
pub use ceiling::{Ceilings, Permits, permission_sets};
pub use places::PdsPlaces;
pub use revocation::Revocations;
pub use session::{Credential, Session, SessionOf, Sessions};
pub use vault::{Registration, RenewError, Vault};

use bytes::Bytes;

use crate::atproto::{Nsid, RecordKey};

/// Writes in one `com.atproto.repo.applyWrites`: what PDSs take.
pub const MAX_WRITES: usize = 200;

/// One write to the repo of a session.
#[derive(Clone, Debug)]
pub struct Write {
    pub collection: Nsid,
    /// Only a new record can do without: the PDS then makes a key.
    pub rkey: Option<RecordKey>,
    pub action: Action,
    /// The CID of the record that a put may replace, and no other.
    pub swap: Option<String>,
}

/// With the record as JSON text, `$type` included.
#[derive(Clone, Debug)]
pub enum Action {
    Create(Bytes),
    Put(Bytes),
    Delete,
}
