//! Relays whose lists do not end, and the bounds of a backfill.

use belvedere_standins::jetstream::synthetic_did;
use belvedere_standins::repos::{Fault, Query, Site};

use super::*;
use crate::small_disk::SmallDisk;

/// More than a backfill takes from a list before it looks some of its repos up.
const MANY: usize = 1_200;

fn is_list(query: &Query) -> bool {
    query.method.ends_with("listReposByCollection")
}

impl Scene {
    fn add_accounts(&self, count: usize) {
        for n in 0..count {
            let did = synthetic_did(n);
            self.network.account(&did, n % 4);
            self.network.put(&did, NOTES, "a", note("a"));
        }
    }
}

in_both_scenes!(
    a_relay_that_invents_repos_is_not_believed,
    many_lists_of_invented_repos_are_as_one,
    a_continued_job_does_not_begin_to_count_at_nothing,
    a_directory_that_fails_is_no_proof_against_the_relay,
    a_backfill_has_no_more_pages_than_its_number_of_repos_allows
);

async fn a_relay_that_invents_repos_is_not_believed(scene: Scene) {
    scene.network.faults(Site::Relay, |query| is_list(query).then_some(Fault::InventsRepos(5)));
    let (_, job) = scene.backfill().await;
    let error = job.error.unwrap_or_default();
    assert!(error.contains("24 of 24 repos that were looked up do not exist"), "{error}");
    assert_eq!(job.total_repos, Some(1_000), "as many as were listed by then");
}

async fn many_lists_of_invented_repos_are_as_one(scene: Scene) {
    scene.track("com.example.a").await;
    scene.track("com.example.b").await;
    scene.network.faults(Site::Relay, |query| is_list(query).then_some(Fault::InventsRepos(25)));
    let id = scene.create(None, None).await;
    let job = scene.ended(&id).await;
    let error = job.error.unwrap_or_default();
    assert!(error.contains("24 of 24 repos that were looked up do not exist"), "{error}");
    assert_eq!(job.total_repos, Some(1_000), "the lists name the same repos, and end together");
}

async fn a_continued_job_does_not_begin_to_count_at_nothing(scene: Scene) {
    scene.network.faults(Site::Relay, |query| is_list(query).then_some(Fault::InventsRepos(1)));
    let id = scene.create(Some(NOTES), None).await;
    let some_are_listed = async |_: &Instance| scene.job(&id).await.total_repos > Some(20);
    scene.server.eventually("some are listed", some_are_listed).await;
    scene.request(&id, Request::Pause).await;
    scene.wait_for_status(&id, "paused").await;
    let before = scene.repos(&id).await.len() as i64;
    scene.request(&id, Request::Resume).await;
    let job = scene.ended(&id).await;
    let error = job.error.unwrap_or_default();
    assert!(error.contains("8 of 8 repos that were looked up do not exist"), "{error}");
    assert_eq!(job.total_repos, Some(before + 16), "the first are looked up at once");
}

async fn a_directory_that_fails_is_no_proof_against_the_relay(scene: Scene) {
    scene.add_accounts(MANY);
    scene.network.set_repos_per_page(500);
    scene.network.faults(Site::Relay, |query| (!is_list(query)).then(|| Fault::bare(503)));
    let id = scene.create(Some(NOTES), None).await;
    let listed = async |_: &Instance| scene.job(&id).await.stage.as_str() == "resolving_and_fetching";
    scene.server.eventually("the repos are listed", listed).await;
    let job = scene.job(&id).await;
    assert_eq!((job.total_repos, job.error), (Some(MANY as i64), None));
}

async fn a_backfill_has_no_more_pages_than_its_number_of_repos_allows(scene: Scene) {
    scene.add_accounts(40);
    scene.network.set_repos_per_page(10);
    let body = json!({ "collection": NOTES, "max_repos": 15 });
    let answer = scene.server.admin(Method::POST, "/admin/backfill", Some(&body)).await;
    let job = scene.ended(answer.body["id"].as_str().unwrap()).await;
    let error = job.error.unwrap_or_default();
    assert!(error.contains("the backfill has 20 repos, and may have 15"), "{error}");
    assert_eq!((job.status.as_str(), job.total_repos), ("completed", Some(20)));
    let refused = json!({ "max_repos": 0 });
    let answer = scene.server.admin(Method::POST, "/admin/backfill", Some(&refused)).await;
    assert_eq!((answer.status.as_u16(), answer.error()), (400, "max_repos must be at least 1"));
    // The limit is that of all lists together, for any number and length of lists.
    let others = ["com.example.a", "com.example.b", "com.example.c"];
    for (n, collection) in others.into_iter().enumerate() {
        scene.track(collection).await;
        for did in (0..10).map(|k| synthetic_did(100 * (n + 1) + k)) {
            scene.network.account(&did, n);
            scene.network.put(&did, collection, "a", json!({ "$type": collection }));
        }
    }
    let body = json!({ "max_repos": 45 });
    let answer = scene.server.admin(Method::POST, "/admin/backfill", Some(&body)).await;
    let job = scene.ended(answer.body["id"].as_str().unwrap()).await;
    let error = job.error.unwrap_or_default();
    assert!(error.contains("the backfill has 50 repos, and may have 45"), "{error}");
    assert_eq!(job.total_repos, Some(50), "a page more than it may have");
    // The setting is the bound of all.
    let setting = json!({ "value": "5" });
    scene.server.admin(Method::PUT, "/admin/settings/backfill_max_repos", Some(&setting)).await;
    let (_, job) = scene.backfill().await;
    assert!(job.error.unwrap_or_default().contains("and may have 5"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn repos_are_not_listed_onto_a_disk_that_is_nearly_full() {
    let Some(disk) = SmallDisk::mount() else { return };
    let scene = Scene::on(&format!("sqlite://{}/test.db", disk.path().display()), None).await;
    scene.add_accounts(30);
    scene.network.set_repos_per_page(10);
    disk.fill(4 << 20);
    let (_, job) = scene.backfill().await;
    let error = job.error.unwrap_or_default();
    assert!(error.contains("MiB left, and 6 are kept free"), "{error}");
    assert_eq!((job.status.as_str(), job.total_repos), ("failed", Some(0)));
    disk.free();
    let (_, job) = scene.backfill().await;
    assert_eq!((job.total_repos, job.error), (Some(30), None));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backfill_ends_before_its_disk_is_full() {
    let Some(disk) = SmallDisk::mount() else { return };
    let scene = Scene::on(&format!("sqlite://{}/test.db", disk.path().display()), None).await;
    scene.add_accounts(30);
    // The PDSs of the last repos do not answer yet.
    let (answer, answered) = tokio::sync::watch::channel(false);
    scene.network.faults(Site::Pds(3), move |_| Some(Fault::Until(answered.clone())));
    let id = scene.create(Some(NOTES), None).await;
    let reads = async |_: &Instance| scene.job(&id).await.processed_repos > Some(0);
    scene.server.eventually("it reads repos", reads).await;
    disk.fill(4 << 20);
    let job = scene.ended(&id).await;
    let error = job.error.unwrap_or_default();
    assert!(error.contains("MiB left, and 6 are kept free"), "{error}");
    assert_eq!(job.status.as_str(), "failed");
    disk.free();
    answer.send_replace(true);
    let (_, job) = scene.backfill().await;
    assert_eq!((job.status.as_str(), job.error), ("completed", None));
    scene.assert_equal(NOTES).await;
}
