//! What the stream tells the rest of the server, apart from changes: things an operator wants to see, and
//! identities whose cached document is out of date.

use crate::atproto::{Did, RecordUri};
use crate::store::index::Change;

/// One thing worth telling. `start` turns them into rows of the event log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    Connected {
        url: String,
    },
    Disconnected {
        reason: String,
    },
    /// The server began later than asked: what lies between may be missing from the index.
    CursorTooOld {
        url: String,
        /// The cursor that was asked for, microseconds.
        cursor: i64,
        /// The first event that came, microseconds.
        first_event: i64,
    },
    /// The record's bytes don't have the CID that the stream claims. The record was not stored.
    CidMismatch {
        uri: RecordUri,
        claimed_cid: String,
        reason: String,
    },
    /// The database refused one record for good; the rest of its batch was stored.
    Rejected {
        uri: RecordUri,
        reason: String,
    },
}

/// Where notices go. Neither call may block: both come from the middle of the stream.
pub trait Observer: Send + Sync + 'static {
    fn notice(&self, notice: Notice);
    /// These changes are in the database (or lost there to something newer). For whoever logs every record.
    fn committed(&self, _changes: &[Change]) {}
    /// The DID's document or handle changed: forget what is cached.
    fn identity_changed(&self, did: &Did);
}
