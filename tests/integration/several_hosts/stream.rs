//! One host at a time follows the stream; when it stops, another takes over.

use belvedere_base::clock::Clock;
use belvedere_standins::jetstream::{Frame, Place, tid};
use belvedere_storage::store::Db;
use belvedere_storage::store::testing::wrong_counts;

use crate::fixtures::{ALICE, LIST, NOTES};
use crate::support::instance::{query_lexicon, record_lexicon};

use super::*;

/// A host without the lease tries to take it every two seconds, and a lease lapses after ten.
pub const TAKEN_OVER: Duration = Duration::from_secs(30);

pub const STANDBY: &str = "another host follows the stream";

/// Both hosts index notes, and one of them follows the stream.
pub async fn start() -> Hosts {
    let hosts = Hosts::start().await;
    hosts.a.upload(record_lexicon(NOTES), None).await;
    hosts.a.upload(query_lexicon(LIST), Some(NOTES)).await;
    hosts.a.eventually("the stream is followed", async |_| hosts.follows_notes() == 1).await;
    hosts
}

impl Hosts {
    /// The number of subscriptions to notes so far.
    pub fn follows_notes(&self) -> usize {
        self.stream.subscriptions().iter().filter(|s| s.wants(NOTES)).count()
    }

    /// Writes notes; the first has the number `from`.
    pub fn write(&self, from: i64, count: i64) {
        for n in from..from + count {
            let at = Clock::system().now().0 + n;
            let (rkey, rev) = (format!("k{n}"), tid(at as u64, 0));
            let place = Place { did: ALICE, collection: NOTES, rkey: &rkey, rev: &rev };
            self.stream.push(Frame::create(at, place, &json!({ "$type": NOTES, "n": n })));
        }
    }
}

/// The check of the stream in `/readyz`. Panics unless the host is ready.
pub async fn stream_of(host: &Instance) -> Value {
    let answer = host.request(Method::GET, "/readyz", &[], None).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.body["checks"]["stream"].clone()
}

/// The number of script runs on a host.
async fn runs(host: &Instance) -> u64 {
    let stats = get(host, "/admin/stats/scripts").await;
    stats.body["scripts"].as_array().unwrap().iter().filter_map(|s| s["runs"].as_u64()).sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_event_is_handled_once() {
    let hosts = start().await;
    let (a, b) = (&hosts.a, &hosts.b);
    assert_eq!(stream_of(a).await, json!({ "ok": true }));
    soon("one waits", NOTIFIED_WITHIN, async || {
        stream_of(b).await == json!({ "ok": true, "reason": STANDBY })
    })
    .await;
    // The script is bound on the host that does not follow the stream.
    let trigger = format!("record.index:{NOTES}");
    b.bind_to(&trigger, "function handle() record.seen = (record.seen or 0) + 1 return record end").await;
    let path = format!("/admin/scripts/{trigger}");
    soon("the script is there", NOTIFIED_WITHIN, async || {
        get(a, "/admin/stats/scripts").await.text.contains(&trigger)
    })
    .await;
    assert_eq!(get(a, &path).await.status, 200);

    hosts.write(0, 100);
    a.eventually("all is indexed", async |a| a.records().await == 100).await;
    assert_eq!((runs(a).await, runs(b).await), (100, 0));
    for host in [a, b] {
        let note = host.xrpc(&format!("{LIST}?uri=at://{ALICE}/{NOTES}/k7")).await;
        assert_eq!(
            (&note.body["record"]["n"], &note.body["record"]["seen"]),
            (&json!(7), &json!(1)),
            "{}",
            note.text
        );
    }
    assert_eq!(hosts.follows_notes(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_takes_over_from_one_that_is_killed() {
    let mut hosts = start().await;
    let mut written = 0;
    for round in 0..4 {
        hosts.write(written, 200);
        written += 200;
        // Killed at a different point of each burst.
        let enough = u64::try_from(written).unwrap() - 200 + round * 60;
        hosts.b.eventually("part of the burst", async |b| b.records().await >= enough).await;
        let (follows, follower) = (hosts.follows_notes(), round % 2 == 0);
        let killed = if follower { &mut hosts.a } else { &mut hosts.b };
        killed.kill();
        // Events while no host follows the stream are not lost either.
        hosts.write(written, 50);
        written += 50;
        soon("another follows", TAKEN_OVER, async || hosts.follows_notes() > follows).await;
        let killed = if follower { &mut hosts.a } else { &mut hosts.b };
        killed.start_again().await;
    }
    let all = u64::try_from(written).unwrap();
    hosts.a.eventually("everything", async |a| a.records().await >= all).await;
    assert_eq!(hosts.b.records().await, all);
    let db = Db::open(&hosts.url, 1).await.unwrap();
    assert_eq!(wrong_counts(&db).await.unwrap(), [""; 0]);
    db.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_that_loses_its_lease_stops_and_tries_again() {
    let hosts = start().await;
    // pg_locks lists the locks of all databases, also those of other tests.
    let locks = "SELECT pg_terminate_backend(l.pid) FROM pg_locks l JOIN pg_database d ON d.oid = l.database \
         WHERE l.locktype = 'advisory' AND d.datname = current_database()";
    let mut written = 0;
    for _ in 0..5 {
        let follows = hosts.follows_notes();
        hosts.write(written, 100);
        written += 100;
        hosts.sql(locks).await;
        soon("it goes on", TAKEN_OVER, async || hosts.follows_notes() > follows).await;
    }
    let all = u64::try_from(written).unwrap();
    hosts.a.eventually("everything", async |a| a.records().await >= all).await;
    assert_eq!(hosts.b.records().await, all);
    let waiting = async |host: &Instance| stream_of(host).await["reason"] == STANDBY;
    soon("one follows, one waits", TAKEN_OVER, async || waiting(&hosts.a).await != waiting(&hosts.b).await)
        .await;
}

/// `DELETE FROM stream_cursors` makes a stopped server begin at the live end. It should not be done to a running
/// server, but the stream must continue after it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_stream_continues_after_its_cursors_are_deleted() {
    let hosts = start().await;
    hosts.write(0, 10);
    hosts.a.eventually("the first", async |a| a.records().await == 10).await;
    let follows = hosts.follows_notes();
    hosts.sql("DELETE FROM stream_cursors").await;
    hosts.write(10, 10);
    soon("the stream is followed again", TAKEN_OVER, async || hosts.follows_notes() > follows).await;
    hosts.write(20, 10);
    hosts.a.eventually("the last", async |a| a.records().await >= 20).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_that_is_stopped_hands_over() {
    let mut hosts = start().await;
    hosts.write(0, 50);
    // Wait for a commit: without a cursor the next host would begin at the live end.
    hosts.a.eventually("a first commit", async |a| a.records().await > 0).await;
    let follows = hosts.follows_notes();
    assert_eq!(hosts.a.stop(), Some(0));
    hosts.write(50, 50);
    soon("another follows", TAKEN_OVER, async || hosts.follows_notes() > follows).await;
    hosts.b.eventually("everything", async |b| b.records().await == 100).await;
    assert_eq!(stream_of(&hosts.b).await, json!({ "ok": true }));
}
