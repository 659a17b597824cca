//! PDSs whose lists are wrong or end strangely: all of a repo is read, what it has stays, and what it lacks goes.

use belvedere_standins::repos::{Fault, Query, Site};

use super::*;

in_both_scenes!(
    no_wrong_list_removes_what_the_repo_has,
    a_list_without_limit_and_order_is_read_to_its_end,
    an_empty_page_with_a_cursor_is_not_the_end,
    what_a_list_lacks_stays_until_the_pds_denies_it,
    denials_before_a_refusal_are_kept_so_that_a_tight_limit_is_got_through,
    rows_with_a_rev_of_the_future_are_corrected,
    verify_reports_nothing_that_a_wrong_list_lacks
);

async fn no_wrong_list_removes_what_the_repo_has(scene: Scene) {
    scene.network.account(&account(0), 0);
    scene.network.fill(&account(0), NOTES, 120);
    scene.backfill().await;
    let lists: [(&str, Fault); 7] = [
        ("limit", Fault::IgnoresLimit(50)),
        ("reverse", Fault::IgnoresReverse),
        ("limit and reverse", Fault::IgnoresLimitAndReverse(50)),
        ("limit and reverse, with short pages", Fault::IgnoresLimitAndReverse(1)),
        ("cursor", Fault::IgnoresCursor),
        ("a record", Fault::LacksRecord("0030")),
        ("the lowest record", Fault::LacksRecord("0000")),
    ];
    for (n, (ignored, fault)) in lists.into_iter().enumerate() {
        // A commit, without which no row is older than its list.
        scene.network.put(&account(0), NOTES, "new", note(&n.to_string()));
        scene.network.delete(&account(0), NOTES, &format!("01{:02}", 19 - n));
        let given = fault.clone();
        scene
            .network
            .faults(Site::Pds(0), move |query| query.method.ends_with("listRecords").then(|| given.clone()));
        scene.backfill().await;
        let (index, repo) = (scene.index(NOTES).await, scene.network.records(NOTES));
        let lost: Vec<_> = repo.keys().filter(|uri| !index.contains_key(*uri)).collect();
        assert!(lost.is_empty(), "{ignored}: {lost:?}");
        scene.network.repair();
        scene.backfill().await;
        scene.assert_equal(NOTES).await;
    }
}

async fn a_list_without_limit_and_order_is_read_to_its_end(scene: Scene) {
    scene.network.account(&account(0), 0);
    scene.network.fill(&account(0), NOTES, 130);
    scene.network.faults(Site::Pds(0), |query| {
        query.method.ends_with("listRecords").then_some(Fault::IgnoresLimitAndReverse(50))
    });
    let (id, job) = scene.backfill().await;
    assert_eq!((scene.errors(&id).await, job.total_records), (BTreeMap::new(), Some(130)));
    scene.assert_equal(NOTES).await;
    scene.network.delete(&account(0), NOTES, "0005");
    scene.backfill().await;
    scene.assert_equal(NOTES).await;
}

async fn an_empty_page_with_a_cursor_is_not_the_end(scene: Scene) {
    scene.network.account(&account(0), 0);
    scene.network.fill(&account(0), NOTES, 250);
    let empty = |query: &Query| query.is_page().then_some(Fault::EmptyPageWithCursor);
    scene.network.faults(Site::Pds(0), empty);
    scene.network.faults(Site::Relay, |query| {
        query.method.ends_with("listReposByCollection").then_some(Fault::EmptyPageWithCursor)
    });
    let (id, job) = scene.backfill().await;
    assert_eq!((scene.errors(&id).await, job.total_records), (BTreeMap::new(), Some(250)));
    for key in ["0000", "0120", "0249"] {
        scene.network.delete(&account(0), NOTES, key);
    }
    assert_eq!(scene.backfill().await.1.error, None);
    scene.assert_equal(NOTES).await;
    let output = scene.server.run(&["verify", "--wait", "1"]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stdout));
}

async fn what_a_list_lacks_stays_until_the_pds_denies_it(scene: Scene) {
    scene.network.account(&account(0), 0);
    scene.network.fill(&account(0), NOTES, 5);
    scene.backfill().await;
    scene.network.delete(&account(0), NOTES, "0002");
    for n in 0..3 {
        scene.network.faults(Site::Pds(0), move |query| {
            query.method.ends_with("getRecord").then(|| Fault::unknown_method(n))
        });
        let (id, _) = scene.backfill().await;
        assert!(scene.record(&account(0), "0002").await.is_some());
        let texts = scene.error_texts(&id).await;
        assert_eq!(texts, ["the PDS can't be asked for a record, so what its list lacks is kept"]);
    }
    // A failure that passes: the absent record is asked for again, and no page is.
    let mut left = 1;
    scene.network.faults(Site::Pds(0), move |query| {
        let fails = query.method.ends_with("getRecord") && left > 0;
        left -= usize::from(fails);
        fails.then(|| Fault::Status(503, Vec::new(), String::new()))
    });
    let (id, _) = scene.backfill().await;
    assert_eq!(scene.errors(&id).await, BTreeMap::new());
    scene.assert_equal(NOTES).await;
}

async fn denials_before_a_refusal_are_kept_so_that_a_tight_limit_is_got_through(scene: Scene) {
    scene.network.account(&account(0), 0);
    scene.network.fill(&account(0), NOTES, 130);
    scene.backfill().await;
    for key in 0..120 {
        scene.network.delete(&account(0), NOTES, &format!("{key:04}"));
    }
    // Thirty requests for a record at a time, of a hundred that are removed together.
    let mut requests = 0;
    scene.network.faults(Site::Pds(0), move |query| {
        let is_of_record = query.method.ends_with("getRecord");
        requests += usize::from(is_of_record);
        (is_of_record && requests % 31 == 0).then(|| Fault::rate_limited_for(1))
    });
    let (id, _) = scene.backfill().await;
    assert_eq!(scene.errors(&id).await, BTreeMap::new());
    scene.assert_equal(NOTES).await;
}

async fn rows_with_a_rev_of_the_future_are_corrected(scene: Scene) {
    scene.network.account(&account(0), 0);
    scene.network.fill(&account(0), NOTES, 4);
    scene.backfill().await;
    // Ten years, in the unit of revs.
    scene.execute("UPDATE records SET rev = rev + 323000000000000000".to_owned()).await;
    scene.network.delete(&account(0), NOTES, "0001");
    scene.network.put(&account(0), NOTES, "0002", note("changed"));
    let output = scene.server.run(&["verify", "--wait", "1"]);
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stdout));
    scene.backfill().await;
    scene.assert_equal(NOTES).await;
}

async fn verify_reports_nothing_that_a_wrong_list_lacks(scene: Scene) {
    scene.network.account(&account(0), 0);
    scene.network.fill(&account(0), NOTES, 5);
    scene.backfill().await;
    scene.network.faults(Site::Pds(0), |query| query.is_page().then_some(Fault::LacksRecord("0003")));
    let output = scene.server.run(&["verify", "--wait", "1"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("does not list a record that it has"), "{text}");
}
