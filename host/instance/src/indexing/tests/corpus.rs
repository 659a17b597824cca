//! Captured events of the real network: each is parsed, and every CID verifies.

use std::sync::Arc;

use belvedere_standins::vectors;

use crate::indexing::apply::RecordChecker;
use crate::indexing::change::IndexChange;
use crate::indexing::frame::{self, EventKind};
use crate::indexing::stream::Inflate;
use crate::indexing::tally::Tally;
use crate::indexing::testing::Recorder;
use crate::indexing::{RecordEvent, filter};
use belvedere_base::clock::{Clock, Timestamp};
use belvedere_protocol::atproto::Nsid;
use belvedere_storage::store::index::Change;

#[test]
fn every_cid_of_the_corpus_verifies() {
    let Some(folder) = vectors::corpus() else { return };
    let (mut records, mut others) = (0, 0);
    for file in ["expected_v1.jsonl", "golden_v1.jsonl"] {
        let text = std::fs::read_to_string(folder.join(file)).unwrap();
        let recorder = Arc::new(Recorder::default());
        let checker = RecordChecker::new(recorder.clone(), Arc::default(), Clock::system());
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            let event = frame::parse(line.as_bytes()).unwrap().into_event().unwrap();
            let tracked: Vec<Nsid> = match &event.kind {
                EventKind::Commit(commit) => vec![Nsid::try_from(&*commit.collection).unwrap()],
                EventKind::Identity => {
                    others += 1;
                    continue;
                }
                _ => Vec::new(),
            };
            let mut tally = Tally::default();
            let change = filter::filter(&event, &tracked, Timestamp(event.time_us))
                .unwrap_or_else(|why| panic!("{why:?}: {line}"));
            match checker.apply(change, &mut tally) {
                Some(IndexChange::Record(RecordEvent {
                    change: Change { record: Some(record), .. },
                    ..
                })) => {
                    assert!(record.cid_verified, "{line}");
                    records += 1;
                }
                _ => others += 1,
            }
        }
        assert_eq!(recorder.reports(), []);
    }
    assert!(records >= 140 && others >= 4, "{records} records, {others} others");
}

/// With the public servers' dictionary, frames that were compressed with it are decompressed.
#[test]
fn the_public_dictionary_inflates() {
    let Some(folder) = vectors::corpus() else { return };
    let dictionary = std::fs::read(folder.join("legacy_subscribe.zdict")).unwrap();
    let text = std::fs::read_to_string(folder.join("expected_v1.jsonl")).unwrap();
    let mut compressor = zstd::bulk::Compressor::with_dictionary(1, &dictionary).unwrap();
    let mut inflate = Inflate::new(&dictionary).unwrap();
    for line in text.lines() {
        let packed = compressor.compress(line.as_bytes()).unwrap();
        assert!(packed.len() < line.len());
        assert_eq!(inflate.inflate(&packed).as_deref(), Some(line.as_bytes()));
    }
}
