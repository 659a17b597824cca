//! Backfill jobs: lists, retries, checkpoints and the removal of details.

use crate::store::testing::TestDb;
use std::collections::BTreeMap;

use crate::store::Db;
use crate::store::backfill::{
    self, Checkpoint, CollectionPosition, Counters, FinishedRepo, NewJob, Phase, Requested, Traffic,
};
use crate::store::status::{BackfillStatus, Request};
use belvedere_base::clock::Timestamp;
use belvedere_protocol::atproto::{Did, Nsid};

const NOW: Timestamp = Timestamp(7);
const HOST: &str = "https://pds.example";

fn new_job(id: &str) -> NewJob {
    NewJob { id: id.to_owned(), collection: Some("com.example.note".to_owned()), ..NewJob::default() }
}

fn did(n: usize) -> String {
    format!("did:plc:{n:04}")
}

/// A job with repos. Returns its `seq`.
async fn job_with_repos(db: &Db, id: &str, count: usize) -> i64 {
    backfill::create(db, &new_job(id), NOW).await.unwrap();
    let seq = backfill::next(db).await.unwrap().unwrap().seq;
    let collection = Nsid::try_from("com.example.note").unwrap();
    let dids: Vec<String> = (0..count).map(did).collect();
    let added = backfill::add_repos(db, seq, collection.as_str(), &dids, Some("next")).await.unwrap();
    assert_eq!(added.len(), count);
    let again = backfill::add_repos(db, seq, collection.as_str(), &dids[..1], None).await.unwrap();
    assert_eq!(again, [""; 0], "known already");
    let discovery = backfill::discovery(db, seq).await.unwrap();
    assert_eq!((discovery[0].cursor.as_deref(), discovery[0].is_done), (None, true));
    seq
}

fn failed(n: usize, kind: &'static str) -> FinishedRepo {
    FinishedRepo { did: did(n), records: 0, error: Some((kind, "a\0b".to_owned())) }
}

on_both!(
    checkpoints_change_the_repos_of_their_job_only,
    hosts_are_summarized_with_their_most_frequent_error,
    jobs_are_listed_by_page,
    failed_repos_are_retried_by_kind,
    details_of_ended_jobs_are_removed,
    requests_change_a_status_only_where_it_allows_them
);

async fn checkpoints_change_the_repos_of_their_job_only(db: TestDb) {
    let seq = job_with_repos(&db, "a", 6).await;
    backfill::end(&db, seq, Request::Fail, Some("moved aside"), NOW).await.unwrap();
    let other = job_with_repos(&db, "b", 6).await;
    assert_ne!(seq, other);
    let position = CollectionPosition {
        collection: "com.example.note".to_owned(),
        cursor: Some("c\0".to_owned()),
        last_rkey: Some("k".to_owned()),
        is_ordered: true,
        is_done: false,
        records: 300,
    };
    for n in [1, 2] {
        backfill::save_positions(&db, other, &did(n), std::slice::from_ref(&position)).await.unwrap();
    }
    let moved = CollectionPosition { cursor: Some("d".to_owned()), records: 400, ..position.clone() };
    backfill::save_positions(&db, other, &did(1), std::slice::from_ref(&moved)).await.unwrap();
    assert_eq!(backfill::positions(&db, other, &did(1)).await.unwrap(), [moved]);
    assert_eq!(
        backfill::positions(&db, other, &did(2)).await.unwrap()[0].cursor.as_deref(),
        Some("c\u{fffd}")
    );
    assert_eq!(backfill::positions(&db, seq, &did(1)).await.unwrap(), []);

    let traffic = Traffic {
        page_requests: 1,
        page_bytes: 2,
        car_requests: 3,
        car_bytes: 4,
        car_repos: 5,
        bytes_kept: 6,
    };
    let checkpoint = Checkpoint {
        resolved: (0..4).map(|n| (did(n), HOST.to_owned())).collect(),
        finished: vec![
            FinishedRepo { did: did(0), records: 17, error: None },
            FinishedRepo { did: did(1), records: 400, error: None },
            failed(5, "did_doc_not_found"),
        ],
        counters: Counters {
            total_repos: 6,
            resolved_repos: 4,
            processed_repos: 3,
            failed_repos: 1,
            total_records: 717,
        },
        traffic,
    };
    backfill::checkpoint(&db, other, &checkpoint).await.unwrap();
    assert_eq!(
        backfill::count(&db, other).await.unwrap(),
        checkpoint.counters,
        "300 are of a repo in progress"
    );
    assert_eq!(backfill::positions(&db, other, &did(1)).await.unwrap(), [], "it is completed");
    assert_eq!(backfill::count(&db, seq).await.unwrap(), Counters { total_repos: 6, ..Counters::default() });
    let row = backfill::get(&db, "b").await.unwrap().unwrap();
    assert_eq!((row.total_repos, row.failed_repos, row.total_records), (Some(6), Some(1), Some(717)));
    assert_eq!((row.traffic, backfill::traffic(&db, other).await.unwrap()), (traffic, traffic));
    assert_eq!(backfill::traffic(&db, seq).await.unwrap(), Traffic::default(), "a job that has none");

    assert_eq!(backfill::unresolved(&db, other, "", 10).await.unwrap(), [did(4)]);
    assert_eq!(backfill::pending_hosts(&db, other).await.unwrap(), [HOST]);
    assert_eq!(backfill::pending_of_host(&db, other, HOST, 10).await.unwrap(), [did(2), did(3)]);
    assert_eq!(backfill::fail_host(&db, other, HOST, "timeout", "x").await.unwrap(), 2);
    assert_eq!(backfill::pending_hosts(&db, other).await.unwrap(), [""; 0]);

    let list = async |phase, after: Option<&str>| {
        let rows = backfill::repos(&db, "b", phase, after, 3).await.unwrap();
        rows.into_iter().map(|row| row.did).collect::<Vec<_>>()
    };
    assert_eq!(list(Phase::All, None).await, [did(0), did(1), did(2)]);
    assert_eq!(list(Phase::All, Some(&did(2))).await, [did(3), did(4), did(5)]);
    assert_eq!(list(Phase::Resolved, Some(&did(1))).await, [did(2), did(3)]);
    assert_eq!(list(Phase::Fetched, None).await, [did(0), did(1)]);
    let errors = backfill::errors(&db, "b", Some(&did(2)), 10).await.unwrap();
    assert_eq!(errors.iter().map(|row| row.did.clone()).collect::<Vec<_>>(), [did(3), did(5)]);
    assert_eq!(errors[1].error.as_deref(), Some("a\u{fffd}b"));
    let summary = backfill::pds_summary(&db, "b").await.unwrap();
    assert_eq!(
        (summary.len(), summary[0].total_repos, summary[0].completed_repos, summary[0].total_records),
        (1, 4, 2, 417)
    );
    assert_eq!((summary[0].failed_repos, summary[0].error_kind.as_deref()), (2, Some("timeout")));
}

async fn hosts_are_summarized_with_their_most_frequent_error(db: TestDb) {
    let seq = job_with_repos(&db, "a", 9).await;
    let host = |n: usize| format!("https://pds{}.example", n % 3);
    let finished = vec![
        failed(0, "timeout"),
        failed(3, "other"),
        failed(6, "other"),
        failed(1, "rate_limited"),
        FinishedRepo { did: did(4), records: 5, error: None },
    ];
    let resolved = (0..8).map(|n| (did(n), host(n))).collect();
    backfill::checkpoint(&db, seq, &Checkpoint { resolved, finished, ..Checkpoint::default() })
        .await
        .unwrap();
    let summary = backfill::pds_summary(&db, "a").await.unwrap();
    let shown: Vec<_> = summary
        .iter()
        .map(|pds| {
            let repos = [pds.total_repos, pds.completed_repos, pds.failed_repos, pds.total_records];
            (pds.pds_endpoint.clone(), repos, pds.error_kind.as_deref())
        })
        .collect();
    assert_eq!(
        shown,
        [
            (host(0), [3, 0, 3, 0], Some("other")),
            (host(1), [3, 1, 1, 5], Some("rate_limited")),
            (host(2), [2, 0, 0, 0], None),
        ]
    );
}

async fn jobs_are_listed_by_page(db: TestDb) {
    // The last two were created at the same time.
    for (id, at) in [("a", 1), ("b", 2), ("c", 2)] {
        backfill::create(&db, &new_job(id), Timestamp(at)).await.unwrap();
    }
    let page = async |after: Option<&str>, limit| {
        let rows = backfill::list_page(&db, after, limit).await.unwrap();
        rows.into_iter().map(|row| row.id).collect::<Vec<_>>()
    };
    assert_eq!(page(None, 2).await, ["c", "b"]);
    assert_eq!(page(Some("c"), 2).await, ["b", "a"]);
    assert_eq!(page(Some("b"), 2).await, ["a"]);
    assert_eq!(page(Some("a"), 2).await, [""; 0]);
    assert_eq!(page(Some("unknown"), 2).await, [""; 0]);
}

async fn failed_repos_are_retried_by_kind(db: TestDb) {
    let seq = job_with_repos(&db, "a", 5).await;
    let finished = vec![failed(0, "timeout"), failed(1, "other"), failed(3, "timeout")];
    backfill::checkpoint(&db, seq, &Checkpoint { finished, ..Checkpoint::default() }).await.unwrap();
    backfill::end(&db, seq, Request::Complete, None, NOW).await.unwrap();
    let counts: BTreeMap<_, _> = [("other".to_owned(), 1), ("timeout".to_owned(), 2)].into();
    assert_eq!(backfill::error_counts(&db, "a").await.unwrap(), counts);

    let retry = async |id: &str, source: &str, kinds: &[&str]| {
        let kinds: Vec<String> = kinds.iter().map(|kind| (*kind).to_owned()).collect();
        backfill::retry_failed(&db, source, &kinds, &new_job(id), NOW).await.unwrap()
    };
    assert_eq!(retry("none", "a", &["dns_failure"]).await, Some(0));
    assert_eq!(retry("none", "unknown", &[]).await, None);
    assert!(backfill::get(&db, "none").await.unwrap().is_none());
    assert_eq!(retry("some", "a", &["timeout", "rate_limited"]).await, Some(2));
    assert_eq!(retry("all", "a", &[]).await, Some(3));
    let next = backfill::next(&db).await.unwrap().unwrap();
    assert_eq!(
        (next.id.as_str(), next.is_discovered, next.collection.as_deref()),
        ("some", true, Some("com.example.note"))
    );
    assert_eq!(backfill::unresolved(&db, next.seq, "", 10).await.unwrap(), [did(0), did(3)]);
    assert_eq!(backfill::get(&db, "some").await.unwrap().unwrap().total_repos, Some(2));
}

async fn details_of_ended_jobs_are_removed(db: TestDb) {
    let old = job_with_repos(&db, "old", 2_500).await;
    backfill::end(&db, old, Request::Complete, None, Timestamp(10)).await.unwrap();
    let recent = job_with_repos(&db, "recent", 3).await;
    backfill::end(&db, recent, Request::Complete, None, Timestamp(20)).await.unwrap();
    let running = job_with_repos(&db, "running", 3).await;
    let left = async || {
        let mut counts = Vec::new();
        for seq in [old, recent, running] {
            counts.push(backfill::count(&db, seq).await.unwrap().total_repos);
        }
        counts
    };
    backfill::delete_details_older_than(&db, Timestamp(10)).await.unwrap();
    assert_eq!(left().await, [2_500, 3, 3]);
    backfill::delete_details_older_than(&db, Timestamp(20)).await.unwrap();
    assert_eq!(left().await, [0, 3, 3]);
    for id in ["unknown", "running"] {
        backfill::delete_details(&db, Some(id)).await.unwrap();
    }
    assert_eq!(left().await, [0, 3, 3]);
    backfill::delete_details(&db, None).await.unwrap();
    assert_eq!(left().await, [0, 0, 3]);
    assert_eq!(backfill::discovery(&db, recent).await.unwrap(), []);
    assert_eq!(backfill::list(&db).await.unwrap().len(), 3, "the jobs stay");
}

async fn requests_change_a_status_only_where_it_allows_them(db: TestDb) {
    assert_eq!(backfill::request(&db, "a", Request::Pause).await.unwrap(), Requested::Unknown);
    let seq = job_with_repos(&db, "a", 1).await;
    let status = async |request| match backfill::request(&db, "a", request).await.unwrap() {
        Requested::Done(job) => job.status.to_string(),
        other => format!("{other:?}"),
    };
    assert_eq!(status(Request::Resume).await, "NotAllowed");
    assert_eq!(status(Request::Pause).await, "pausing");
    assert_eq!(status(Request::Cancel).await, "NotAllowed");
    assert_eq!(backfill::settle(&db, Some(seq), NOW).await.unwrap(), [], "a worker runs it");
    assert_eq!(backfill::status(&db, seq).await.unwrap(), Some(BackfillStatus::Pausing));
    assert_eq!(backfill::settle(&db, None, NOW).await.unwrap(), []);
    assert_eq!(status(Request::Resume).await, "running");
    assert_eq!(status(Request::Cancel).await, "cancelling");
    let end = backfill::end(&db, seq, Request::Complete, None, NOW).await.unwrap();
    assert_eq!(end, Some(BackfillStatus::Cancelled), "the request came first");
    assert_eq!(backfill::end(&db, seq, Request::Fail, None, NOW).await.unwrap(), None, "it has ended");
    let job = backfill::get(&db, "a").await.unwrap().unwrap();
    assert_eq!(
        (job.status.as_str(), job.stage.as_str(), job.error.as_deref()),
        ("cancelled", "cancelled", Some("cancelled by user"))
    );
    assert!(backfill::add_repo(&db, seq, &Did::try_from("did:plc:new").unwrap()).await.unwrap());
}
