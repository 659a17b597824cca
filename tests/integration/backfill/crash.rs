//! Kills and restarts the server in the middle of jobs: nothing is lost, and little is repeated.

use belvedere_standins::repos::{Fault, Site};
use tokio::sync::watch;

use super::*;
use crate::support::instance::Instance;

in_both_scenes!(
    a_killed_job_goes_on_and_the_index_equals_the_network,
    a_crash_in_a_large_repo_repeats_few_pages,
    discovery_goes_on_where_it_was_killed,
    a_shutdown_is_tidy
);

async fn a_killed_job_goes_on_and_the_index_equals_the_network(mut scene: Scene) {
    for n in 0..24 {
        scene.network.account(&account(n), n % 4);
        scene.network.fill(&account(n), NOTES, 40 + 30 * (n % 7));
    }
    let expected = scene.network.records(NOTES).len() as u64;
    let id = scene.create(Some(NOTES), None).await;
    for round in 1..=6 {
        let enough = expected * round / 8;
        scene
            .server
            .eventually("part of the job", async |server: &Instance| server.records().await >= enough)
            .await;
        scene.server.kill();
        // The network changes while the server is down.
        let did = account(round as usize);
        scene.network.delete(&did, NOTES, "0003");
        scene.network.put(&did, NOTES, "0005", note("changed"));
        scene.server.start_again().await;
    }
    let job = scene.wait_for_status(&id, "completed").await;
    assert_eq!((job.total_repos, job.processed_repos), (Some(24), Some(24)));
    assert_eq!(scene.errors(&id).await, BTreeMap::new());
    let counted: i64 = scene.repos(&id).await.iter().map(|repo| repo.records_fetched).sum();
    assert_eq!(job.total_records, Some(counted), "counted once");
    // Repos that were read before a change are read again: the stand-in stream did not deliver it.
    scene.backfill().await;
    scene.assert_equal(NOTES).await;
}

async fn a_crash_in_a_large_repo_repeats_few_pages(mut scene: Scene) {
    scene.network.account(&account(0), 0);
    scene.network.fill(&account(0), NOTES, 2_550);
    let (open, opened) = watch::channel(false);
    scene.network.faults(Site::Pds(0), move |query| {
        (query.cursor.as_deref() == Some("0250")).then(|| Fault::Until(opened.clone()))
    });
    let id = scene.create(Some(NOTES), None).await;
    scene.server.eventually("most pages", async |server: &Instance| server.records().await == 2_300).await;
    let before = scene.network.queries(Site::Pds(0)).len();
    scene.server.kill();
    open.send_replace(true);
    scene.server.start_again().await;
    let job = scene.wait_for_status(&id, "completed").await;
    assert_eq!(job.total_records, Some(2_550));
    scene.assert_equal(NOTES).await;
    // The rev, three repeated pages, the rest.
    let after = scene.network.queries(Site::Pds(0)).len() - before;
    assert!(after <= 1 + 4 + 4, "{after}");
}

async fn discovery_goes_on_where_it_was_killed(mut scene: Scene) {
    for n in 0..30 {
        scene.network.account(&account(n), n % 4);
        scene.network.fill(&account(n), NOTES, 1);
    }
    scene.network.set_repos_per_page(10);
    let (open, opened) = watch::channel(false);
    let mut pages = 0;
    scene.network.faults(Site::Relay, move |query| {
        pages += usize::from(query.method.ends_with("listReposByCollection"));
        (pages == 3).then(|| Fault::Until(opened.clone()))
    });
    let id = scene.create(Some(NOTES), None).await;
    scene.server.eventually("two pages", async |_: &Instance| scene.repos(&id).await.len() == 20).await;
    scene.server.kill();
    open.send_replace(true);
    scene.server.start_again().await;
    let job = scene.wait_for_status(&id, "completed").await;
    assert_eq!((job.total_repos, job.processed_repos), (Some(30), Some(30)));
    scene.assert_equal(NOTES).await;
    let lists = scene.network.queries(Site::Relay).into_iter();
    let lists: Vec<_> = lists.filter(|query| query.method.ends_with("listReposByCollection")).collect();
    assert_eq!(lists.iter().filter(|query| query.cursor.is_none()).count(), 1, "the first page is read once");
}

async fn a_shutdown_is_tidy(mut scene: Scene) {
    scene.network.account(&account(0), 0);
    scene.network.fill(&account(0), NOTES, 450);
    let (open, opened) = watch::channel(false);
    scene.network.faults(Site::Pds(0), move |query| {
        (query.cursor.as_deref() == Some("0250")).then(|| Fault::Until(opened.clone()))
    });
    let id = scene.create(Some(NOTES), None).await;
    scene.server.eventually("two pages", async |server: &Instance| server.records().await == 200).await;
    assert_eq!(scene.server.stop(), Some(0));
    let stopped = scene.job(&id).await;
    assert_eq!((stopped.status.as_str(), stopped.total_records), ("running", Some(200)));
    open.send_replace(true);
    scene.server.start_again().await;
    let job = scene.wait_for_status(&id, "completed").await;
    assert_eq!(job.total_records, Some(450));
    scene.assert_equal(NOTES).await;
    let first_pages = scene.network.queries(Site::Pds(0)).into_iter();
    let first_pages = first_pages.filter(|q| q.is_page() && q.cursor.is_none());
    assert_eq!(first_pages.count(), 1, "nothing is repeated but the page in flight");
}
