//! Schedules, and the jobs that they queue.

use crate::store::jobs::{self, NewJob};
use crate::store::schedules::{self, ScheduleRow};
use crate::store::scripts::{self, NewScript};
use crate::store::status::JobStatus;
use crate::store::testing::TestDb;
use belvedere_base::clock::Timestamp;

on_both!(a_schedule_keeps_its_time_until_its_expression_changes, a_job_is_queued_once_and_not_beside_another);

fn row(cron: &str, next_at: i64) -> ScheduleRow {
    let next_at = Timestamp(next_at);
    ScheduleRow { name: "a".to_owned(), cron: cron.to_owned(), timezone: "UTC".to_owned(), next_at }
}

async fn a_schedule_keeps_its_time_until_its_expression_changes(db: TestDb) {
    schedules::set(&db, &row("0 3 * * *", 1)).await.unwrap();
    assert!(schedules::list(&db).await.unwrap().is_empty(), "it has no script");
    let script = NewScript { id: "schedule:a".to_owned(), ..NewScript::default() };
    scripts::upsert(&db, &script, Timestamp(1)).await.unwrap();
    schedules::set(&db, &row("0 3 * * *", 1)).await.unwrap();
    schedules::set(&db, &row("0 3 * * *", 2)).await.unwrap();
    assert_eq!(schedules::list(&db).await.unwrap(), [row("0 3 * * *", 1)]);
    schedules::set(&db, &row("0 4 * * *", 3)).await.unwrap();
    assert_eq!(schedules::list(&db).await.unwrap(), [row("0 4 * * *", 3)]);
    assert!(!schedules::advance(&db, "a", Timestamp(1), Timestamp(9)).await.unwrap());
    assert!(schedules::advance(&db, "a", Timestamp(3), Timestamp(9)).await.unwrap());
    assert_eq!(schedules::list(&db).await.unwrap(), [row("0 4 * * *", 9)]);
    assert!(scripts::delete(&db, "schedule:a", None, Timestamp(9)).await.unwrap());
    assert!(schedules::list(&db).await.unwrap().is_empty());
}

async fn a_job_is_queued_once_and_not_beside_another(db: TestDb) {
    let job = |id| NewJob {
        id,
        job_type: "schedule/a",
        input: "{}",
        created_by: "did:web:example.com",
        client: None,
        tenant: "instance",
        inherit_auth: false,
    };
    assert!(jobs::create_alone(&db, &job("a-1"), Timestamp(1)).await.unwrap());
    assert!(!jobs::create_alone(&db, &job("a-1"), Timestamp(2)).await.unwrap(), "it is there");
    assert!(!jobs::create_alone(&db, &job("a-2"), Timestamp(2)).await.unwrap(), "another one waits");
    let other = NewJob { job_type: "schedule/b", ..job("b-1") };
    assert!(jobs::create_alone(&db, &other, Timestamp(2)).await.unwrap());
    jobs::request(&db, "a-1", crate::store::status::Request::Cancel, Timestamp(3)).await.unwrap();
    assert_eq!(jobs::get(&db, "a-1").await.unwrap().unwrap().status, JobStatus::Cancelled);
    assert!(!jobs::create_alone(&db, &job("a-1"), Timestamp(4)).await.unwrap(), "it has ended");
    assert!(jobs::create_alone(&db, &job("a-2"), Timestamp(4)).await.unwrap());
}
