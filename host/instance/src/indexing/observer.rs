//! The interface through which the stream reports to the rest of the server: what the operator should know, committed
//! changes, and DIDs whose cached document is outdated.

use belvedere_protocol::atproto::{Did, RecordUri};
use belvedere_storage::store::gaps::Gap;
use belvedere_storage::store::index::{AccountStatus, Change};

use super::published::PublishedLexicon;

/// Something that the operator should know. The app writes each as a row of the event log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamReport {
    Connected {
        url: String,
    },
    Disconnected {
        reason: String,
    },
    /// Events of a period may be missing from the index. The gap is stored.
    Gap {
        url: String,
        gap: Gap,
    },
    /// The record's CID is not the one that the stream claims. The record was not stored.
    CidMismatch {
        uri: RecordUri,
        claimed_cid: String,
        reason: String,
    },
    /// An account with records in the index has another status.
    AccountStatus {
        did: Did,
        status: AccountStatus,
    },
    /// The database refused one record repeatedly; the rest of its batch was stored.
    Rejected {
        uri: RecordUri,
        reason: String,
    },
}

/// Receives the stream's reports. No method may block: the pipeline's tasks call them.
pub trait Observer: Send + Sync + 'static {
    fn report(&self, report: StreamReport);
    /// These changes are committed, or were ignored because the index has a newer `rev`. Used for the verbose event
    /// log.
    fn committed(&self, _changes: &[Change]) {}
    /// The DID's document or handle changed, so cached copies are outdated.
    fn identity_changed(&self, did: &Did);
    /// An account has published, changed or deleted a lexicon. Called only while lexicons of the network are followed.
    fn lexicon_published(&self, _published: PublishedLexicon) {}
}
