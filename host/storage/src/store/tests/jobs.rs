//! The job queue: fair between tenants, and bounded.

use crate::store::jobs::{self, NewJob, PendingLimits, Worker};
use crate::store::status::{JobStatus, Request};
use crate::store::testing::TestDb;
use crate::store::{Db, on};
use belvedere_base::clock::Timestamp;

const ROOM: PendingLimits = PendingLimits { of_creator: 3, of_tenant: 4 };
const DAY: i64 = 24 * 60 * 60 * 1_000_000;

async fn create(db: &Db, tenant: &str, creator: &str, id: &str, at: i64) -> bool {
    let job = NewJob {
        id,
        job_type: "work",
        input: "{}",
        created_by: creator,
        client: None,
        tenant,
        inherit_auth: false,
    };
    jobs::create(db, &job, ROOM, Timestamp(at)).await.unwrap()
}

/// Claims a job for a worker of a host. Returns the job's id.
async fn claim(db: &Db, host: &str, name: &str, at: i64, max_per_tenant: i64) -> Option<String> {
    let worker = Worker { name: &format!("{host}/{name}"), host, max_per_tenant };
    let job = jobs::claim(db, worker, Timestamp(at), Timestamp(at + 30)).await.unwrap();
    job.map(|job| job.id)
}

async fn finish(db: &Db, id: &str, worker: &str, at: i64) {
    let ended = jobs::finish(db, id, worker, Ok("1"), Timestamp(at)).await.unwrap();
    assert_eq!(ended, Some(JobStatus::Completed));
}

on_both!(
    jobs_are_claimed_fairly_between_tenants,
    a_host_runs_a_limited_number_of_jobs_of_a_tenant,
    a_job_is_claimed_by_one_worker,
    the_number_of_queued_jobs_is_limited,
    an_unknown_status_is_an_error_that_names_it,
    ended_jobs_are_deleted
);

async fn jobs_are_claimed_fairly_between_tenants(db: TestDb) {
    for (tenant, id, at) in
        [("a", "a1", 1), ("a", "a2", 2), ("a", "a3", 3), ("b", "b1", 4), ("", "old", 5), ("b", "b2", 6)]
    {
        assert!(create(&db, tenant, tenant, id, at).await);
    }
    let mut order = Vec::new();
    for at in 10..17 {
        order.extend(claim(&db, "h", "1", at, 9).await);
    }
    assert_eq!(order, ["a1", "b1", "old", "a2", "b2", "a3"]);
}

async fn a_host_runs_a_limited_number_of_jobs_of_a_tenant(db: TestDb) {
    for (id, at) in [("a1", 1), ("a2", 2), ("a3", 3)] {
        assert!(create(&db, "a", "a", id, at).await);
    }
    assert!(create(&db, "b", "b", "b1", 4).await);
    assert_eq!(claim(&db, "h", "1", 10, 1).await.as_deref(), Some("a1"));
    assert_eq!(claim(&db, "h", "2", 11, 1).await.as_deref(), Some("b1"));
    assert_eq!(claim(&db, "h", "3", 12, 1).await, None);
    // A job that is being cancelled still counts. The limit applies to each host separately.
    jobs::request(&db, "a1", Request::Cancel, Timestamp(13)).await.unwrap();
    assert_eq!(claim(&db, "h", "3", 14, 1).await, None);
    assert_eq!(claim(&db, "other", "1", 15, 1).await.as_deref(), Some("a2"));
    assert_eq!(
        jobs::finish(&db, "a1", "h/1", Err("x"), Timestamp(16)).await.unwrap(),
        Some(JobStatus::Cancelled)
    );
    assert_eq!(claim(&db, "h", "1", 17, 1).await.as_deref(), Some("a3"));
}

async fn a_job_is_claimed_by_one_worker(db: TestDb) {
    for n in 0..8 {
        let tenant = format!("t{n}");
        assert!(create(&db, &tenant, &tenant, &format!("j{n}"), n).await);
    }
    let db = &db;
    let claims = (0..16).map(async |n| claim(db, "h", &n.to_string(), 100 + n, 1).await);
    let mut got: Vec<String> = futures_util::future::join_all(claims).await.into_iter().flatten().collect();
    // A job that another worker was claiming at the same time may be left for the next claim.
    while let Some(id) = claim(db, "h", "last", 200, 1).await {
        got.push(id);
    }
    got.sort();
    assert_eq!(got, (0..8).map(|n| format!("j{n}")).collect::<Vec<_>>());
}

async fn the_number_of_queued_jobs_is_limited(db: TestDb) {
    for n in 0..3 {
        assert!(create(&db, "a", "one", &format!("one{n}"), n).await);
    }
    assert!(!create(&db, "a", "one", "too-many", 9).await, "of one creator");
    assert!(create(&db, "a", "two", "two", 9).await);
    assert!(!create(&db, "a", "three", "too-many", 9).await, "of one tenant");
    assert!(create(&db, "b", "three", "three", 9).await);
    // A running job does not count as queued.
    assert_eq!(claim(&db, "h", "1", 10, 9).await.as_deref(), Some("one0"));
    assert!(create(&db, "a", "four", "four", 11).await);
}

async fn an_unknown_status_is_an_error_that_names_it(db: TestDb) {
    assert!(create(&db, "a", "a", "a1", 1).await);
    on!(&*db, writer, |pool| sqlx::raw_sql("UPDATE jobs SET status = 'done'").execute(pool).await.map(drop))
        .unwrap();
    let error = jobs::get(&db, "a1").await.unwrap_err();
    assert!(format!("{error:?}").contains(r#"\"done\" is no JobStatus"#), "{error:?}");
}

async fn ended_jobs_are_deleted(db: TestDb) {
    for n in 0..3 {
        let id = format!("a{n}");
        assert!(create(&db, "a", "a", &id, n).await);
        assert_eq!(claim(&db, "h", "1", 10 + n, 9).await, Some(id.clone()));
        finish(&db, &id, "h/1", 20 + n * DAY).await;
    }
    assert!(create(&db, "a", "a", "waits", 30).await);
    let ids = async || {
        let mut ids: Vec<String> =
            jobs::list(&db, None, None, 10).await.unwrap().into_iter().map(|job| job.id).collect();
        ids.sort();
        ids
    };
    assert_eq!(jobs::delete_ended_beyond(&db, "b", 0, 10).await.unwrap(), 0);
    assert_eq!(jobs::delete_ended_beyond(&db, "a", 2, 10).await.unwrap(), 1);
    assert_eq!(ids().await, ["a1", "a2", "waits"]);
    assert_eq!(jobs::delete_ended_before(&db, Timestamp(21 + DAY), 10).await.unwrap(), 1);
    assert_eq!(ids().await, ["a2", "waits"]);
}
