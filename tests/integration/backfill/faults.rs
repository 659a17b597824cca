//! Servers that fail: what recovers is read in the same job, what does not is named, and a retry gets it later.

use std::time::{Duration, Instant};

use belvedere_standins::jetstream::synthetic_did;
use belvedere_standins::repos::{Fault, Site, document};

use super::*;

impl Scene {
    /// Four accounts on each of the four PDSs.
    fn populate(&self) {
        for n in 0..16 {
            self.network.account(&account(n), n % 4);
            self.network.fill(&account(n), NOTES, 120);
        }
    }
}

in_both_scenes!(
    failures_that_pass_cost_nothing_but_time,
    failures_that_stay_are_named_and_a_retry_reads_the_rest,
    a_dead_host_fails_in_one_step_and_delays_no_other,
    dids_that_do_not_resolve_are_classified
);

async fn failures_that_pass_cost_nothing_but_time(scene: Scene) {
    scene.populate();
    let status = |status, headers: &[(&'static str, &str)]| {
        let headers = headers.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        Fault::Status(status, headers, String::new())
    };
    let soon = (Clock::system().now().as_seconds() + 1).to_string();
    scene.network.fail_first(Site::Relay, 2, status(503, &[]));
    scene.network.fail_first(Site::Pds(0), 2, status(429, &[("ratelimit-reset", &soon)]));
    scene.network.fail_first(Site::Pds(1), 2, status(429, &[("retry-after", "1")]));
    scene.network.fail_first(Site::Pds(2), 2, status(502, &[]));
    let mut resets = 2;
    scene.network.faults(Site::Pds(3), move |query| {
        // In the middle of a list.
        (query.cursor.is_some() && resets > 0).then(|| {
            resets -= 1;
            if resets == 0 { Fault::Html } else { Fault::Reset }
        })
    });
    let (id, job) = scene.backfill().await;
    assert_eq!(scene.errors(&id).await, BTreeMap::new());
    assert_eq!((job.processed_repos, job.total_records), (Some(16), Some(16 * 120)));
    scene.assert_equal(NOTES).await;
}

async fn failures_that_stay_are_named_and_a_retry_reads_the_rest(scene: Scene) {
    scene.populate();
    let text = r#"{"error":"InternalServerError","message":"out of order"}"#;
    scene.network.faults(Site::Pds(0), move |_| Some(Fault::Status(500, Vec::new(), text.to_owned())));
    scene.network.faults(Site::Pds(1), |query| query.cursor.is_some().then_some(Fault::Reset));
    scene.network.faults(Site::Pds(2), |_| Some(Fault::Html));
    let (id, job) = scene.backfill().await;
    assert_eq!((job.total_repos, job.processed_repos), (Some(16), Some(16)));
    let kinds = backfill::error_counts(&scene.db, &id).await.unwrap();
    let expected = [("connection_failed", 4), ("pds_server_error", 8)];
    assert_eq!(kinds, expected.map(|(kind, count)| (kind.to_owned(), count)).into());
    let failed = backfill::errors(&scene.db, &id, None, 100).await.unwrap();
    let texts: Vec<_> = failed.iter().filter_map(|repo| repo.error.as_deref()).collect();
    assert!(texts.iter().any(|text| text.contains("InternalServerError: out of order")), "{texts:?}");
    assert!(failed.iter().all(|repo| repo.status.as_str() == "failed"));
    // The pages of the third PDS's repos that were read before the failure are stored: one each.
    assert_eq!(scene.server.records().await, 4 * 100 + 4 * 120);

    scene.network.repair();
    let (retry, job) = scene.retry(&id).await;
    assert_eq!((job.total_repos, job.total_records), (Some(12), Some(12 * 120)));
    assert_eq!(scene.errors(&retry).await, BTreeMap::new());
    scene.assert_equal(NOTES).await;
}

async fn a_dead_host_fails_in_one_step_and_delays_no_other(scene: Scene) {
    scene.populate();
    for n in 0..300 {
        // A port that refuses connections.
        let did = synthetic_did(n);
        scene.network.account(&did, 0);
        scene.network.fill(&did, NOTES, 1);
        scene.network.document(&did, document(&did, "http://127.0.0.1:9"));
    }
    let started = Instant::now();
    let (id, job) = scene.backfill().await;
    // Four cooldowns: 0.5 s, 1 s, 2 s and 4 s. One after the other, the repos would need minutes.
    assert!(started.elapsed() < Duration::from_secs(25), "{:?}", started.elapsed());
    let kinds = backfill::error_counts(&scene.db, &id).await.unwrap();
    assert_eq!(kinds, [("connection_failed".to_owned(), 300)].into());
    assert_eq!((job.total_repos, job.processed_repos), (Some(316), Some(316)));
    assert_eq!(job.total_records, Some(16 * 120));
}

async fn dids_that_do_not_resolve_are_classified(scene: Scene) {
    let with = |n: usize, document: Value| {
        scene.network.account(&account(n), 0);
        scene.network.fill(&account(n), NOTES, 1);
        scene.network.document(&account(n), document);
    };
    with(0, json!({ "id": "did:plc:someoneelsesomeoneelsesom" }));
    with(1, json!({ "id": account(1) }));
    with(2, json!({ "id": account(2), "service": "none" }));
    with(3, document(&account(3), "not a URL"));
    with(4, document(&account(4), &scene.network.pds_url(0)));
    scene.network.account(&account(5), 0);
    scene.network.fill(&account(5), NOTES, 1);
    let (forbidden, missing) = (account(6), account(7));
    for did in [&forbidden, &missing] {
        scene.network.account(did, 0);
        scene.network.fill(did, NOTES, 1);
    }
    scene.network.faults(Site::Relay, move |query| match &query.method {
        did if *did == forbidden => Some(Fault::Status(403, Vec::new(), String::new())),
        did if *did == missing => Some(Fault::Status(404, Vec::new(), String::new())),
        _ => None,
    });
    // A name that URL parsers accept, and that no index of a database takes.
    let labels = (0..60).map(|n| format!("{}{n}", "é".repeat(25))).collect::<Vec<_>>().join(".");
    with(8, document(&account(8), &format!("https://{labels}.example")));
    let (id, job) = scene.backfill().await;
    assert_eq!((job.total_repos, job.resolved_repos, job.processed_repos), (Some(9), Some(2), Some(9)));
    let invalid = |n| (account(n), "did_doc_invalid".to_owned());
    let expected = [
        invalid(0),
        invalid(1),
        invalid(2),
        invalid(3),
        (account(6), "did_doc_forbidden".to_owned()),
        (account(7), "did_doc_not_found".to_owned()),
        invalid(8),
    ];
    assert_eq!(scene.errors(&id).await, expected.into());
    scene.network.repair();
    for n in [0, 1, 2, 3, 8] {
        scene.network.account(&account(n), 0);
    }
    // The server has cached that these DIDs have no valid document.
    let mut scene = scene;
    assert_eq!(scene.server.stop(), Some(0));
    scene.server.start_again().await;
    scene.retry(&id).await;
    scene.assert_equal(NOTES).await;
}
