//! The change of the index that an event of the stream makes, from the filter to the writer.

use bytes::Bytes;

use super::scripts::RecordEvent;
use belvedere_protocol::atproto::{Cid, Did};
use belvedere_storage::store::index::{AccountChange, CheckedRecord};

/// A change of the index, made from one event. The writer commits a repo's changes in order. `R`: what is known of a
/// record.
#[derive(Debug)]
pub(super) enum IndexChange<R = CheckedRecord> {
    Record(RecordEvent<R>),
    Account(AccountChange),
    /// Read the repo again.
    Repair(Did),
}

/// A record that was not checked yet.
#[derive(Debug)]
pub struct ClaimedRecord {
    /// A copy of the record's JSON text: a slice would keep the socket's whole read buffer alive.
    pub text: Bytes,
    pub claim: Claim,
}

/// The CID that the stream or a PDS claims for the record.
#[derive(Debug, PartialEq, Eq)]
pub enum Claim {
    None,
    Cid(Cid),
    /// Not a CID; cut to a length that can be logged.
    Garbage(String),
}

/// Characters of an invalid claim that are kept for the log; a CID has 59.
const MAX_CLAIM_CHARS: usize = 100;

impl Claim {
    /// Parses a claim. `raw` is any JSON text; a valid claim is a quoted CID.
    pub fn parse(raw: &str) -> Self {
        let inner = raw.strip_prefix('"').and_then(|r| r.strip_suffix('"'));
        match inner.and_then(|text| text.parse().ok()) {
            Some(cid) => Self::Cid(cid),
            None => Self::Garbage(raw.chars().take(MAX_CLAIM_CHARS).collect()),
        }
    }
}

impl<R> IndexChange<R> {
    /// The repo of the event. The order of its events must be kept.
    pub(super) fn did(&self) -> &Did {
        match self {
            Self::Record(event) => &event.change.uri.did,
            Self::Account(change) => &change.did,
            Self::Repair(did) => did,
        }
    }

    fn record(&self) -> Option<&R> {
        if let Self::Record(event) = self { event.change.record.as_ref() } else { None }
    }
}

impl IndexChange<ClaimedRecord> {
    /// Bytes of the record's text; 0 without one.
    pub(super) fn record_bytes(&self) -> usize {
        self.record().map_or(0, |record| record.text.len())
    }
}

impl IndexChange {
    /// Bytes of the record's text; 0 without one.
    pub(super) fn record_bytes(&self) -> usize {
        self.record().map_or(0, |record| record.text.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_are_cids_or_bounded_garbage() {
        let good = "\"bafyreiguce4jh7kcbmof3pmcvasifqtw24b6isakj5ve5ga2b4z4alpc4i\"";
        assert!(matches!(Claim::parse(good), Claim::Cid(_)));
        assert_eq!(Claim::parse("12"), Claim::Garbage("12".into()));
        assert!(
            matches!(Claim::parse(&format!("\"{}\"", "é".repeat(5000))), Claim::Garbage(g) if g.chars().count() == 100)
        );
    }
}
