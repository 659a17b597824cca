//! Convergence: records removed upstream vanish, and what the stream changes meanwhile wins.

use belvedere_standins::repos::{Fault, Site};
use tokio::sync::watch;

use super::*;
use crate::support::instance::Instance;

in_both_scenes!(
    records_removed_and_changed_upstream_are_reconciled,
    thousands_of_removed_records_are_removed_in_parts,
    what_the_stream_changes_while_a_page_is_in_flight_wins,
    an_account_that_moved_is_read_at_its_new_pds,
    accounts_that_can_not_be_read_keep_their_rows
);

async fn records_removed_and_changed_upstream_are_reconciled(scene: Scene) {
    for n in 0..3 {
        scene.network.account(&account(n), n);
        scene.network.fill(&account(n), NOTES, 250);
    }
    scene.backfill().await;
    // At the ends and in the middle of pages, whole pages, and all of a repo.
    for key in [0, 1, 49, 50, 51, 149, 150, 151, 248, 249].into_iter().chain(180..230) {
        scene.network.delete(&account(0), NOTES, &format!("{key:04}"));
    }
    scene.network.put(&account(0), NOTES, "0100", note("changed"));
    scene.network.put(&account(0), NOTES, "0100x", note("new"));
    for key in 0..250 {
        scene.network.delete(&account(1), NOTES, &format!("{key:04}"));
    }
    let before = scene.index(NOTES).await;
    let (_, job) = scene.backfill().await;
    scene.assert_equal(NOTES).await;
    assert_eq!(job.total_records, Some(191 + 250));
    assert_ne!(before.len(), scene.index(NOTES).await.len());

    // One repo alone.
    scene.network.delete(&account(2), NOTES, "0007");
    let id = scene.create(Some(NOTES), Some(&account(2))).await;
    scene.wait_for_status(&id, "completed").await;
    scene.assert_equal(NOTES).await;
}

async fn thousands_of_removed_records_are_removed_in_parts(scene: Scene) {
    scene.network.account(&account(0), 0);
    scene.network.fill(&account(0), NOTES, 2_300);
    scene.backfill().await;
    for n in 20..2_280 {
        scene.network.delete(&account(0), NOTES, &format!("{n:04}"));
    }
    let (_, job) = scene.backfill().await;
    assert_eq!(job.total_records, Some(40));
    scene.assert_equal(NOTES).await;
}

async fn what_the_stream_changes_while_a_page_is_in_flight_wins(scene: Scene) {
    let did = account(0);
    scene.network.account(&did, 0);
    for key in ["changed", "deleted", "kept"] {
        scene.network.put(&did, NOTES, key, note("old"));
    }
    scene.backfill().await;
    scene.network.put(&did, NOTES, "changed-before", note("old"));
    let (open, opened) = watch::channel(false);
    scene.network.faults(Site::Pds(0), move |query| {
        query.method.ends_with("listRecords").then(|| Fault::Until(opened.clone()))
    });
    let id = scene.create(Some(NOTES), None).await;
    let asked = async |_: &Instance| scene.network.queries(Site::Pds(0)).len() == 6;
    scene.server.eventually("the page is in flight", asked).await;
    // The page was determined before these commits, and is stored after them.
    for (key, record) in [("changed", Some(note("new"))), ("created", Some(note("new"))), ("deleted", None)] {
        let rev = match &record {
            Some(record) => scene.network.put(&did, NOTES, key, record.clone()),
            None => scene.network.delete(&did, NOTES, key),
        };
        scene.push(&did, key, &rev, record.as_ref());
    }
    let streamed = async |_: &Instance| {
        scene.record(&did, "created").await.is_some() && scene.record(&did, "deleted").await.is_none()
    };
    scene.server.eventually("the stream's events are indexed", streamed).await;
    open.send_replace(true);
    scene.wait_for_status(&id, "completed").await;
    scene.assert_equal(NOTES).await;
    assert_eq!(scene.record(&did, "changed").await.unwrap()["record"]["text"], "new");

    // The other order: the stream repeats old events after the page was stored.
    scene.push(&did, "deleted", "2222222222222", Some(&note("ancient")));
    scene.push(&did, "changed", "2222222222222", Some(&note("ancient")));
    scene.push(&did, "kept", "2222222222222", None);
    let rev = scene.network.put(&did, NOTES, "last", note("last"));
    scene.push(&did, "last", &rev, Some(&note("last")));
    scene
        .server
        .eventually("the events are applied", async |_: &Instance| scene.record(&did, "last").await.is_some())
        .await;
    scene.assert_equal(NOTES).await;
}

async fn an_account_that_moved_is_read_at_its_new_pds(scene: Scene) {
    scene.network.account(&account(0), 0);
    scene.network.fill(&account(0), NOTES, 3);
    let (open, opened) = watch::channel(false);
    scene.network.faults(Site::Pds(0), move |_| Some(Fault::Until(opened.clone())));
    let id = scene.create(Some(NOTES), None).await;
    scene
        .server
        .eventually("the PDS is known", async |_: &Instance| {
            scene.repos(&id).await.iter().any(|repo| repo.pds_endpoint.is_some())
        })
        .await;
    scene.request(&id, Request::Pause).await;
    scene.wait_for_status(&id, "paused").await;
    // A restart forgets the cached document, as time does.
    let mut scene = scene;
    assert_eq!(scene.server.stop(), Some(0));
    scene.network.account(&account(0), 1);
    open.send_replace(true);
    scene.server.start_again().await;
    scene.request(&id, Request::Resume).await;
    let job = scene.wait_for_status(&id, "completed").await;
    assert_eq!((job.processed_repos, job.resolved_repos), (Some(1), Some(1)));
    scene.assert_equal(NOTES).await;
    assert_eq!(scene.repos(&id).await[0].pds_endpoint, Some(scene.network.pds_url(1)));
}

async fn accounts_that_can_not_be_read_keep_their_rows(scene: Scene) {
    let states =
        [Some("RepoDeactivated"), Some("RepoTakendown"), Some("RepoSuspended"), Some("RepoNotFound"), None];
    for n in 0..states.len() {
        scene.network.account(&account(n), 0);
        scene.network.fill(&account(n), NOTES, 3);
    }
    scene.backfill().await;
    for (n, error) in states.into_iter().enumerate() {
        scene.network.set_error(&account(n), error);
    }
    scene.network.delete(&account(4), NOTES, "0001");
    let (id, job) = scene.backfill().await;
    assert_eq!((job.processed_repos, job.total_records, &job.error), (Some(5), Some(2), &None));
    let kinds = ["repo_deactivated", "repo_takendown", "repo_takendown", "repo_not_found"];
    let expected: BTreeMap<_, _> =
        kinds.iter().enumerate().map(|(n, kind)| (account(n), (*kind).to_owned())).collect();
    assert_eq!(scene.errors(&id).await, expected);
    scene.assert_equal(NOTES).await;
}
