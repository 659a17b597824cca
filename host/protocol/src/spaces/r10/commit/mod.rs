//! Signed commits of a repo in a space (spaces.md §6.1, spaces-delta.md §1).
//!
//! The signature covers the context and not the hash of the records. Anyone who knows `ikm` can make the mac of another
//! hash, so a commit proves its content only to the peer that received it from the signer.

#[cfg(test)]
mod tests;

use serde_json::{Value, json};

use super::json_bytes::{bytes_json, read_bytes};
use crate::atproto::{CborValue, Tid, cbor_map};
use crate::crypto::{HighS, MacKey, PrivateKey, PublicKey, ct_eq};
use crate::spaces::SpaceRepo;

/// The only version of commits.
const VERSION: u64 = 1;

/// Begins every context.
const TAG: &[u8] = b"atproto-space-v1";

/// A commit to the records of a repo.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    pub rev: Tid,
    /// The digest of the set of records.
    pub hash: [u8; 32],
    /// Random bytes, fresh for each signature.
    pub ikm: [u8; 32],
    /// Binds `hash` to the context.
    pub mac: [u8; 32],
    /// `r || s` over the context.
    pub sig: [u8; 64],
}

/// Error for a commit that is malformed or does not verify.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
pub enum InvalidCommit {
    #[error("the commit's version is not 1")]
    Version,
    #[error("the commit is malformed: its {0} is missing or invalid")]
    Field(&'static str),
    #[error("the commit's mac does not fit its hash")]
    Mac,
    #[error("the commit's signature does not verify")]
    Signature,
    #[error("the commit's hash is not that of the records")]
    Hash,
}

/// Bytes of a commit that is read, several times what one has.
const MAX_BYTES: usize = 1 << 10;

impl Commit {
    /// Signs the state of a repo. `ikm`: 32 random bytes that were never used before.
    pub fn sign(repo: SpaceRepo<'_>, rev: Tid, hash: [u8; 32], ikm: [u8; 32], key: &PrivateKey) -> Self {
        let context = context_of(repo, rev, &ikm);
        Self { rev, hash, ikm, mac: mac(&context, &ikm, &hash), sig: key.sign(&context) }
    }

    /// Checks the commit of a repo. `key`: the author's key, or that of the host that signs for the author. `hash`: the
    /// digest of the records as the caller knows them.
    ///
    /// # Errors
    /// Names the first check that fails: the mac, the signature (with a low `s`), the hash.
    pub fn verify(&self, repo: SpaceRepo<'_>, key: &PublicKey, hash: &[u8; 32]) -> Result<(), InvalidCommit> {
        let context = context_of(repo, self.rev, &self.ikm);
        if !ct_eq(&mac(&context, &self.ikm, &self.hash), &self.mac) {
            return Err(InvalidCommit::Mac);
        }
        key.verify(&context, &self.sig, HighS::Refuse).map_err(|_| InvalidCommit::Signature)?;
        if self.hash == *hash { Ok(()) } else { Err(InvalidCommit::Hash) }
    }

    /// The form in responses, with bytes as `{"$bytes": …}`.
    pub fn to_json(&self) -> Value {
        json!({
            "ver": VERSION, "hash": bytes_json(&self.hash), "ikm": bytes_json(&self.ikm),
            "mac": bytes_json(&self.mac), "rev": self.rev.to_string(), "sig": bytes_json(&self.sig),
        })
    }

    /// Reads the form in responses. Base64 may be padded.
    ///
    /// # Errors
    /// When a field is missing or malformed, or the version is another one.
    pub fn from_json(commit: &Value) -> Result<Self, InvalidCommit> {
        let bytes = |name: &'static str| read_bytes(&commit[name]);
        Self::of_fields(commit["ver"].as_u64(), commit["rev"].as_str(), bytes)
    }

    /// The block in a CAR, in canonical DAG-CBOR.
    pub(super) fn to_cbor(&self) -> Vec<u8> {
        let rev = self.rev.to_string();
        cbor_map::encode(vec![
            ("ver", CborValue::Unsigned(VERSION)),
            ("hash", CborValue::Bytes(&self.hash)),
            ("ikm", CborValue::Bytes(&self.ikm)),
            ("mac", CborValue::Bytes(&self.mac)),
            ("rev", CborValue::Text(&rev)),
            ("sig", CborValue::Bytes(&self.sig)),
        ])
    }

    /// Reads the block in a CAR, with fields in any order.
    pub(super) fn from_cbor(block: &[u8]) -> Result<Self, InvalidCommit> {
        let fields = Some(block).filter(|block| block.len() <= MAX_BYTES);
        let fields = fields.and_then(|block| cbor_map::decode(block, 2)).unwrap_or_default();
        let field = |name| fields.iter().find(|(key, _)| *key == name).map(|(_, value)| value);
        let version = match field("ver") {
            Some(CborValue::Unsigned(version)) => Some(*version),
            _ => None,
        };
        let rev = match field("rev") {
            Some(CborValue::Text(rev)) => Some(*rev),
            _ => None,
        };
        let bytes = |name| match field(name) {
            Some(CborValue::Bytes(bytes)) => Some(bytes.to_vec()),
            _ => None,
        };
        Self::of_fields(version, rev, bytes)
    }

    fn of_fields(
        version: Option<u64>,
        rev: Option<&str>,
        bytes: impl Fn(&'static str) -> Option<Vec<u8>>,
    ) -> Result<Self, InvalidCommit> {
        fn sized<const N: usize>(
            name: &'static str,
            bytes: Option<Vec<u8>>,
        ) -> Result<[u8; N], InvalidCommit> {
            bytes.and_then(|bytes| bytes.try_into().ok()).ok_or(InvalidCommit::Field(name))
        }
        if version.ok_or(InvalidCommit::Field("ver"))? != VERSION {
            return Err(InvalidCommit::Version);
        }
        Ok(Self {
            rev: rev.and_then(|rev| Tid::try_from(rev).ok()).ok_or(InvalidCommit::Field("rev"))?,
            hash: sized("hash", bytes("hash"))?,
            ikm: sized("ikm", bytes("ikm"))?,
            mac: sized("mac", bytes("mac"))?,
            sig: sized("sig", bytes("sig"))?,
        })
    }
}

fn context_of(repo: SpaceRepo<'_>, rev: Tid, ikm: &[u8; 32]) -> Vec<u8> {
    context(&repo.space.to_string(), repo.author.as_str(), &rev.to_string(), ikm)
}

/// The tag, then each field after its length in two bytes, big-endian.
fn context(space: &str, author: &str, rev: &str, ikm: &[u8; 32]) -> Vec<u8> {
    let mut context = TAG.to_vec();
    for field in [space.as_bytes(), author.as_bytes(), rev.as_bytes(), ikm] {
        let length = u16::try_from(field.len()).expect("DIDs and NSIDs are shorter than 64 KiB");
        context.extend_from_slice(&length.to_be_bytes());
        context.extend_from_slice(field);
    }
    context
}

fn mac(context: &[u8], ikm: &[u8; 32], hash: &[u8; 32]) -> [u8; 32] {
    MacKey::expand(ikm, context).tag(hash)
}
