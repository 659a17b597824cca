//! The life of a job: stages, counters, pausing, cancelling, the queue.

use belvedere_standins::repos::{Fault, Query, Site};
use tokio::sync::watch;

use super::*;
use crate::support::instance::Instance;

const LIKES: &str = "com.example.like";

in_both_scenes!(
    a_job_reads_the_history_of_a_collection,
    without_a_collection_all_are_read_and_with_a_did_only_one_repo,
    a_job_that_can_not_begin_says_why,
    a_paused_job_goes_on_between_two_pages,
    a_cancelled_job_stops_and_keeps_what_it_stored,
    a_job_whose_lexicon_is_deleted_stores_nothing_more,
    one_job_runs_at_a_time_and_waiting_ones_can_be_stopped,
    record_scripts_decide_about_new_records
);

async fn a_job_reads_the_history_of_a_collection(scene: Scene) {
    for n in 0..12 {
        scene.network.account(&account(n), n % 3);
        scene.network.fill(&account(n), NOTES, 20 * n);
        scene.network.fill(&account(n), LIKES, 3);
    }
    let (id, job) = scene.backfill().await;
    scene.assert_equal(NOTES).await;
    assert_eq!(scene.index(LIKES).await.len(), 0, "another collection");
    // The first account has no note, so the relay does not list it.
    let counters = [job.total_repos, job.resolved_repos, job.processed_repos, job.total_records];
    assert_eq!(counters, [11, 11, 11, 1_320].map(Some));
    assert_eq!((job.stage.as_str(), &job.error), ("completed", &None));
    assert!(job.completed_at > job.started_at && job.started_at.is_some());
    for repo in scene.repos(&id).await {
        let n = (0..12).find(|n| account(*n) == repo.did).unwrap();
        assert_eq!((repo.status.as_str(), repo.records_fetched), ("completed", 20 * n as i64));
        assert_eq!(repo.pds_endpoint, Some(scene.network.pds_url(n % 3)));
    }
    let summary = backfill::pds_summary(&scene.db, &id).await.unwrap();
    assert_eq!(
        summary.iter().map(|pds| (pds.total_repos, pds.completed_repos)).collect::<Vec<_>>(),
        [(4, 4), (4, 4), (3, 3)]
    );
    assert_eq!(scene.events().await, ["backfill.completed"]);

    // A second run finds nothing to write: the rows stay as they are.
    let before = scene.record(&account(1), "0000").await;
    scene.backfill().await;
    scene.assert_equal(NOTES).await;
    assert_eq!(scene.record(&account(1), "0000").await, before);
}

async fn without_a_collection_all_are_read_and_with_a_did_only_one_repo(scene: Scene) {
    scene.track(LIKES).await;
    for n in 0..4 {
        scene.network.account(&account(n), n);
        scene.network.fill(&account(n), NOTES, 5);
        scene.network.fill(&account(n), LIKES, 120);
    }
    let id = scene.create(None, Some(&account(2))).await;
    let job = scene.wait_for_status(&id, "completed").await;
    assert_eq!((job.total_repos, job.total_records), (Some(1), Some(125)));
    assert_eq!((scene.index(NOTES).await.len(), scene.index(LIKES).await.len()), (5, 120));
    assert!(scene.network.queries(Site::Pds(0)).is_empty());
    let listed = |query: &Query| query.method == "com.atproto.sync.listReposByCollection";
    assert!(!scene.network.queries(Site::Relay).iter().any(listed), "a DID needs no discovery");

    let id = scene.create(None, None).await;
    let job = scene.wait_for_status(&id, "completed").await;
    assert_eq!((job.total_repos, job.total_records), (Some(4), Some(500)));
    scene.assert_equal(NOTES).await;
    scene.assert_equal(LIKES).await;
}

async fn a_job_that_can_not_begin_says_why(scene: Scene) {
    let id = scene.create(Some("com.example.unknown"), None).await;
    let job = scene.wait_for_status(&id, "failed").await;
    assert!(job.error.unwrap().contains("com.example.unknown has no record lexicon"));
    assert_eq!(job.stage.as_str(), "failed");
    scene.network.fail_first(
        Site::Relay,
        1,
        Fault::Status(400, Vec::new(), r#"{"error":"BadRequest"}"#.into()),
    );
    let id = scene.create(Some(NOTES), None).await;
    let job = scene.wait_for_status(&id, "failed").await;
    assert!(job.error.unwrap().contains("400 Bad Request BadRequest"));
    let deleted = scene.server.admin(Method::DELETE, &format!("/admin/lexicons/{NOTES}"), None).await;
    assert!(deleted.status.is_success());
    let id = scene.create(None, None).await;
    let job = scene.wait_for_status(&id, "completed").await;
    assert!(job.error.unwrap().contains("no record lexicon is uploaded"));
    assert_eq!(scene.events().await, ["backfill.failed", "backfill.failed", "backfill.completed"]);
}

async fn a_paused_job_goes_on_between_two_pages(scene: Scene) {
    scene.network.account(&account(0), 0);
    scene.network.fill(&account(0), NOTES, 450);
    let (open, opened) = watch::channel(false);
    scene.network.faults(Site::Pds(0), move |query| {
        (query.cursor.as_deref() == Some("0150")).then(|| Fault::Until(opened.clone()))
    });
    let id = scene.create(Some(NOTES), None).await;
    scene.server.eventually("three pages", async |server: &Instance| server.records().await == 300).await;
    scene.request(&id, Request::Pause).await;
    let paused = scene.wait_for_status(&id, "paused").await;
    assert_eq!((paused.stage.as_str(), paused.completed_at), ("resolving_and_fetching", None));
    assert_eq!((paused.total_records, paused.processed_repos), (Some(300), Some(0)));
    assert_eq!(scene.repos(&id).await[0].status.as_str(), "pending");

    open.send_replace(true);
    scene.request(&id, Request::Resume).await;
    let job = scene.wait_for_status(&id, "completed").await;
    assert_eq!((job.total_records, job.processed_repos), (Some(450), Some(1)));
    scene.assert_equal(NOTES).await;
    let cursors = scene.network.queries(Site::Pds(0)).into_iter();
    let cursors: Vec<_> = cursors.filter(Query::is_page).map(|q| q.cursor).collect();
    let expected = [None, Some("0350"), Some("0250"), Some("0150"), Some("0150"), Some("0050"), Some("0000")];
    assert_eq!(
        cursors,
        expected.map(|cursor| cursor.map(str::to_owned)),
        "only the page in flight is repeated"
    );
}

async fn a_cancelled_job_stops_and_keeps_what_it_stored(scene: Scene) {
    scene.network.account(&account(0), 0);
    scene.network.fill(&account(0), NOTES, 250);
    let (_open, opened) = watch::channel(false);
    scene
        .network
        .faults(Site::Pds(0), move |query| query.cursor.is_some().then(|| Fault::Until(opened.clone())));
    let id = scene.create(Some(NOTES), None).await;
    scene.server.eventually("a page", async |server: &Instance| server.records().await == 100).await;
    scene.request(&id, Request::Cancel).await;
    let job = scene.wait_for_status(&id, "cancelled").await;
    assert_eq!((job.stage.as_str(), job.error.as_deref()), ("cancelled", Some("cancelled by user")));
    assert!(job.completed_at.is_some());
    assert_eq!(scene.server.records().await, 100);
    assert_eq!(backfill::request(&scene.db, &id, Request::Resume).await.unwrap(), Requested::NotAllowed);
    scene
        .server
        .eventually("the event", async |_: &Instance| scene.events().await == ["backfill.cancelled"])
        .await;
}

async fn a_job_whose_lexicon_is_deleted_stores_nothing_more(scene: Scene) {
    scene.network.account(&account(0), 0);
    scene.network.fill(&account(0), NOTES, 250);
    let (open, opened) = watch::channel(false);
    scene
        .network
        .faults(Site::Pds(0), move |query| query.cursor.is_some().then(|| Fault::Until(opened.clone())));
    let id = scene.create(Some(NOTES), None).await;
    let in_flight = async |server: &Instance| {
        let lists = scene.network.queries(Site::Pds(0)).into_iter().filter(Query::is_page);
        server.records().await == 100 && lists.count() == 2
    };
    scene.server.eventually("the second page is in flight", in_flight).await;
    let deleted = scene.server.admin(Method::DELETE, &format!("/admin/lexicons/{NOTES}"), None).await;
    assert!(deleted.status.is_success());
    open.send_replace(true);
    let job = scene.wait_for_status(&id, "completed").await;
    assert_eq!((job.total_records, scene.server.records().await), (Some(100), 100));
}

async fn one_job_runs_at_a_time_and_waiting_ones_can_be_stopped(scene: Scene) {
    scene.network.account(&account(0), 0);
    scene.network.fill(&account(0), NOTES, 1);
    let (open, opened) = watch::channel(false);
    scene.network.faults(Site::Pds(0), move |_| Some(Fault::Until(opened.clone())));
    let first = scene.create(Some(NOTES), None).await;
    let mut waiting = Vec::new();
    for _ in 0..3 {
        waiting.push(scene.create(Some(NOTES), None).await);
    }
    let fetches = async |_: &Instance| scene.job(&first).await.stage.as_str() == "resolving_and_fetching";
    scene.server.eventually("the first job runs", fetches).await;
    for id in &waiting {
        let job = scene.job(id).await;
        assert_eq!((job.status.as_str(), job.stage.as_str()), ("running", "pending"));
    }
    scene.request(&waiting[0], Request::Pause).await;
    scene.request(&waiting[1], Request::Cancel).await;
    scene.wait_for_status(&waiting[0], "paused").await;
    scene.wait_for_status(&waiting[1], "cancelled").await;
    assert_eq!(scene.job(&first).await.status.as_str(), "running");
    open.send_replace(true);
    scene.wait_for_status(&waiting[2], "completed").await;
    assert_eq!(scene.job(&first).await.status.as_str(), "completed");
    scene.request(&waiting[0], Request::Resume).await;
    scene.wait_for_status(&waiting[0], "completed").await;
    scene.assert_equal(NOTES).await;
}

async fn record_scripts_decide_about_new_records(scene: Scene) {
    scene.network.account(&account(0), 0);
    scene.network.put(&account(0), NOTES, "a", note("keep"));
    scene.network.put(&account(0), NOTES, "b", note("drop"));
    let source = "function handle() if record.text == 'drop' then return nil end record.action = action return record end";
    scene.server.bind_to(&format!("record.create:{NOTES}"), source).await;
    let (_, job) = scene.backfill().await;
    assert_eq!(job.total_records, Some(2));
    let kept = scene.record(&account(0), "a").await.unwrap();
    assert_eq!(kept["record"]["action"], "create");
    assert_eq!(scene.record(&account(0), "b").await, None);
}
