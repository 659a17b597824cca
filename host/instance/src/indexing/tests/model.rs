//! Model tests: random events in random chunks over a random number of shards, with a database that fails at random,
//! result in the same index as the same events applied one by one.

use std::sync::Arc;
use std::time::Duration;

use belvedere_standins::jetstream::{Frame, Place, tid};
use belvedere_standins::postgres;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use proptest::prelude::*;
use serde_json::json;
use tempfile::tempdir;

use crate::indexing::apply::RecordChecker;
use crate::indexing::change::IndexChange;
use crate::indexing::commit::Sink;
use crate::indexing::tally::Tally;
use crate::indexing::testing::{FakeStore, Recorder};
use crate::indexing::{EarlyDecision, NoScripts, RecordAction, RecordEvent, RecordScriptRunner};
use crate::indexing::{filter, frame};
use belvedere_base::clock::{Clock, Timestamp};
use belvedere_storage::store::Db;
use belvedere_storage::store::index::Batch;
use belvedere_storage::store::index::Change;

use super::pipeline::{Layout, Pipeline, committed_until, cursor};
use super::{BASE, NOTE, database, migrated, nsids, visible};

/// One event as the strategy generates it.
#[derive(Clone, Debug)]
enum Event {
    Write { did: u8, rkey: u8, rev: u64, update: bool },
    Delete { did: u8, rkey: u8, rev: u64 },
    Account { did: u8, status: u8 },
    Identity { did: u8 },
    Forged { did: u8, rkey: u8, rev: u64 },
    Untracked { did: u8 },
    Garbage { bytes: Vec<u8> },
}

fn event() -> impl Strategy<Value = Event> {
    let (did, rkey, rev) = (0..4u8, 0..3u8, 1..40u64);
    prop_oneof![
        8 => (did.clone(), rkey.clone(), rev.clone(), any::<bool>())
            .prop_map(|(did, rkey, rev, update)| Event::Write { did, rkey, rev, update }),
        4 => (did.clone(), rkey.clone(), rev.clone()).prop_map(|(did, rkey, rev)| Event::Delete { did, rkey, rev }),
        2 => (did.clone(), 0..4u8).prop_map(|(did, status)| Event::Account { did, status }),
        1 => did.clone().prop_map(|did| Event::Identity { did }),
        1 => (did.clone(), rkey, rev).prop_map(|(did, rkey, rev)| Event::Forged { did, rkey, rev }),
        1 => did.prop_map(|did| Event::Untracked { did }),
        1 => proptest::collection::vec(any::<u8>(), 0..40).prop_map(|bytes| Event::Garbage { bytes }),
    ]
}

/// All records are large, none, or those of later events, whose numbers have more digits.
fn layout() -> impl Strategy<Value = Layout> {
    let large_bytes = prop_oneof![Just(0), Just(record(9).to_string().len()), Just(usize::MAX)];
    (1..5usize, large_bytes).prop_map(|(shards, large_bytes)| Layout { shards, large_bytes })
}

/// Its content names the event that wrote it.
fn record(event: usize) -> serde_json::Value {
    json!({ "$type": NOTE, "event": event })
}

fn encode(event: &Event, i: usize) -> Bytes {
    let time = BASE + i as i64;
    let did = |n: u8| format!("did:plc:{n}");
    let record = record(i);
    let frame = match event {
        Event::Garbage { bytes } => return Bytes::from(bytes.clone()),
        Event::Account { did: n, status } => Frame::account(
            time,
            &did(*n),
            [None, Some("deactivated"), Some("takendown"), Some("deleted")][*status as usize],
        ),
        Event::Identity { did: n } => Frame::identity(time, &did(*n), "a.test"),
        Event::Untracked { did: n } => {
            let place = Place { did: &did(*n), collection: "app.example.other", rkey: "k", rev: &tid(1, 0) };
            Frame::create(time, place, &record)
        }
        Event::Write { did: n, rkey, rev, .. }
        | Event::Delete { did: n, rkey, rev }
        | Event::Forged { did: n, rkey, rev } => {
            let (did, rkey, rev) = (did(*n), format!("k{rkey}"), tid(*rev, 0));
            let place = Place { did: &did, collection: NOTE, rkey: &rkey, rev: &rev };
            match event {
                Event::Write { update: true, .. } => Frame::update(time, place, &record),
                Event::Write { .. } => Frame::create(time, place, &record),
                Event::Delete { .. } => Frame::delete(time, place),
                _ => Frame::forged(time, place, &record),
            }
        }
    };
    frame.text.into()
}

/// Applies the events without the pipeline, one transaction each.
async fn apply_one_by_one(sink: &impl Sink, frames: &[Bytes], scripts: &dyn RecordScriptRunner) {
    let checker = RecordChecker::new(Arc::new(Recorder::default()), Arc::default(), Clock::system());
    for bytes in frames {
        let Ok(frame::Frame::Event(event)) = frame::parse(bytes) else { continue };
        let Ok(change) = filter::filter(&event, &nsids(&[NOTE]).collections, Timestamp(event.time_us)) else {
            continue;
        };
        let batch = match checker.apply(change, &mut Tally::default()) {
            Some(IndexChange::Record(event)) => {
                let decided = if scripts.wants(event.action, &event.change) {
                    scripts.decide(event).await
                } else {
                    Some(event.change)
                };
                Batch { changes: Vec::from_iter(decided), ..Batch::default() }
            }
            Some(IndexChange::Account(account)) => Batch { accounts: vec![account], ..Batch::default() },
            Some(IndexChange::Repair(did)) => Batch { repairs: vec![did], ..Batch::default() },
            None => continue,
        };
        sink.apply(&batch).await.unwrap();
    }
}

/// Sends the events through the pipeline. `between` is called before each chunk, `finished` after the last.
async fn apply_through_pipeline(
    sink: impl Sink + Clone,
    frames: &[Bytes],
    chunks: &[usize],
    layout: Layout,
    scripts: Arc<dyn RecordScriptRunner>,
    between: impl Fn(usize),
    finished: impl AsyncFn(),
) {
    let mut pipeline = Pipeline::start(sink, NOTE, layout, scripts);
    let mut rest = frames;
    for size in chunks.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let (chunk, after) = rest.split_at((*size).min(rest.len()));
        rest = after;
        between(chunk.len());
        pipeline.accept(chunk).await;
    }
    finished().await;
    pipeline.finish().await;
}

/// Time of the last event that is not garbage.
fn last_time(events: &[Event]) -> Option<i64> {
    events.iter().rposition(|e| !matches!(e, Event::Garbage { .. })).map(|i| BASE + i as i64)
}

async fn all_committed(sink: &impl Sink, events: &[Event]) {
    committed_until(sink, last_time(events)).await;
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]
    #[test]
    fn any_chunking_and_sharding_gives_the_same_index(
        events in proptest::collection::vec(event(), 1..200),
        chunks in proptest::collection::vec(1..40usize, 1..6),
        layout in layout(),
        faults in 0..3u32,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let frames: Vec<Bytes> = events.iter().enumerate().map(|(i, event)| encode(event, i)).collect();
            let (expected, got) = (Arc::new(FakeStore::default()), Arc::new(FakeStore::default()));
            apply_one_by_one(&expected, &frames, &NoScripts).await;
            let fail = |chunk: usize| if faults > 0 && chunk.is_multiple_of(3) { got.fail_next(faults) };
            apply_through_pipeline(
                got.clone(), &frames, &chunks, layout, Arc::new(NoScripts), fail, async || all_committed(&got, &events).await,
            ).await;
            prop_assert_eq!(got.visible(), expected.visible());
            // Everything up to the last event is committed.
            prop_assert_eq!(got.cursor(), last_time(&events));
            prop_assert!(got.cursors().is_sorted());
            Ok(())
        })?;
    }
}

/// Scripts that take a different time for each event and skip every fifth.
struct SlowScripts;

impl RecordScriptRunner for SlowScripts {
    fn is_idle(&self) -> bool {
        false
    }

    fn wants(&self, action: RecordAction, change: &Change) -> bool {
        action != RecordAction::Delete || change.uri.rkey.as_str() == "k1"
    }

    fn decide_early(&self, _event: RecordEvent) -> BoxFuture<'_, Option<EarlyDecision>> {
        Box::pin(async { None })
    }

    fn puts_are_alike(&self, _change: &Change) -> bool {
        true
    }

    fn decide(&self, event: RecordEvent) -> BoxFuture<'_, Option<Change>> {
        Box::pin(async move {
            let number = event.change.text().map_or(3, |text| number_of(text));
            tokio::time::sleep(Duration::from_millis(number * 7919 % 50)).await;
            (number % 5 != 0).then_some(event.change)
        })
    }

    fn bypass(&self, event: RecordEvent) -> BoxFuture<'_, Option<Change>> {
        Box::pin(async move { Some(event.change) })
    }
}

/// The number of the event that wrote a record.
fn number_of(record: &[u8]) -> u64 {
    serde_json::from_slice::<serde_json::Value>(record).unwrap()["event"].as_u64().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]
    #[test]
    fn slow_scripts_change_nothing_about_the_order(
        events in proptest::collection::vec(event(), 1..200),
        chunks in proptest::collection::vec(1..40usize, 1..6),
        layout in layout(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let frames: Vec<Bytes> = events.iter().enumerate().map(|(i, event)| encode(event, i)).collect();
            let (expected, got) = (Arc::new(FakeStore::default()), Arc::new(FakeStore::default()));
            apply_one_by_one(&expected, &frames, &SlowScripts).await;
            apply_through_pipeline(
                got.clone(), &frames, &chunks, layout, Arc::new(SlowScripts), |_| (), async || all_committed(&got, &events).await,
            ).await;
            prop_assert_eq!(got.visible(), expected.visible());
            prop_assert!(got.cursors().is_sorted());
            Ok(())
        })?;
    }
}

/// Applies the events one by one to the first database and through the pipeline to the second. Both must be empty.
async fn same_index(
    expected: &Db,
    got: &Db,
    events: &[Event],
    chunks: &[usize],
    layout: Layout,
) -> Result<(), TestCaseError> {
    let frames: Vec<Bytes> = events.iter().enumerate().map(|(i, event)| encode(event, i)).collect();
    apply_one_by_one(expected, &frames, &NoScripts).await;
    let all = async || all_committed(got, events).await;
    apply_through_pipeline(got.clone(), &frames, chunks, layout, Arc::new(NoScripts), |_| (), all).await;
    prop_assert_eq!(visible(got, NOTE).await, visible(expected, NOTE).await);
    prop_assert_eq!(cursor(got).await, last_time(events));
    Ok(())
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(25))]
    #[test]
    fn sqlite_agrees(
        events in proptest::collection::vec(event(), 1..120),
        chunks in proptest::collection::vec(1..40usize, 1..6),
        layout in layout(),
    ) {
        block_on(async {
            let (one, many) = (tempdir().unwrap(), tempdir().unwrap());
            same_index(&database(&one).await, &database(&many).await, &events, &chunks, layout).await
        })?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]
    #[test]
    fn postgres_agrees(
        events in proptest::collection::vec(event(), 1..200),
        chunks in proptest::collection::vec(1..40usize, 1..6),
        layout in layout(),
    ) {
        block_on(async {
            let urls = [postgres::create_database().await, postgres::create_database().await];
            let [one, many] = &urls;
            let (one, many) = (migrated(one).await, migrated(many).await);
            let outcome = same_index(&one, &many, &events, &chunks, layout).await;
            one.close().await;
            many.close().await;
            for url in &urls {
                postgres::drop_database(url);
            }
            outcome
        })?;
    }
}
