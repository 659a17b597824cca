//! A server sends the last seconds again after each subscription.

use std::sync::Arc;

use belvedere_standins::jetstream::synthetic;
use bytes::Bytes;

use crate::indexing::NoScripts;
use crate::indexing::testing::FakeStore;

use super::pipeline::{Layout, Pipeline, committed_until};
use super::{BASE, NOTE};

const EVENTS: usize = 300;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replay_repeats_no_work_and_loses_nothing() {
    for layout in [1, 3]
        .into_iter()
        .flat_map(|shards| [0, usize::MAX].map(|large_bytes| Layout { shards, large_bytes }))
    {
        let store = Arc::new(FakeStore::default());
        let mut pipeline = Pipeline::start(store.clone(), NOTE, layout, Arc::new(NoScripts));
        let frames: Vec<Bytes> = synthetic(EVENTS, 10, NOTE, BASE).map(|frame| frame.text.into()).collect();
        // The database fails at first, so the replay comes while the first copies still wait.
        store.fail_next(5);
        for _ in 0..3 {
            for chunk in frames.chunks(100) {
                pipeline.accept(chunk).await;
            }
        }
        committed_until(&store, Some(BASE + EVENTS as i64 - 1)).await;
        pipeline.finish().await;
        assert_eq!(store.applied_changes(), EVENTS as u64);
        assert_eq!((store.visible().len(), store.cursor()), (EVENTS, Some(BASE + EVENTS as i64 - 1)));
    }
}
