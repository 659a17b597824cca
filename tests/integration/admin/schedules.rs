//! Schedules: scripts that run at times.

use http::Method;
use serde_json::{Value, json};

use crate::fixtures::World;
use crate::support::instance::Instance;

crate::in_both_worlds!(
    a_schedule_starts_jobs,
    a_time_that_comes_while_its_job_runs_is_left_out,
    a_schedule_that_is_wrong_is_refused
);

async fn save(world: &World, body: &str) -> (u16, String) {
    let script = json!({ "id": "schedule:nightly", "body": body });
    let answer = world.server.admin(Method::POST, "/admin/scripts", Some(&script)).await;
    (answer.status.as_u16(), answer.body["error"].as_str().unwrap_or_default().to_owned())
}

async fn schedules(server: &Instance) -> Vec<Value> {
    let listed = server.admin(Method::GET, "/admin/schedules", None).await;
    listed.body["schedules"].as_array().unwrap().clone()
}

async fn jobs(server: &Instance) -> Vec<Value> {
    server.admin(Method::GET, "/admin/jobs", None).await.body["jobs"].as_array().unwrap().clone()
}

/// Lets the time of the schedule come, which was long ago.
async fn come(world: &World) {
    world.execute("UPDATE schedules SET next_at = 1000000").await;
}

async fn a_schedule_starts_jobs(world: World) {
    let server = &world.server;
    let body = "cron = '0 3 * * *' timezone = 'Europe/Berlin'
                function handle() job.progress({ at = 1 }) return { caller = caller_did or 'none' } end";
    assert_eq!(save(&world, body).await.0, 201);
    server.eventually("the schedule", async |server| schedules(server).await.len() == 1).await;
    let stored = schedules(server).await.remove(0);
    assert_eq!((&stored["name"], &stored["timezone"]), (&json!("nightly"), &json!("Europe/Berlin")));

    come(&world).await;
    server.eventually("the job", async |server| jobs(server).await.len() == 1).await;
    let is_done = async |server: &Instance| jobs(server).await[0]["status"] == "completed";
    server.eventually("the end of the job", is_done).await;
    let job = jobs(server).await.remove(0);
    assert_eq!(
        (&job["job_type"], &job["result"]),
        (&json!("schedule/nightly"), &json!({ "caller": "none" }))
    );
    // All times that were missed are one job, and the next one is in the future.
    let again = schedules(server).await.remove(0);
    assert_eq!(again["next_at"], stored["next_at"]);

    // Another expression has another time, and a deleted schedule has none.
    assert_eq!(save(&world, "cron = '@monthly' function handle() end").await.0, 200);
    let is_changed = async |server: &Instance| schedules(server).await[0]["cron"] == "@monthly";
    server.eventually("the change", is_changed).await;
    assert_eq!(server.admin(Method::DELETE, "/admin/scripts/schedule:nightly", None).await.status, 204);
    assert!(schedules(server).await.is_empty());
}

async fn a_time_that_comes_while_its_job_runs_is_left_out(world: World) {
    let server = &world.server;
    let body = "cron = '* * * * *'
                function handle() while not job.should_stop() do job.wait(0.05) end end";
    assert_eq!(save(&world, body).await.0, 201);
    server.eventually("the schedule", async |server| schedules(server).await.len() == 1).await;
    come(&world).await;
    let runs = async |server: &Instance| jobs(server).await.iter().any(|job| job["status"] == "running");
    server.eventually("the job", runs).await;
    world.execute("UPDATE schedules SET next_at = 2000000").await;
    let skipped = async |server: &Instance| {
        let events = server.admin(Method::GET, "/admin/events?event_type=schedule.skipped", None).await;
        events.body["events"].as_array().is_some_and(|events| !events.is_empty())
    };
    server.eventually("the event", skipped).await;
    assert_eq!(jobs(server).await.len(), 1);
    let id = jobs(server).await[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(server.admin(Method::POST, &format!("/admin/jobs/{id}/cancel"), None).await.status, 200);
}

async fn a_schedule_that_is_wrong_is_refused(world: World) {
    for (body, reason) in [
        ("function handle() end", "at its top level"),
        ("cron = '61 * * * *' function handle() end", "is not an expression"),
        ("cron = '0 0 30 2 *' function handle() end", "at no time"),
        ("cron = '@daily' timezone = 'Nowhere' function handle() end", "no time zone \"Nowhere\""),
        ("cron = '@daily'", "no function handle"),
    ] {
        let (status, error) = save(&world, body).await;
        assert_eq!((status, error.contains(reason)), (400, true), "{body}: {error}");
    }
    assert!(schedules(&world.server).await.is_empty());
}
