use std::pin::Pin;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::super::handle::NewBackfill;
use super::super::progress::Progress;
use super::*;
use crate::events::EventLog;
use belvedere_base::clock::{Clock, Timestamp};
use belvedere_base::random::Random;
use belvedere_storage::store::backfill::{Checkpoint, Counters, FinishedRepo};
use belvedere_storage::store::status::{BackfillStatus, Request, Stage};
use belvedere_web::http::event_stream::{self, OPEN_STREAMS};

const COLLECTION: &str = "com.example.note";

struct World {
    db: Db,
    feeds: Feeds,
    drain: CancellationToken,
    _dir: TempDir,
}

type Messages = Pin<Box<dyn Stream<Item = Bytes> + Send>>;

impl World {
    async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(&format!("sqlite://{}/test.db", dir.path().display()), 2).await.unwrap();
        db.migrate().await.unwrap();
        let (clock, random) = (Clock::fixed(Timestamp(1)), Random::seeded(1));
        let (events, _) = EventLog::start(db.clone(), clock.clone(), random.clone());
        let backfills = Backfills::new(db.clone(), events, clock, random);
        let drain = CancellationToken::new();
        let feeds =
            Feeds::new(db.clone(), backfills, event_stream::permits(), TaskTracker::new(), drain.clone());
        Self { db, feeds, drain, _dir: dir }
    }

    async fn job(&self) -> JobRow {
        let new = NewBackfill { collection: Some(COLLECTION.to_owned()), ..NewBackfill::default() };
        let id = self.feeds.0.backfills.create(new).await.unwrap();
        self.row(&id).await
    }

    async fn row(&self, id: &str) -> JobRow {
        backfill::get(&self.db, id).await.unwrap().unwrap()
    }

    async fn seq(&self) -> i64 {
        backfill::next(&self.db).await.unwrap().unwrap().seq
    }

    async fn follow(&self, job: &JobRow) -> Messages {
        let row = self.row(&job.id).await;
        Box::pin(self.feeds.follow(&user("a"), row).unwrap())
    }

    fn send(&self, job: &JobRow, progress: Progress) {
        self.feeds.0.backfills.broadcast.send(&job.id.as_str().into(), || progress);
    }
}

fn user(name: &str) -> Tenant {
    Tenant::of_did(&format!("did:plc:{name}"))
}

fn parse(bytes: &[u8]) -> Vec<Value> {
    let text = std::str::from_utf8(bytes).unwrap();
    let messages = text.strip_suffix("\n\n").expect("whole messages").split("\n\n");
    let data = messages.map(|message| message.strip_prefix("event: event\ndata: ").expect("a message"));
    data.map(|json| serde_json::from_str(json).unwrap()).collect()
}

/// Reads messages until one has the type, which is the last of them.
async fn until(messages: &mut Messages, kind: &str) -> Vec<Value> {
    let mut seen = Vec::new();
    while seen.last().is_none_or(|last: &Value| last["type"] != kind) {
        let bytes = tokio::time::timeout(Duration::from_secs(30), messages.next()).await;
        seen.extend(parse(
            &bytes.expect("a message in time").unwrap_or_else(|| panic!("no {kind}: {seen:?}")),
        ));
    }
    seen
}

fn counters(total: i64, records: i64) -> Counters {
    Counters {
        total_repos: total,
        resolved_repos: total,
        processed_repos: 0,
        failed_repos: 0,
        total_records: records,
    }
}

#[tokio::test]
async fn a_reader_sees_the_state_then_what_happens_and_the_end() {
    let world = World::new().await;
    let job = world.job().await;
    let mut messages = world.follow(&job).await;
    let snapshot = until(&mut messages, "job_snapshot").await;
    let id = &job.id;
    let expected = json!({ "type": "job_snapshot", "job_id": id, "status": "running", "stage": "pending",
        "total_repos": null, "resolved_repos": null, "processed_repos": null, "failed_repos": null, "total_records": null,
        "error_counts": {} });
    assert_eq!(snapshot, [expected]);

    let (did, pds) = ("did:plc:b".to_owned(), "https://pds.example".to_owned());
    let sent = [
        Progress::JobStageChanged { stage: Stage::DiscoveringRepos },
        Progress::RepoDiscovered { did: did.clone() },
        Progress::RepoResolved { did: did.clone(), pds_endpoint: pds.clone() },
        Progress::RepoFetched { did, pds_endpoint: pds, records_fetched: 7 },
        Progress::JobCompleted { status: BackfillStatus::Completed, error: None },
    ];
    for progress in sent.clone() {
        world.send(&job, progress);
    }
    let seen = until(&mut messages, "job_completed").await;
    let expected: Vec<Value> =
        sent.iter().map(|message| serde_json::from_slice(&message.to_json(id)).unwrap()).collect();
    assert_eq!(seen, expected);
    assert!(messages.next().await.is_none(), "the stream ends");
    drop(messages);
    assert_eq!(world.feeds.0.streams.used(), 0);
    assert!(world.feeds.0.lock().is_empty());
}

#[tokio::test]
async fn of_a_job_that_has_ended_only_the_end_is_sent() {
    let world = World::new().await;
    let job = world.job().await;
    backfill::end(&world.db, world.seq().await, Request::Fail, Some("no relay"), Timestamp(5)).await.unwrap();
    let mut messages = world.follow(&job).await;
    let seen = until(&mut messages, "job_completed").await;
    let expected =
        json!({ "type": "job_completed", "job_id": job.id, "status": "failed", "error": "no relay" });
    assert_eq!(seen, [expected]);
    assert!(messages.next().await.is_none());
}

#[tokio::test]
async fn a_job_of_another_host_is_followed_through_its_row() {
    let world = World::new().await;
    let (job, seq) = (world.job().await, world.seq().await);
    let mut messages = world.follow(&job).await;
    until(&mut messages, "job_snapshot").await;
    backfill::save_counters(&world.db, seq, &counters(3, 0)).await.unwrap();
    backfill::set_stage(&world.db, seq, Stage::ResolvingAndFetching).await.unwrap();
    let seen = until(&mut messages, "job_stage_changed").await;
    let last = seen.last().unwrap();
    assert_eq!(last["stage"], "resolving_and_fetching");
    let counted: Vec<_> = seen.iter().filter(|message| message["type"] == "job_counters").collect();
    assert!(!counted.is_empty() && counted.iter().any(|message| message["total_repos"] == 3), "{seen:?}");

    // No message announces a pause.
    backfill::request(&world.db, &job.id, Request::Pause).await.unwrap();
    let seen = until(&mut messages, "job_snapshot").await;
    let last = seen.last().unwrap();
    assert_eq!((&last["status"], &last["total_repos"]), (&json!("pausing"), &json!(3)));

    backfill::save_counters(&world.db, seq, &counters(3, 9)).await.unwrap();
    backfill::end(&world.db, seq, Request::Complete, None, Timestamp(5)).await.unwrap();
    let seen = until(&mut messages, "job_completed").await;
    let kinds: Vec<_> = seen.iter().map(|message| message["type"].as_str().unwrap()).collect();
    assert_eq!(kinds.last_chunk(), Some(&["job_stage_changed", "job_completed"]), "{seen:?}");
    let records = seen.iter().find(|message| message["total_records"] == 9).expect("the last counters");
    assert!(records["total_repos"].is_null(), "unchanged: {records}");
    assert!(messages.next().await.is_none());
}

#[tokio::test]
async fn a_slow_reader_misses_frames_and_gets_a_snapshot() {
    let world = World::new().await;
    let (job, seq) = (world.job().await, world.seq().await);
    let failed =
        FinishedRepo { did: "did:plc:x".to_owned(), records: 0, error: Some(("timeout", "slow".to_owned())) };
    let collection = belvedere_protocol::atproto::Nsid::try_from(COLLECTION).unwrap();
    backfill::add_repos(&world.db, seq, collection.as_str(), std::slice::from_ref(&failed.did), None)
        .await
        .unwrap();
    let checkpoint = Checkpoint { finished: vec![failed], counters: counters(1, 0), ..Checkpoint::default() };
    backfill::checkpoint(&world.db, seq, &checkpoint).await.unwrap();

    let mut slow = world.follow(&job).await;
    until(&mut slow, "job_snapshot").await;
    let feed = Arc::clone(world.feeds.0.lock().get(&job.id).unwrap());
    for at in 0..FRAMES + 10 {
        let mut frame = Vec::new();
        messages::append(&mut frame, &job.id, &Progress::RepoDiscovered { did: at.to_string() });
        feed.frames.send(Frame { bytes: frame.into(), is_last: false }).unwrap();
    }
    let seen = parse(&slow.next().await.unwrap());
    assert_eq!(
        (&seen[0]["type"], &seen[0]["error_counts"]),
        (&json!("job_snapshot"), &json!({ "timeout": 1 }))
    );
    // The latest frames follow.
    let seen = parse(&slow.next().await.unwrap());
    assert_eq!(seen[0]["type"], "repo_discovered");
    assert!(seen[0]["did"].as_str().unwrap().parse::<usize>().unwrap() >= 10, "{seen:?}");
}

#[tokio::test]
async fn many_messages_are_few_frames() {
    let world = World::new().await;
    let job = world.job().await;
    let mut messages = world.follow(&job).await;
    until(&mut messages, "job_snapshot").await;
    for at in 0..2_000 {
        world.send(&job, Progress::RepoDiscovered { did: format!("did:plc:{at:024}") });
    }
    world.send(&job, Progress::JobCompleted { status: BackfillStatus::Completed, error: None });
    let (mut frames, mut discovered) = (0, 0);
    while let Some(bytes) = messages.next().await {
        frames += 1;
        discovered += parse(&bytes).iter().filter(|message| message["type"] == "repo_discovered").count();
    }
    assert_eq!(discovered, 2_000);
    assert!(frames < 40, "{frames} frames");
}

#[tokio::test]
async fn streams_of_a_user_are_bounded_and_released() {
    let world = World::new().await;
    let job = world.job().await;
    let follow = |name: &str| world.feeds.follow(&user(name), job.clone());
    let open: Vec<_> = (0..OPEN_STREAMS.per_tenant).map(|_| follow("a").unwrap()).collect();
    assert_eq!(follow("a").err(), Some(Full::Tenant));
    assert_eq!(world.feeds.0.lock().len(), 1, "one feed for all readers");
    let other = follow("b").unwrap();
    drop(open);
    drop(follow("a").unwrap());
    drop(other);
    // The feed ends after its last reader, and a later reader gets a new one.
    let ended = async {
        while !world.feeds.0.lock().is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), ended).await.expect("the feed ends");
    let mut messages = world.follow(&job).await;
    until(&mut messages, "job_snapshot").await;
    world.drain.cancel();
    assert!(messages.next().await.is_none(), "the server drains");
}
