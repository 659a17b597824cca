//! Calls users' PDSs with their stored sessions, to write to their repos.
//!
//! [`Sessions`] finds a [`Session`], [`Vault`] decrypts stored sessions and renews their tokens, and [`Agent`] makes
//! calls with one session. Nothing here writes to the index.

mod agent;
mod answer;
mod authority;
mod bound;
mod effective_scopes;
mod forward;
mod permits;
pub mod revocation;
mod session;
mod standard;
#[cfg(any(test, feature = "testing"))]
#[expect(clippy::unwrap_used, reason = "only tests use it")]
pub mod standin;
pub mod sweep;
#[cfg(test)]
mod tests;
mod vault;

pub use agent::Agent;
pub use answer::{CommitResult, PdsError};
pub use authority::SessionAuthority;
pub use bound::BoundSession;
pub use effective_scopes::{EffectiveScopes, EffectiveScopesCache, valid_scopes};
pub use forward::ForwardedCall;
pub use permits::PdsPools;
pub use session::{Credential, Session, SessionSelector, Sessions};
pub use standard::{InvalidCall, RepoWrites, StandardCall};
pub use vault::{Registration, RenewError, Vault};

use bytes::Bytes;

use belvedere_protocol::atproto::scope::RepoAction;
use belvedere_protocol::atproto::{Cid, Did, Nsid, RecordKey, RecordUri};

/// Writes in one `com.atproto.repo.applyWrites`: the limit of PDSs.
pub const MAX_WRITES: usize = 200;

/// One write to the repo of a session's account.
#[derive(Clone, Debug)]
pub struct Write {
    pub collection: Nsid,
    /// `None` only for a new record: the PDS then generates the key.
    pub rkey: Option<RecordKey>,
    pub action: WriteAction,
    /// When set, a put replaces only the record with this CID (`swapRecord`).
    pub swap: Option<String>,
}

impl Write {
    /// The actions that the write needs the permission for. A put without `swap` creates the record where there is none; an
    /// update of a batch does not.
    pub fn actions(&self, is_batch: bool) -> &'static [RepoAction] {
        match (&self.action, &self.swap) {
            (WriteAction::Create(_), _) => &[RepoAction::Create],
            (WriteAction::Put(_), None) if !is_batch => &[RepoAction::Create, RepoAction::Update],
            (WriteAction::Put(_), _) => &[RepoAction::Update],
            (WriteAction::Delete, _) => &[RepoAction::Delete],
        }
    }

    /// Whether the record that a PDS reports for this write is the one that was written: in `repo`, in the write's
    /// collection and under its key. A PDS must not report records of other repos.
    pub fn fits(&self, repo: &Did, reported: Option<&(RecordUri, Cid)>) -> bool {
        match (reported, &self.action) {
            (None, WriteAction::Delete) => true,
            (Some((uri, _)), WriteAction::Create(_) | WriteAction::Put(_)) => {
                uri.did == *repo
                    && uri.collection == self.collection
                    && self.rkey.as_ref().is_none_or(|rkey| *rkey == uri.rkey)
            }
            _ => false,
        }
    }
}

/// The effect of a write. Records are JSON text with `$type`.
#[derive(Clone, Debug)]
pub enum WriteAction {
    Create(Bytes),
    Put(Bytes),
    Delete,
}
