//! PDSs that answer, but wrongly: nothing false is stored, and nothing is removed because of it.

use belvedere_standins::repos::{Fault, Query, Site};

use super::*;

in_both_scenes!(
    wrong_answers_store_and_remove_nothing,
    a_page_of_unusable_records_is_not_the_end,
    what_a_list_lacks_without_a_new_commit_is_kept,
    an_empty_list_removes_nothing_that_the_repo_has,
    a_rev_of_the_future_is_refused,
    pages_that_are_too_large_are_read_in_parts,
    records_with_wrong_cids_are_left_out_and_reported
);

async fn wrong_answers_store_and_remove_nothing(scene: Scene) {
    for n in 0..4 {
        scene.network.account(&account(n), n);
        scene.network.fill(&account(n), NOTES, 150);
    }
    scene.backfill().await;
    let before = scene.index(NOTES).await;
    for n in 0..4 {
        for key in 0..40 {
            scene.network.delete(&account(n), NOTES, &format!("{key:04}"));
        }
        scene.network.put(&account(n), NOTES, "0130", note("changed"));
    }
    scene
        .network
        .faults(Site::Pds(0), |query| query.method.ends_with("listRecords").then_some(Fault::WrongDids));
    scene
        .network
        .faults(Site::Pds(1), |query| query.method.ends_with("listRecords").then_some(Fault::Unordered));
    scene
        .network
        .faults(Site::Pds(2), |query| query.method.ends_with("listRecords").then_some(Fault::SameCursor));
    scene
        .network
        .faults(Site::Pds(3), |query| query.method.ends_with("listRecords").then_some(Fault::Endless));
    let (id, _) = scene.backfill().await;
    let other = |n| (account(n), "other".to_owned());
    // The second list ends, although nothing can be concluded from it.
    assert_eq!(scene.errors(&id).await, [other(0), other(2), other(3)].into());
    let texts = scene.error_texts(&id).await;
    let foreign = "110 records were left out, the first because it is listed, but is no record of this collection: \
                   at://did:plc:someoneelsesomeoneelsesom/com.example.note/0149";
    assert_eq!(
        texts,
        [foreign, "the PDS gave the same cursor again", "the PDS lists the same records again"]
    );
    let after = scene.index(NOTES).await;
    assert_eq!(after.keys().collect::<Vec<_>>(), before.keys().collect::<Vec<_>>(), "nothing is removed");
    // True records are stored: all but the first list have the new version of a record.
    let changed: Vec<_> =
        after.iter().filter(|(uri, cid)| before[*uri] != **cid).map(|(uri, _)| uri).collect();
    assert_eq!(
        changed,
        [1, 2, 3].map(|n| format!("at://{}/{NOTES}/0130", account(n))).iter().collect::<Vec<_>>()
    );

    scene.network.repair();
    scene.backfill().await;
    scene.assert_equal(NOTES).await;
}

async fn a_page_of_unusable_records_is_not_the_end(scene: Scene) {
    scene.network.account(&account(0), 0);
    scene.network.fill(&account(0), NOTES, 250);
    scene.network.faults(Site::Pds(0), |query| {
        let is_first = query.is_page() && query.cursor.is_none();
        is_first.then_some(Fault::WrongDids)
    });
    let (_, job) = scene.backfill().await;
    assert_eq!(job.total_records, Some(150), "the pages after it");
    scene.network.repair();
    scene.backfill().await;
    scene.assert_equal(NOTES).await;
}

async fn what_a_list_lacks_without_a_new_commit_is_kept(scene: Scene) {
    scene.network.account(&account(0), 0);
    scene.network.fill(&account(0), NOTES, 3);
    scene.backfill().await;
    let before = scene.index(NOTES).await;
    scene.network.faults(Site::Pds(0), |query| {
        let listed = ["0002", "0000"].map(|key| (key, r#"{"n":0}"#.to_owned()));
        query.is_page().then(|| Fault::Records(listed.to_vec()))
    });
    scene.backfill().await;
    assert_eq!(scene.index(NOTES).await, before, "the record was written by the commit that the list is of");
}

async fn an_empty_list_removes_nothing_that_the_repo_has(scene: Scene) {
    scene.network.account(&account(0), 0);
    scene.network.fill(&account(0), NOTES, 120);
    scene.backfill().await;
    scene.network.put(&account(0), NOTES, "new", note("new"));
    scene.network.faults(Site::Pds(0), |query| {
        let empty = Fault::Status(200, Vec::new(), r#"{"records":[]}"#.to_owned());
        query.method.ends_with("listRecords").then_some(empty)
    });
    let before = scene.index(NOTES).await;
    let (id, _) = scene.backfill().await;
    assert_eq!(scene.index(NOTES).await, before);
    let texts = scene.error_texts(&id).await;
    assert!(texts.len() == 1 && texts[0].contains("does not list it, although it has it"), "{texts:?}");
    scene.network.repair();
    let id = scene.create(Some(NOTES), Some(&account(0))).await;
    scene.wait_for_status(&id, "completed").await;
    scene.assert_equal(NOTES).await;
}

async fn a_rev_of_the_future_is_refused(scene: Scene) {
    scene.network.account(&account(0), 0);
    scene.network.fill(&account(0), NOTES, 3);
    scene.network.faults(Site::Pds(0), |query| {
        let future = Fault::Status(200, Vec::new(), r#"{"cid":"bafy","rev":"7zzzzzzzzzzzz"}"#.to_owned());
        query.method.ends_with("getLatestCommit").then_some(future)
    });
    let (id, _) = scene.backfill().await;
    assert_eq!(scene.errors(&id).await, [(account(0), "other".to_owned())].into());
    scene.network.repair();
    scene.retry(&id).await;
    scene.assert_equal(NOTES).await;
}

async fn pages_that_are_too_large_are_read_in_parts(scene: Scene) {
    scene.network.account(&account(0), 0);
    for n in 0..120 {
        let text = "x".repeat(if n % 2 == 0 { 90_000 } else { 10 });
        scene.network.put(&account(0), NOTES, &format!("{n:03}"), note(&text));
    }
    let (id, job) = scene.backfill().await;
    assert_eq!((scene.errors(&id).await, job.total_records), (BTreeMap::new(), Some(120)));
    scene.assert_equal(NOTES).await;
    let lists = scene.network.queries(Site::Pds(0)).into_iter().filter(Query::is_page);
    let limits: Vec<_> = lists.map(|query| query.limit).collect();
    assert_eq!(limits, [&[100][..], &[20; 6]].concat(), "the smaller size is kept");
}

async fn records_with_wrong_cids_are_left_out_and_reported(scene: Scene) {
    scene.network.account(&account(0), 0);
    scene.network.fill(&account(0), NOTES, 50);
    scene.backfill().await;
    scene.network.put(&account(0), NOTES, "0001", note("changed"));
    scene.network.put(&account(0), NOTES, "new", note("new"));
    let before = scene.index(NOTES).await;
    scene
        .network
        .faults(Site::Pds(0), |query| query.method.ends_with("listRecords").then_some(Fault::WrongCids));
    let (id, job) = scene.backfill().await;
    assert_eq!((job.total_records, scene.repos(&id).await[0].status.as_str()), (Some(0), "failed"));
    let mismatch = "51 records were left out, the first because the record does not match its CID: at://";
    assert_eq!(scene.error_texts(&id).await, [format!("{mismatch}{}/{NOTES}/new", account(0))]);
    assert_eq!(scene.index(NOTES).await, before, "neither stored nor removed");
    let page =
        scene.server.admin(Method::GET, "/admin/events?event_type=record.cid_mismatch&limit=100", None).await;
    let reported = page.body["events"].as_array().unwrap().len();
    assert!((1..=20).contains(&reported), "within bounds: {reported}");
    scene.network.repair();
    scene.retry(&id).await;
    scene.assert_equal(NOTES).await;
}
