//! Schedules and recordings of scripts.

use super::*;
use crate::support::instance::query_lexicon;

const LIST: &str = "com.example.list";

async fn jobs(host: &Instance) -> Vec<Value> {
    get(host, "/admin/jobs?limit=100").await.body["jobs"].as_array().unwrap().clone()
}

/// Both hosts look at the schedules every second.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_time_of_a_schedule_runs_once() {
    const TIMES: usize = 6;
    let hosts = Hosts::start().await;
    let (a, b) = (&hosts.a, &hosts.b);
    let setup = "function handle() db.raw('CREATE TABLE script_ran (job text)') end";
    done(a, Method::POST, "/admin/scripts", &json!({ "id": "setup:ran", "body": setup })).await;
    let body = "cron = '0 3 * * *'
                function handle() db.raw('INSERT INTO script_ran (job) VALUES ($1)', { job.id }) return 1 end";
    done(a, Method::POST, "/admin/scripts", &json!({ "id": "schedule:nightly", "body": body })).await;
    for host in [a, b] {
        let is_known = async || {
            let listed = get(host, "/admin/schedules").await.body;
            listed["schedules"].as_array().is_some_and(|schedules| schedules.len() == 1)
        };
        soon("the schedule", NOTIFIED_WITHIN, is_known).await;
    }
    for time in 1..=TIMES {
        // Each is long ago, and another one.
        hosts.sql(&format!("UPDATE schedules SET next_at = {time}000000")).await;
        let has_run = async || {
            let jobs = jobs(a).await;
            jobs.len() == time && jobs.iter().all(|job| job["status"] == "completed")
        };
        soon("the job", NOTIFIED_WITHIN, has_run).await;
    }
    let sql = json!({ "sql": "SELECT job FROM script_ran" });
    let ran = done(b, Method::POST, "/admin/sql", &sql).await;
    assert_eq!(ran["rows"].as_array().unwrap().len(), TIMES, "{ran}");
    assert_eq!(jobs(b).await.len(), TIMES);
    let created = get(b, "/admin/events?event_type=job.created&limit=100").await.body;
    assert_eq!(created["events"].as_array().unwrap().len(), TIMES, "{created}");
    let skipped = get(b, "/admin/events?event_type=schedule.skipped").await.body;
    assert_eq!(skipped["events"], json!([]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_runs_of_all_hosts_are_recorded_and_replayed() {
    let hosts = Hosts::start().await;
    let (a, b) = (&hosts.a, &hosts.b);
    let recording = format!("/admin/scripts/xrpc.query%3A{LIST}/recording");
    let replay = format!("/admin/scripts/xrpc.query%3A{LIST}/replay");
    a.upload(query_lexicon(LIST), None).await;
    a.bind(LIST, "function handle() return { at = now(), x = math.random(1, 1000) } end").await;
    soon("the script", NOTIFIED_WITHIN, async || b.xrpc(LIST).await.body["x"].is_u64()).await;
    done(a, Method::PUT, &recording, &json!({ "percent": 100, "minutes": 5 })).await;
    let runs = async |host: &Instance| get(host, &recording).await.body["runs"].as_u64().unwrap_or_default();
    let on_b = async || {
        b.xrpc(LIST).await;
        runs(b).await > 0
    };
    soon("the other host records", NOTIFIED_WITHIN, on_b).await;
    for _ in 0..5 {
        assert!(a.xrpc(LIST).await.status.is_success() && b.xrpc(LIST).await.status.is_success());
    }
    // Those that one host makes, the other replays.
    soon("the runs", NOTIFIED_WITHIN, async || runs(a).await >= 11).await;
    for host in [a, b] {
        let same = done(host, Method::POST, &replay, &json!({})).await;
        assert_eq!(same["runs"], same["identical"], "{same}");
        assert!(same["runs"].as_u64().is_some_and(|runs| runs >= 11), "{same}");
        let other = json!({ "body": "function handle() return { at = now(), x = 0 } end" });
        let other = done(host, Method::POST, &replay, &other).await;
        assert_eq!(other["identical"], 0, "{other}");
    }
    // The end on one host is the end on both.
    assert_eq!(b.admin(Method::DELETE, &recording, None).await.status, 204);
    assert_eq!(get(a, &recording).await.status, 404);
    a.xrpc(LIST).await;
    b.xrpc(LIST).await;
    assert_eq!(a.admin(Method::POST, &replay, Some(&json!({}))).await.status, 404);
    done(b, Method::PUT, &recording, &json!({ "percent": 100, "minutes": 5 })).await;
    let on_a = async || {
        a.xrpc(LIST).await;
        runs(a).await > 0
    };
    soon("the first host records again", NOTIFIED_WITHIN, on_a).await;
    let again = done(a, Method::POST, &replay, &json!({})).await;
    assert_eq!(again["runs"], again["identical"], "{again}");
}
