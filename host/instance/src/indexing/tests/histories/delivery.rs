//! Delivers many histories to one index: the events through the pipeline, which is killed now and then, and the pages
//! beside it.

use std::sync::Arc;

use belvedere_standins::jetstream::{Frame, Place, tid};
use bytes::Bytes;
use futures_util::future::join_all;
use serde_json::{Value, json};

use super::history::{Delivery, Event, Page};
use crate::indexing::testing::Recorder;
use crate::indexing::tests::BASE;
use crate::indexing::tests::pipeline::{Layout, Pipeline, committed_until, cursor};
use crate::indexing::writer::{WriterClosed, WriterHandle};
use crate::indexing::{Claim, ClaimedRecord, NoScripts, RecordChecker};
use belvedere_base::clock::{Clock, Timestamp};
use belvedere_base::random::Random;
use belvedere_protocol::atproto::{Did, Nsid, RecordKey, RecordUri, Tid};
use belvedere_storage::store::Db;
use belvedere_storage::store::backfill::{IndexedRecords, KeyRange};
use belvedere_storage::store::index::{AccountStatus, Change};

/// The pipeline is killed in one of this many phases.
const KILLED_PHASES: u64 = 3;

/// An index that histories are delivered to, one collection for each set of histories.
pub(super) struct Index {
    pub db: Db,
    pub collection: String,
    pub random: Random,
    /// The time of the last frame. All sets share the stream's cursor.
    pub time_us: i64,
    pub kills: u32,
}

/// The deliveries of one history between two pages: the page first.
#[derive(Default)]
struct Phase<'a> {
    page: Option<&'a Page>,
    events: Vec<&'a Event>,
}

fn phases(deliveries: &[Delivery]) -> Vec<Phase<'_>> {
    let mut phases = vec![Phase::default()];
    for delivery in deliveries {
        match delivery {
            Delivery::Page(page) => phases.push(Phase { page: Some(page), events: Vec::new() }),
            Delivery::Event(event) => phases.last_mut().unwrap().events.push(event),
        }
    }
    phases
}

impl Index {
    /// Delivers the histories of the repos with these DIDs, interleaved. Pages are stored after the events before them,
    /// at the same time as those after them.
    pub(super) async fn deliver(&mut self, histories: &[(Did, Vec<Delivery>)]) {
        let histories: Vec<_> = histories.iter().map(|(did, deliveries)| (did, phases(deliveries))).collect();
        let count = histories.iter().map(|(_, phases)| phases.len()).max().unwrap_or(0);
        for n in 0..count {
            let current: Vec<_> =
                histories.iter().filter_map(|(did, phases)| Some((*did, phases.get(n)?))).collect();
            let pages: Vec<_> = current.iter().filter_map(|(did, phase)| Some((*did, phase.page?))).collect();
            let mut frames = Vec::new();
            for nth in 0..current.iter().map(|(_, phase)| phase.events.len()).max().unwrap_or(0) {
                for (did, phase) in &current {
                    if let Some(event) = phase.events.get(nth) {
                        self.time_us += 1;
                        frames.push((self.time_us, frame(did, &self.collection, event, self.time_us)));
                    }
                }
            }
            self.run_phase(&frames, &pages).await;
        }
    }

    async fn run_phase(&mut self, frames: &[(i64, Bytes)], pages: &[(&Did, &Page)]) {
        let mut from = 0;
        if self.random.u64().is_multiple_of(KILLED_PHASES) {
            let until = (self.random.u64() % (frames.len() as u64 + 1)) as usize;
            let mut pipeline = self.pipeline();
            // Some pages are stored before the kill, and all again after it.
            let some = &pages[..(self.random.u64() % (pages.len() as u64 + 1)) as usize];
            let storing = self.store(pipeline.local.clone(), some);
            let (stored, ()) = futures_util::join!(storing, self.accept(&mut pipeline, &frames[..until]));
            assert!(stored.iter().all(Result::is_ok));
            pipeline.kill().await;
            self.kills += 1;
            let cursor = cursor(&self.db).await.unwrap_or_default();
            // The stream begins with the event at the cursor.
            from = frames.partition_point(|(time_us, _)| *time_us < cursor).min(until);
        }
        let mut pipeline = self.pipeline();
        let storing = self.store(pipeline.local.clone(), pages);
        let (stored, ()) = futures_util::join!(storing, self.accept(&mut pipeline, &frames[from..]));
        assert!(stored.iter().all(Result::is_ok));
        committed_until(&self.db, frames.last().map(|(time_us, _)| *time_us)).await;
        pipeline.finish().await;
    }

    fn pipeline(&self) -> Pipeline {
        let shards = 1 + (self.random.u64() % 3) as usize;
        let large_bytes = (self.random.u64() % 100) as usize;
        let layout = Layout { shards, large_bytes };
        Pipeline::start(self.db.clone(), &self.collection, layout, Arc::new(NoScripts))
    }

    async fn accept(&self, pipeline: &mut Pipeline, frames: &[(i64, Bytes)]) {
        let mut rest = frames;
        while !rest.is_empty() {
            let size = 1 + (self.random.u64() % 256) as usize;
            let (chunk, after) = rest.split_at(size.min(rest.len()));
            rest = after;
            let chunk: Vec<Bytes> = chunk.iter().map(|(_, frame)| frame.clone()).collect();
            pipeline.accept(&chunk).await;
        }
    }

    async fn store(&self, writer: WriterHandle, pages: &[(&Did, &Page)]) -> Vec<Result<(), WriterClosed>> {
        join_all(pages.iter().map(|(did, page)| store_page(&self.db, &writer, did, &self.collection, page)))
            .await
    }
}

/// Stores a page as a backfill does.
async fn store_page(
    db: &Db,
    writer: &WriterHandle,
    did: &Did,
    collection: &str,
    page: &Page,
) -> Result<(), WriterClosed> {
    let collection = Nsid::try_from(collection).unwrap();
    let rev = Tid::new(page.rev, 0).unwrap();
    let index = IndexedRecords::open(db, did, &collection, Clock::system().now()).await.unwrap();
    let rows = index.in_range(&KeyRange::default(), 1_000).await.unwrap();
    let checker = RecordChecker::new(Arc::new(Recorder::default()), Arc::default(), Clock::system());
    let uri = |rkey| RecordUri { did: did.clone(), collection: collection.clone(), rkey };
    let mut changes = Vec::new();
    for (key, value) in &page.records {
        let (rkey, record) = (rkey(*key), record(collection.as_str(), *value));
        let claim = Claim::parse(&format!("\"{}\"", belvedere_standins::jetstream::cid_of(&record)));
        let known = rows.iter().find(|row| row.rkey == rkey);
        if known.is_some_and(|row| row.cid.is_some_and(|cid| claim == Claim::Cid(cid))) {
            continue;
        }
        let record = Some(ClaimedRecord { text: record.to_string().into(), claim });
        changes.extend(checker.accept(Change { uri: uri(rkey), rev, record }));
    }
    for row in rows {
        if row.rev < rev.as_u64() && page.records.keys().all(|key| rkey(*key) != row.rkey) {
            changes.push(Change { uri: uri(row.rkey), rev, record: None });
        }
    }
    writer.submit_all(changes).await.map(|refused| assert!(refused.is_empty()))
}

pub(super) fn rkey(key: u8) -> RecordKey {
    RecordKey::try_from(format!("k{key}").as_str()).unwrap()
}

/// The one link of a record with this value.
pub(super) fn link(value: u64) -> String {
    format!("at://linked/{value}")
}

pub(super) fn record(collection: &str, value: u64) -> Value {
    json!({ "$type": collection, "value": value, "subject": link(value) })
}

fn frame(did: &Did, collection: &str, event: &Event, time_us: i64) -> Bytes {
    let did = did.as_str();
    let commit = |key: u8, rev: u64, make: &dyn Fn(Place<'_>) -> Frame| {
        let (rkey, rev) = (rkey(key), tid(rev, 0));
        make(Place { did, collection, rkey: rkey.as_str(), rev: &rev })
    };
    let frame = match event {
        Event::Put { key, rev, value } => {
            let record = record(collection, *value);
            commit(*key, *rev, &|place| Frame::update(time_us, place, &record))
        }
        Event::Delete { key, rev } => commit(*key, *rev, &|place| Frame::delete(time_us, place)),
        Event::Account { status, at } => {
            let name = (*status != AccountStatus::Active).then(|| status.as_str());
            // As servers write it, in milliseconds.
            let time = format!("{:.23}Z", Timestamp(*at as i64).to_string());
            Frame::account_at(time_us, did, name, &time)
        }
        Event::Identity => Frame::identity(time_us, did, "moved.test"),
        Event::Sync { rev } => Frame::sync(time_us, did, &tid(*rev, 0)),
    };
    frame.text.into()
}

/// The time before the first frame: later than all events, and close enough to them to be plausible.
pub(super) const FIRST_TIME: i64 = BASE + 1_000_000;
