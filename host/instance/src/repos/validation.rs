//! Checks records before they are written: one rule for every path that writes, which are procedures without a script,
//! scripts, linked repos, syncs of plugins, and standard methods that are forwarded to a PDS.

use std::fmt;

use bytes::Bytes;
use http::StatusCode;

use super::Repos;
use crate::lexicons::{Mismatch, Snapshot};
use crate::pds::{Write, WriteAction};
use belvedere_base::hand_over_thread::hand_over_thread;
use belvedere_protocol::atproto::record::{self, Inspection, InvalidRecord, Unencodable};
use belvedere_protocol::atproto::{Nsid, RecordKey, RecordUri};
use belvedere_web::http::Error;

/// Whether key and record of a write must match the lexicon of its collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Validation {
    /// They must, if this server has the lexicon.
    Lexicon,
    /// The writer has opted out: only what no repo can store is refused. The index flags the record as invalid.
    Off,
}

/// A record that must not be written.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub struct InvalidWrite {
    /// The number of the write, from 1, and of writes in the commit.
    permit: (usize, usize),
    reason: InvalidReason,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum InvalidReason {
    #[error(transparent)]
    Text(#[from] InvalidRecord),
    #[error(transparent)]
    Unencodable(#[from] Unencodable),
    #[error(transparent)]
    Mismatch(#[from] Mismatch),
}

impl fmt::Display for InvalidWrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { permit, reason } = self;
        match permit {
            (1, 1) => write!(f, "invalid record: {reason}"),
            (number, all) => write!(f, "invalid record ({number} of {all}): {reason}"),
        }
    }
}

impl From<InvalidWrite> for Error {
    /// 400 with the reason.
    fn from(invalid: InvalidWrite) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "InvalidRequest").with_message(invalid.to_string())
    }
}

impl Validation {
    /// Maps an option `validate`.
    pub fn of(validate: bool) -> Self {
        if validate { Self::Lexicon } else { Self::Off }
    }
}

impl Repos {
    /// Checks the writes of one commit: that a repo can store their records, and that key and record match the lexicon.
    /// Deletions are not checked, since a record with a wrong key must be deletable.
    ///
    /// # Errors
    /// The first record that must not be written.
    pub fn check_writes(&self, writes: &[Write], validation: Validation) -> Result<(), InvalidWrite> {
        let snapshot = self.0.registry.snapshot();
        let bytes = writes.iter().filter_map(record_of).map(Bytes::len).sum();
        hand_over_thread(bytes, || {
            writes.iter().enumerate().try_for_each(|(position, write)| {
                check(&snapshot, write, validation)
                    .map_err(|reason| InvalidWrite { permit: (position + 1, writes.len()), reason })
            })
        })
    }

    /// Checks a record that is written to the index only, which may hold what no repo can store, unless it must match its
    /// lexicon.
    ///
    /// # Errors
    /// When it must not be written.
    pub fn check_local(
        &self,
        uri: &RecordUri,
        record: &[u8],
        validation: Validation,
    ) -> Result<Inspection, InvalidWrite> {
        let snapshot = self.0.registry.snapshot();
        let check = || {
            let (inspected, cbor) = record::inspect_encoded(record)?;
            if validation == Validation::Lexicon {
                let encoded = inspected.cid.as_ref().map(|_| &cbor[..]).map_err(|why| *why);
                snapshot.check(uri.collection.as_str(), Some(uri.rkey.as_str()), record, encoded)?;
            }
            Ok(inspected)
        };
        hand_over_thread(record.len(), check).map_err(|reason| InvalidWrite { permit: (1, 1), reason })
    }

    /// The key of a new record: the one that was named, else the only one that the collection's lexicon allows.
    pub fn key_of_new(&self, collection: &Nsid, named: Option<RecordKey>) -> Option<RecordKey> {
        named.or_else(|| self.0.registry.snapshot().key_type(collection.as_str()).literal().cloned())
    }
}

/// The record that is written; a deletion has none.
fn record_of(write: &Write) -> Option<&Bytes> {
    match &write.action {
        WriteAction::Create(record) | WriteAction::Put(record) => Some(record),
        WriteAction::Delete => None,
    }
}

fn check(snapshot: &Snapshot, write: &Write, validation: Validation) -> Result<(), InvalidReason> {
    let Some(record) = record_of(write) else { return Ok(()) };
    let cbor = record::to_cbor(record)?;
    if validation == Validation::Lexicon {
        let rkey = write.rkey.as_ref().map(RecordKey::as_str);
        let encoded = cbor.as_deref().map_err(|why| *why);
        snapshot.check(write.collection.as_str(), rkey, record, encoded)?;
    }
    Ok(cbor.map(drop)?)
}
