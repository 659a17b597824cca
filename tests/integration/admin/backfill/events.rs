//! The progress stream.

use crate::fixtures::World;
use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::{control, get, job, start, until, with_endless_discovery};
use crate::fixtures::{ALICE, BOB, NOTES};
use crate::support::event_stream::{self, EventStream};
use crate::support::instance::Instance;

/// Streams that one user may have open.
const MAX_STREAMS: usize = 128;

/// The open stream of a job.
struct Events(EventStream);

/// Opens a job's stream, or returns the status of the refusal.
async fn open(server: &Instance, id: &str) -> Result<Events, StatusCode> {
    event_stream::open(server, &format!("/admin/backfill/{id}/events")).await.map(Events)
}

impl Events {
    /// The next message; `None` after the last.
    async fn next(&mut self) -> Option<Value> {
        let message = self.0.next().await?;
        let data = message.strip_prefix("event: event\ndata: ").unwrap_or_else(|| panic!("{message}"));
        Some(serde_json::from_str(data).unwrap())
    }

    /// All messages until the stream ends.
    async fn rest(&mut self) -> Vec<Value> {
        let mut messages = Vec::new();
        while let Some(message) = self.next().await {
            messages.push(message);
        }
        messages
    }
}

crate::in_both_worlds!(
    a_reader_follows_a_job_to_its_end,
    a_reader_of_a_waiting_job_sees_everything,
    a_stream_stays_open_over_a_pause_and_ends_with_the_job_or_the_server,
    one_user_can_not_open_streams_without_end
);

async fn a_reader_follows_a_job_to_its_end(world: World) {
    world.repo(ALICE, &["a", "b"]);
    world.repo(BOB, &["c"]);
    let world = world.with_notes().await;
    let server = &world.server;
    // The job waits behind this one until its reader is there.
    let before = start(server, json!({ "did": ALICE })).await;
    until(server, &before, "completed").await;
    let id = start(server, json!({ "collection": NOTES })).await;
    let mut events = open(server, &id).await.unwrap();
    assert_eq!(events.0.headers["content-type"], "text/event-stream");
    assert_eq!(events.0.headers["cache-control"], "no-cache");
    let messages = events.rest().await;
    assert!(messages.iter().all(|message| message["job_id"] == id), "{messages:#?}");
    let last = json!({ "type": "job_completed", "job_id": id, "status": "completed", "error": null });
    assert_eq!(messages.last(), Some(&last), "{messages:#?}");
    until(server, &id, "completed").await;

    // A job that has ended sends that event only.
    let mut events = open(server, &id).await.unwrap();
    assert_eq!(events.rest().await, [last]);
    assert_eq!(open(server, "unknown").await.err(), Some(StatusCode::NOT_FOUND));
    assert_eq!(get(server, "unknown", "events").await.error(), "backfill job not found");
    let head = format!("/admin/backfill/{id}/events");
    let answer = server.admin(Method::HEAD, &head, None).await;
    assert_eq!((answer.status.as_u16(), answer.text.as_str()), (200, ""));
    assert!(answer.headers.get("content-length").is_none());
}

async fn a_reader_of_a_waiting_job_sees_everything(world: World) {
    let world = with_endless_discovery(world).await;
    let server = &world.server;
    let first = start(server, json!({ "collection": NOTES })).await;
    server
        .eventually("the first runs", async |server| {
            job(server, &first).await["stage"] == "discovering_repos"
        })
        .await;
    world.repo(ALICE, &["a", "b"]);
    let second = start(server, json!({ "did": ALICE })).await;
    let mut events = open(server, &second).await.unwrap();
    let snapshot = json!({ "type": "job_snapshot", "job_id": second, "status": "running", "stage": "pending",
        "total_repos": null, "resolved_repos": null, "processed_repos": null, "failed_repos": null, "total_records": null,
        "error_counts": {} });
    assert_eq!(events.next().await, Some(snapshot));
    assert_eq!(control(server, &first, "cancel").await.status, 200);
    let messages = events.rest().await;
    let of =
        |kind: &str| -> Vec<&Value> { messages.iter().filter(|message| message["type"] == kind).collect() };
    let pds = world.network.pds_url(0);
    assert_eq!(
        of("repo_discovered"),
        [&json!({ "type": "repo_discovered", "job_id": second, "did": ALICE })]
    );
    let resolved = json!({ "type": "repo_resolved", "job_id": second, "did": ALICE, "pds_endpoint": pds });
    assert_eq!(of("repo_resolved"), [&resolved]);
    let fetched = json!({ "type": "repo_fetched", "job_id": second, "did": ALICE, "pds_endpoint": pds,
        "records_fetched": 2 });
    assert_eq!(of("repo_fetched"), [&fetched]);
    let stages: Vec<_> = of("job_stage_changed").iter().map(|message| message["stage"].clone()).collect();
    assert_eq!(json!(stages), json!(["discovering_repos", "resolving_and_fetching", "completed"]));
    let counted = |name: &str| of("job_counters").iter().filter_map(|message| message[name].as_i64()).max();
    assert_eq!(
        ["total_repos", "resolved_repos", "processed_repos", "total_records"].map(counted),
        [Some(1), Some(1), Some(1), Some(2)]
    );
    assert_eq!(messages.last().unwrap()["type"], "job_completed");
}

async fn a_stream_stays_open_over_a_pause_and_ends_with_the_job_or_the_server(mut world: World) {
    world = with_endless_discovery(world).await;
    let server = &world.server;
    let id = start(server, json!({ "collection": NOTES })).await;
    let mut events = open(server, &id).await.unwrap();
    assert_eq!(events.next().await.unwrap()["type"], "job_snapshot");
    assert_eq!(control(server, &id, "pause").await.status, 200);
    loop {
        let message = events.next().await.expect("a pause is no end");
        assert_ne!(message["type"], "job_completed", "{message}");
        if message["status"] == "paused" {
            assert_eq!(message["type"], "job_snapshot");
            break;
        }
    }
    control(server, &id, "resume").await;
    control(server, &id, "cancel").await;
    let messages = events.rest().await;
    let last = messages.last().unwrap();
    assert_eq!(
        (&last["type"], &last["status"]),
        (&json!("job_completed"), &json!("cancelled")),
        "{messages:?}"
    );

    // Streams do not hold up a shutdown.
    let id = start(server, json!({ "collection": NOTES })).await;
    let mut events = open(server, &id).await.unwrap();
    assert_eq!(events.next().await.unwrap()["type"], "job_snapshot");
    let stopped = tokio::task::spawn_blocking(move || {
        let code = world.server.stop();
        (world, code)
    });
    events.rest().await;
    assert_eq!(stopped.await.unwrap().1, Some(0));
}

async fn one_user_can_not_open_streams_without_end(world: World) {
    let world = with_endless_discovery(world).await;
    let server = &world.server;
    let id = start(server, json!({ "collection": NOTES })).await;
    let mut streams = Vec::new();
    for _ in 0..MAX_STREAMS {
        let mut events = open(server, &id).await.unwrap();
        assert_eq!(events.next().await.unwrap()["type"], "job_snapshot");
        streams.push(events);
    }
    assert_eq!(open(server, &id).await.err(), Some(StatusCode::TOO_MANY_REQUESTS));
    let answer = get(server, &id, "events").await;
    assert_eq!(
        (answer.headers["retry-after"].to_str().unwrap(), answer.error()),
        ("10", "too many event streams are open; close one first")
    );
    // Another user is not affected, and a closed stream makes room.
    let key = format!("Bearer {}", server.create_key(&["--did", ALICE, "--permissions", "backfill:read"]));
    let path = format!("/admin/backfill/{id}/events");
    let head = server.request(Method::HEAD, &path, &[("authorization", &key)], None).await;
    assert_eq!(head.status, StatusCode::OK);
    streams.pop();
    server.eventually("there is room again", async |server| open(server, &id).await.is_ok()).await;
}
