//! Turns events into changes: checks each record's CID and collects its references, in one pass. Most of the pipeline's
//! CPU time is spent here.

use std::fmt;
use std::sync::Arc;

use crate::lexicons::Registry;
use belvedere_base::clock::Clock;
use belvedere_base::hand_over_thread::hand_over_thread;
use belvedere_protocol::atproto::record::{self, InvalidRecord};
use belvedere_protocol::atproto::{Did, RecordUri};
use belvedere_storage::store::index::{AccountChange, Change, Upsert, Validity};

use super::envelope::{Candidate, Claim, Envelope};
use super::notice::{Notice, Observer};
use super::tally::{DropReason, Tally};
use super::throttle::Throttle;

/// A change of the index, made from one event. The writer commits a repo's changes in order.
#[derive(Debug)]
pub(super) enum IndexChange {
    Record(Change),
    Account(AccountChange),
    /// Read the repo again.
    Repair(Did),
}

/// CID mismatches that are reported in a burst, and the interval between reports after that. A server that sends only
/// wrong CIDs shows in the counter, not as millions of rows in the event log.
const MISMATCH_BURST: u32 = 20;
const MISMATCH_EVERY_US: i64 = 10_000_000;

/// Turns events into changes. Shared by the shards.
pub(super) struct Applier {
    observer: Arc<dyn Observer>,
    checker: RecordChecker,
}

/// Checks records against the CIDs that are claimed for them, and reports mismatches within bounds. Validates them
/// against their lexicons.
pub struct RecordChecker {
    observer: Arc<dyn Observer>,
    registry: Arc<Registry>,
    mismatches: Throttle,
}

/// Why a record is not indexed.
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

impl Applier {
    pub(super) fn new(observer: Arc<dyn Observer>, registry: Arc<Registry>, clock: Clock) -> Self {
        Self { checker: RecordChecker::new(Arc::clone(&observer), registry, clock), observer }
    }

    /// `None` when there is nothing to commit; a dropped event is counted in `tally`.
    pub(super) fn apply(&self, envelope: Envelope, tally: &mut Tally) -> Option<IndexChange> {
        match envelope {
            Envelope::Record(candidate) => match self.checker.accept(candidate) {
                Ok(upsert) => Some(IndexChange::Record(Change::Upsert(upsert))),
                Err(why) => {
                    tally.drop(match why {
                        RefusedRecord::Invalid(_) => DropReason::BadRecord,
                        RefusedRecord::CidMismatch => DropReason::CidMismatch,
                    });
                    None
                }
            },
            Envelope::Delete(delete) => Some(IndexChange::Record(Change::Delete(delete))),
            Envelope::Account(change) => Some(IndexChange::Account(change)),
            Envelope::Sync(did) => Some(IndexChange::Repair(did)),
            Envelope::Identity(did) => {
                tally.identities += 1;
                self.observer.identity_changed(&did);
                None
            }
        }
    }

    /// Validates what a script has made of a record.
    pub(super) fn validate(&self, change: &mut Change) {
        validate(&self.checker.registry, std::slice::from_mut(change));
    }
}

/// Validates the records that a script or a client of this server wrote. Those of the stream and of backfills are
/// validated when they are checked.
pub(super) fn validate(registry: &Registry, changes: &mut [Change]) {
    let mut unchecked: Vec<&mut Upsert> = changes.iter_mut().filter_map(unchecked).collect();
    let bytes = unchecked.iter().map(|upsert| upsert.record.len()).sum();
    hand_over_thread(bytes, || {
        for upsert in &mut unchecked {
            let (collection, rkey) = (upsert.collection.as_str(), upsert.rkey.as_str());
            upsert.validity = registry.snapshot().validate(collection, rkey, &upsert.record);
        }
    });
}

/// The record of a change, if it was not validated yet.
fn unchecked(change: &mut Change) -> Option<&mut Upsert> {
    match change {
        Change::Upsert(upsert) if upsert.validity == Validity::Unchecked => Some(upsert),
        Change::Upsert(_) | Change::Delete(_) => None,
    }
}

impl RecordChecker {
    pub fn new(observer: Arc<dyn Observer>, registry: Arc<Registry>, clock: Clock) -> Self {
        Self { observer, registry, mismatches: Throttle::new(clock, MISMATCH_BURST, MISMATCH_EVERY_US) }
    }

    /// Checks a record. A CID that matches is stored as verified. A CID that can't be checked, because the record has
    /// no DAG-CBOR form (a float, a bad `$link`), is stored as claimed. When the CID does not match, the event is
    /// dropped, and the mismatch is reported.
    ///
    /// # Errors
    /// Why the record is not indexed.
    pub fn accept(&self, candidate: Candidate) -> Result<Upsert, RefusedRecord> {
        let (inspected, cbor) = record::inspect_encoded(&candidate.record)?;
        let (cid, cid_verified) = match (&candidate.claim, &inspected.cid) {
            (Claim::Cid(claimed), Ok(computed)) if claimed == computed => (Some(*claimed), true),
            (Claim::Cid(claimed), Err(_)) => (Some(*claimed), false),
            (Claim::None, _) => (None, false),
            (Claim::Cid(claimed), Ok(computed)) => {
                self.mismatch(&candidate, claimed.to_string(), format!("the record's CID is {computed}"));
                return Err(RefusedRecord::CidMismatch);
            }
            (Claim::Garbage(text), _) => {
                self.mismatch(&candidate, text.clone(), "the claimed CID is not a CID".to_owned());
                return Err(RefusedRecord::CidMismatch);
            }
        };
        let Candidate { did, collection, rkey, rev, record, claim: _, action: _ } = candidate;
        let encoded = inspected.cid.as_ref().map(|_| cbor.as_slice()).map_err(|why| *why);
        let snapshot = self.registry.snapshot();
        let validity = snapshot.validate_encoded(collection.as_str(), rkey.as_str(), &record, encoded);
        let record = inspected.canonical.unwrap_or(record);
        Ok(Upsert { did, collection, rkey, rev, cid, cid_verified, record, refs: inspected.refs, validity })
    }

    fn mismatch(&self, candidate: &Candidate, claimed_cid: String, mut reason: String) {
        let Some(held_back) = self.mismatches.pass() else { return };
        if held_back > 0 {
            reason = format!("{reason} (and {held_back} more since the last report)");
        }
        let Candidate { did, collection, rkey, .. } = candidate;
        let uri = RecordUri { did: did.clone(), collection: collection.clone(), rkey: rkey.clone() };
        tracing::warn!(%uri, claimed_cid, reason, "a record does not match its CID");
        self.observer.notice(Notice::CidMismatch { uri, claimed_cid, reason });
    }
}

#[cfg(test)]
mod tests {
    use belvedere_base::clock::Timestamp;

    use super::super::testing::Recorder;
    use super::super::{envelope, frame};
    use super::*;
    use belvedere_protocol::atproto::Nsid;

    /// `{"$type":"app.example.note","text":"hi"}`
    const CID: &str = "bafyreiat2a6lmxj2shvrvtt6fbb6bg7tedu5nr4xcwpyrtukh6v5rt5jnu";

    fn run(applier: &Applier, record: &str, cid: &str, tally: &mut Tally) -> Option<Upsert> {
        let text = format!(
            r#"{{"did":"did:plc:a","time_us":1,"kind":"commit","commit":{{"collection":"app.example.note","rkey":"self",
            "rev":"3mptbypluud2a","operation":"create","record":{record}{cid}}}}}"#
        );
        let tracked = [Nsid::try_from("app.example.note").unwrap()];
        let envelope = envelope::filter(
            &frame::parse(text.as_bytes()).unwrap().into_event().unwrap(),
            &tracked,
            Timestamp(1),
        )
        .unwrap();
        match applier.apply(envelope, tally) {
            Some(IndexChange::Record(Change::Upsert(upsert))) => Some(upsert),
            None => None,
            other => panic!("{other:?}"),
        }
    }

    fn applier() -> (Applier, Arc<Recorder>) {
        let recorder = Arc::new(Recorder::default());
        (Applier::new(recorder.clone(), Arc::default(), Clock::fixed(Timestamp(0))), recorder)
    }

    fn true_cid(record: &str) -> String {
        record::inspect(record.as_bytes()).unwrap().cid.unwrap().to_string()
    }

    #[test]
    fn verified_unverified_and_unclaimed() {
        let (applier, recorder) = applier();
        let mut tally = Tally::default();
        let note = r#"{"$type":"app.example.note","of":"at://did:plc:b/app.example.note/x"}"#;
        let stored = run(&applier, note, &format!(r#","cid":"{}""#, true_cid(note)), &mut tally).unwrap();
        assert!(stored.cid_verified && stored.cid.is_some());
        assert_eq!(stored.refs, ["at://did:plc:b/app.example.note/x"]);
        let stored = run(&applier, note, "", &mut tally).unwrap();
        assert_eq!((stored.cid, stored.cid_verified), (None, false));
        let stored = run(&applier, r#"{"x":1.5}"#, &format!(r#","cid":"{CID}""#), &mut tally).unwrap();
        assert!(!stored.cid_verified && stored.cid.is_some(), "no DAG-CBOR form: stored as claimed");
        assert!(recorder.notices().is_empty());
    }

    #[test]
    fn a_mismatch_is_dropped_counted_and_reported_within_bounds() {
        let (applier, recorder) = applier();
        let mut tally = Tally::default();
        for _ in 0..1000 {
            assert!(run(&applier, r#"{"a":1}"#, &format!(r#","cid":"{CID}""#), &mut tally).is_none());
        }
        assert_eq!(tally.dropped(DropReason::CidMismatch), 1000);
        assert_eq!(recorder.notices().len(), MISMATCH_BURST as usize);
        assert!(
            matches!(&recorder.notices()[0], Notice::CidMismatch { claimed_cid, .. } if claimed_cid == CID)
        );
        assert!(run(&applier, r#"{"a":1}"#, r#","cid":17"#, &mut tally).is_none());
        assert_eq!(tally.dropped(DropReason::CidMismatch), 1001);
    }

    #[test]
    fn records_that_are_too_large_or_no_objects_are_dropped() {
        let (applier, _) = applier();
        let mut tally = Tally::default();
        let huge = format!(r#"{{"text":"{}"}}"#, "x".repeat(2_000_000));
        assert!(run(&applier, &huge, "", &mut tally).is_none());
        assert!(run(&applier, "[1]", "", &mut tally).is_none());
        assert_eq!(tally.dropped(DropReason::BadRecord), 2);
    }
}
