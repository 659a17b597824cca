//! Events of the real network: each is understood, and every CID verifies.

use std::path::PathBuf;
use std::sync::Arc;

use crate::atproto::Nsid;
use crate::clock::Clock;
use crate::indexing::apply::{Applier, Item};
use crate::indexing::tally::Tally;
use crate::indexing::testing::Recorder;
use crate::indexing::{envelope, frame};
use crate::store::index::Change;

#[test]
fn every_cid_of_the_corpus_verifies() {
    let local = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/network/corpus");
    let folder = [local, PathBuf::from("/work/shared/atnet/corpus")].into_iter().find(|f| f.is_dir());
    let Some(folder) = folder else {
        tracing::warn!("skipped: the corpus of network events is not here");
        return;
    };
    let (mut records, mut others) = (0, 0);
    for file in ["expected_v1.jsonl", "golden_v1.jsonl"] {
        let text = std::fs::read_to_string(folder.join(file)).unwrap();
        let recorder = Arc::new(Recorder::default());
        let applier = Applier::new(recorder.clone(), Clock::system());
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            let frame = frame::parse(line.as_bytes()).unwrap();
            let tracked: Vec<Nsid> = match &frame.body {
                frame::Body::Commit(commit) => vec![Nsid::try_from(&*commit.collection).unwrap()],
                _ => Vec::new(),
            };
            let mut tally = Tally::default();
            let envelope = envelope::open(&frame, &tracked).unwrap_or_else(|why| panic!("{why:?}: {line}"));
            match applier.apply(envelope, &mut tally) {
                Some(Item::Change(Change::Upsert(upsert))) => {
                    assert!(upsert.cid_verified, "{line}");
                    records += 1;
                }
                _ => others += 1,
            }
        }
        assert_eq!(recorder.notices(), []);
    }
    assert!(records >= 140 && others >= 4, "{records} records, {others} others");
}
