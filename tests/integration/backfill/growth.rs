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

in_both_scenes! {
    async fn a_relay_that_invents_repos_is_not_believed(scene) {
        scene.network.faults(Site::Relay, |query| is_list(query).then_some(Fault::InventsRepos(5)));
        let (_, job) = scene.backfill().await;
        let error = job.error.unwrap_or_default();
        assert!(error.contains("24 of 24 repos that were looked up do not exist"), "{error}");
        assert_eq!(job.total_repos, Some(1_000), "as many as were listed by then");
    }

    async fn a_directory_that_fails_is_no_proof_against_the_relay(scene) {
        scene.add_accounts(MANY);
        scene.network.set_repos_per_page(500);
        scene.network.faults(Site::Relay, |query| (!is_list(query)).then(|| Fault::bare(503)));
        let id = scene.create(Some(NOTES), None).await;
        let listed = async |_: &Instance| scene.job(&id).await.stage == "resolving_and_fetching";
        scene.server.eventually("the repos are listed", listed).await;
        let job = scene.job(&id).await;
        assert_eq!((job.total_repos, job.error), (Some(MANY as i64), None));
    }

    async fn a_backfill_has_no_more_pages_than_its_number_of_repos_allows(scene) {
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
        // The setting is the bound of all.
        let setting = json!({ "value": "5" });
        scene.server.admin(Method::PUT, "/admin/settings/backfill_max_repos", Some(&setting)).await;
        let (_, job) = scene.backfill().await;
        assert!(job.error.unwrap_or_default().contains("and may have 5"));
    }
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
    assert_eq!(job.total_repos, Some(10));
    disk.free();
    let (_, job) = scene.backfill().await;
    assert_eq!((job.total_repos, job.error), (Some(30), None));
}
