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

use crate::atproto::{Cid, Did, Nsid, RecordKey, RecordUri};

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

impl Write {
    /// Whether what a PDS says to have there now is what this write to `repo` asked for. A PDS speaks for the repo that it was
    /// asked to write to, and for no other.
    pub fn fits(&self, repo: &Did, place: Option<&(RecordUri, Cid)>) -> bool {
        match (place, &self.action) {
            (None, Action::Delete) => true,
            (Some((uri, _)), Action::Create(_) | Action::Put(_)) => {
                uri.did == *repo
                    && uri.collection == self.collection
                    && self.rkey.as_ref().is_none_or(|rkey| *rkey == uri.rkey)
            }
            _ => false,
        }
    }
}

/// With the record as JSON text, `$type` included.
#[derive(Clone, Debug)]
pub enum Action {
    Create(Bytes),
    Put(Bytes),
    Delete,
}
