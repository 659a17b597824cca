//! Records that can't be indexed: the job names them, the others are indexed, and a retry reads them once they can.

use belvedere_standins::repos::{Fault, Query, Site};

use super::*;

/// More than a record may have.
const GIANT: usize = (1 << 20) + 1_000;

in_both_scenes!(records_that_can_not_be_indexed_are_named, a_repeated_page_is_read_over);

async fn records_that_can_not_be_indexed_are_named(scene: Scene) {
    for n in 0..4 {
        scene.network.account(&account(n), n);
        scene.network.fill(&account(n), NOTES, 5);
    }
    scene.network.put(&account(0), NOTES, "giant", note(&"x".repeat(GIANT)));
    scene.network.put(&account(1), NOTES, "nul", note("a\0b"));
    let pages =
        |fault: Fault| move |query: &Query| query.method.ends_with("listRecords").then(|| fault.clone());
    // A string that is not text, and one level too many.
    let deep = format!("{}1{}", "{\"a\":".repeat(65), "}".repeat(65));
    let broken =
        vec![("surrogate", r#"{"text":"\ud800"}"#.to_owned()), ("deep", deep), ("array", "[1]".to_owned())];
    scene.network.faults(Site::Pds(2), pages(Fault::Records(broken)));
    let partial = format!(r#"{{"records":[{{"uri":"at://{}/{NOTES}/a"}},7,null]}}"#, account(3));
    scene.network.faults(Site::Pds(3), pages(Fault::Text(partial)));
    let (id, job) = scene.backfill().await;
    assert_eq!(job.processed_repos, Some(4));
    let stores_nul = matches!(scene.db, Db::Sqlite(_));
    let uri = |n, rkey| format!("at://{}/{NOTES}/{rkey}", account(n));
    let mut expected = BTreeMap::from([
        (account(0), format!("1 record was left out: the record is larger than 1 MiB: {}", uri(0, "giant"))),
        (
            account(2),
            format!(
                "3 records were left out, the first because the record is not JSON: {}",
                uri(2, "surrogate")
            ),
        ),
        (
            account(3),
            format!(
                "3 records were left out, the first because it is listed without a URI, a CID or a value: {NOTES}"
            ),
        ),
    ]);
    if !stores_nul {
        expected.insert(
            account(1),
            format!("1 record was left out: the database can't store it: {}", uri(1, "nul")),
        );
    }
    assert_eq!(scene.error_texts(&id).await, expected.into_values().collect::<Vec<_>>());
    // The other records are indexed.
    assert_eq!(scene.index(NOTES).await.len(), 5 + 5 + usize::from(stores_nul));

    // The author mends the records, and the servers are repaired.
    scene.network.put(&account(0), NOTES, "giant", note("small"));
    scene.network.put(&account(1), NOTES, "nul", note("text"));
    scene.network.repair();
    scene.retry(&id).await;
    scene.backfill().await;
    scene.assert_equal(NOTES).await;
}

async fn a_repeated_page_is_read_over(scene: Scene) {
    scene.network.account(&account(0), 0);
    scene.network.fill(&account(0), NOTES, 350);
    let mut pages = 0;
    scene.network.faults(Site::Pds(0), move |query| {
        pages += usize::from(query.is_page());
        (pages == 3).then_some(Fault::PageBefore)
    });
    let (id, _) = scene.backfill().await;
    assert_eq!(scene.errors(&id).await, BTreeMap::new());
    scene.assert_equal(NOTES).await;
}
