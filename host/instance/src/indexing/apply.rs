//! Checks the records of changes: each one's CID, its references and its lexicon, in one pass. Most of the pipeline's
//! CPU time is spent here.

use std::fmt;
use std::sync::Arc;

use crate::lexicons::Registry;
use belvedere_base::clock::Clock;
use belvedere_base::hand_over_thread::hand_over_thread;
use belvedere_protocol::atproto::RecordUri;
use belvedere_protocol::atproto::record::{self, InvalidRecord};
use belvedere_storage::store::index::{Change, CheckedRecord, Validity};

use super::change::{Claim, ClaimedRecord, IndexChange};
use super::observer::{Observer, StreamReport};
use super::scripts::RecordEvent;
use super::tally::{DropReason, Tally};
use super::throttle::Throttle;

/// CID mismatches that are reported in a burst, and the interval between reports after that. A server that sends only
/// wrong CIDs shows in the counter, not as millions of rows in the event log.
const MISMATCH_BURST: u32 = 20;
const MISMATCH_EVERY_US: i64 = 10_000_000;

/// Checks records against the CIDs that are claimed for them, and reports mismatches within bounds. Validates them
/// against their lexicons.
pub struct RecordChecker {
    observer: Arc<dyn Observer>,
    registry: Arc<Registry>,
    mismatches: Throttle,
}

/// The reason why a record is not indexed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RefusedRecord {
    #[error(transparent)]
    Invalid(#[from] InvalidRecord),
    #[error("the record does not match its CID")]
    CidMismatch,
}

impl fmt::Debug for RecordChecker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordChecker").field("mismatches", &self.mismatches).finish_non_exhaustive()
    }
}

/// Validates the records that a script or a client of this server wrote. Those of the stream and of backfills are
/// validated when they are checked.
pub(super) fn validate(registry: &Registry, changes: &mut [Change]) {
    let mut unchecked: Vec<_> = changes.iter_mut().filter_map(unchecked).collect();
    let bytes = unchecked.iter().map(|(_, record)| record.text.len()).sum();
    hand_over_thread(bytes, || {
        for (uri, record) in &mut unchecked {
            let (collection, rkey) = (uri.collection.as_str(), uri.rkey.as_str());
            record.validity = registry.snapshot().validate(collection, rkey, &record.text);
        }
    });
}

/// The record of a change, if it was not validated yet.
fn unchecked(change: &mut Change) -> Option<(&RecordUri, &mut CheckedRecord)> {
    let Change { uri, record, .. } = change;
    record.as_mut().filter(|record| record.validity == Validity::Unchecked).map(|record| (&*uri, record))
}

impl RecordChecker {
    pub fn new(observer: Arc<dyn Observer>, registry: Arc<Registry>, clock: Clock) -> Self {
        Self { observer, registry, mismatches: Throttle::new(clock, MISMATCH_BURST, MISMATCH_EVERY_US) }
    }

    /// `None` when the event is dropped, which is counted in `tally`.
    pub(super) fn apply(&self, change: IndexChange<ClaimedRecord>, tally: &mut Tally) -> Option<IndexChange> {
        Some(match change {
            IndexChange::Account(change) => IndexChange::Account(change),
            IndexChange::Repair(did) => IndexChange::Repair(did),
            IndexChange::Record(RecordEvent { action, change }) => match self.accept(change) {
                Ok(change) => IndexChange::Record(RecordEvent { action, change }),
                Err(why) => {
                    tally.drop(match why {
                        RefusedRecord::Invalid(_) => DropReason::BadRecord,
                        RefusedRecord::CidMismatch => DropReason::CidMismatch,
                    });
                    return None;
                }
            },
        })
    }

    /// Validates what a script has made of a record.
    pub(super) fn validate(&self, change: &mut Change) {
        validate(&self.registry, std::slice::from_mut(change));
    }

    /// Checks the record of a change. A CID that matches is stored as verified. A CID that can't be checked, because the
    /// record has no DAG-CBOR form (a float, a bad `$link`), is stored as claimed. When the CID does not match, the change
    /// is dropped, and the mismatch is reported.
    ///
    /// # Errors
    /// The reason why the record is not indexed.
    pub fn accept(&self, change: Change<ClaimedRecord>) -> Result<Change, RefusedRecord> {
        let Change { uri, rev, record } = change;
        let Some(ClaimedRecord { text, claim }) = record else {
            return Ok(Change { uri, rev, record: None });
        };
        let (inspected, cbor) = record::inspect_encoded(&text)?;
        let (cid, cid_verified) = match (claim, &inspected.cid) {
            (Claim::Cid(claimed), Ok(computed)) if claimed == *computed => (Some(claimed), true),
            (Claim::Cid(claimed), Err(_)) => (Some(claimed), false),
            (Claim::None, _) => (None, false),
            (Claim::Cid(claimed), Ok(computed)) => {
                self.mismatch(uri, claimed.to_string(), format!("the record's CID is {computed}"));
                return Err(RefusedRecord::CidMismatch);
            }
            (Claim::Garbage(text), _) => {
                self.mismatch(uri, text, "the claimed CID is not a CID".to_owned());
                return Err(RefusedRecord::CidMismatch);
            }
        };
        let encoded = inspected.cid.as_ref().map(|_| cbor.as_slice()).map_err(|why| *why);
        let snapshot = self.registry.snapshot();
        let validity = snapshot.validate_encoded(uri.collection.as_str(), uri.rkey.as_str(), &text, encoded);
        let (text, refs) = (inspected.canonical.unwrap_or(text), inspected.refs);
        Ok(Change { uri, rev, record: Some(CheckedRecord { text, cid, cid_verified, refs, validity }) })
    }

    fn mismatch(&self, uri: RecordUri, claimed_cid: String, mut reason: String) {
        let Some(held_back) = self.mismatches.pass() else { return };
        if held_back > 0 {
            reason = format!("{reason} (and {held_back} more since the last report)");
        }
        tracing::warn!(%uri, claimed_cid, reason, "a record does not match its CID");
        self.observer.report(StreamReport::CidMismatch { uri, claimed_cid, reason });
    }
}

#[cfg(test)]
mod tests {
    use belvedere_base::clock::Timestamp;

    use super::super::testing::Recorder;
    use super::super::{filter, frame};
    use super::*;
    use belvedere_protocol::atproto::Nsid;

    /// `{"$type":"app.example.note","text":"hi"}`
    const CID: &str = "bafyreiat2a6lmxj2shvrvtt6fbb6bg7tedu5nr4xcwpyrtukh6v5rt5jnu";

    fn run(checker: &RecordChecker, record: &str, cid: &str, tally: &mut Tally) -> Option<CheckedRecord> {
        let text = format!(
            r#"{{"did":"did:plc:a","time_us":1,"kind":"commit","commit":{{"collection":"app.example.note","rkey":"self",
            "rev":"3mptbypluud2a","operation":"create","record":{record}{cid}}}}}"#
        );
        let tracked = [Nsid::try_from("app.example.note").unwrap()];
        let change = filter::filter(
            &frame::parse(text.as_bytes()).unwrap().into_event().unwrap(),
            &tracked,
            Timestamp(1),
        )
        .unwrap();
        match checker.apply(change, tally) {
            Some(IndexChange::Record(event)) => event.change.record,
            None => None,
            other => panic!("{other:?}"),
        }
    }

    fn checker() -> (RecordChecker, Arc<Recorder>) {
        let recorder = Arc::new(Recorder::default());
        (RecordChecker::new(recorder.clone(), Arc::default(), Clock::fixed(Timestamp(0))), recorder)
    }

    fn true_cid(record: &str) -> String {
        record::inspect(record.as_bytes()).unwrap().cid.unwrap().to_string()
    }

    #[test]
    fn verified_unverified_and_unclaimed() {
        let (checker, recorder) = checker();
        let mut tally = Tally::default();
        let note = r#"{"$type":"app.example.note","of":"at://did:plc:b/app.example.note/x"}"#;
        let stored = run(&checker, note, &format!(r#","cid":"{}""#, true_cid(note)), &mut tally).unwrap();
        assert!(stored.cid_verified && stored.cid.is_some());
        assert_eq!(stored.refs.len(), 1);
        assert_eq!(stored.refs[0].target, "at://did:plc:b/app.example.note/x");
        let stored = run(&checker, note, "", &mut tally).unwrap();
        assert_eq!((stored.cid, stored.cid_verified), (None, false));
        let stored = run(&checker, r#"{"x":1.5}"#, &format!(r#","cid":"{CID}""#), &mut tally).unwrap();
        assert!(!stored.cid_verified && stored.cid.is_some(), "no DAG-CBOR form: stored as claimed");
        assert!(recorder.reports().is_empty());
    }

    #[test]
    fn a_mismatch_is_dropped_counted_and_reported_within_bounds() {
        let (checker, recorder) = checker();
        let mut tally = Tally::default();
        for _ in 0..1000 {
            assert!(run(&checker, r#"{"a":1}"#, &format!(r#","cid":"{CID}""#), &mut tally).is_none());
        }
        assert_eq!(tally.dropped(DropReason::CidMismatch), 1000);
        assert_eq!(recorder.reports().len(), MISMATCH_BURST as usize);
        assert!(
            matches!(&recorder.reports()[0], StreamReport::CidMismatch { claimed_cid, .. } if claimed_cid == CID)
        );
        assert!(run(&checker, r#"{"a":1}"#, r#","cid":17"#, &mut tally).is_none());
        assert_eq!(tally.dropped(DropReason::CidMismatch), 1001);
    }

    #[test]
    fn records_that_are_too_large_or_no_objects_are_dropped() {
        let (checker, _) = checker();
        let mut tally = Tally::default();
        let huge = format!(r#"{{"text":"{}"}}"#, "x".repeat(2_000_000));
        assert!(run(&checker, &huge, "", &mut tally).is_none());
        assert!(run(&checker, "[1]", "", &mut tally).is_none());
        assert_eq!(tally.dropped(DropReason::BadRecord), 2);
    }
}
