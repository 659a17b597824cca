//! Servers that are slow, limit the rate, or fail in bursts.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use belvedere_standins::repos::{Fault, Site};

use super::*;

in_both_scenes!(
    responses_that_drip_end_early,
    limits_of_the_rate_are_respected_in_every_form,
    bursts_of_errors_are_outlived
);

async fn responses_that_drip_end_early(scene: Scene) {
    let setting = json!({ "value": "1" });
    let answer =
        scene.server.admin(Method::PUT, "/admin/settings/backfill_max_attempts", Some(&setting)).await;
    assert!(answer.status.is_success(), "{}", answer.text);
    for n in 0..8 {
        scene.network.account(&account(n), n % 4);
        scene.network.fill(&account(n), NOTES, 3);
    }
    scene.network.faults(Site::Pds(0), |query| query.method.ends_with("listRecords").then_some(Fault::Drip));
    scene
        .network
        .faults(Site::Pds(1), |query| query.method.ends_with("getLatestCommit").then_some(Fault::Drip));
    let started = Instant::now();
    let (id, job) = scene.backfill().await;
    // Without the limit, each of these requests would take thirty seconds.
    assert!(started.elapsed() < Duration::from_secs(25), "{:?}", started.elapsed());
    assert_eq!((job.processed_repos, job.total_records), (Some(8), Some(4 * 3)));
    let timeout = |n: usize| (account(n), "timeout".to_owned());
    assert_eq!(scene.errors(&id).await, [0, 1, 4, 5].map(timeout).into());
    scene.network.repair();
    scene.retry(&id).await;
    scene.assert_equal(NOTES).await;
}

async fn limits_of_the_rate_are_respected_in_every_form(scene: Scene) {
    for n in 0..8 {
        scene.network.account(&account(n), n % 4);
        scene.network.fill(&account(n), NOTES, 110);
    }
    let limited = |headers: &[(&'static str, &str)]| {
        let headers = headers.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        Fault::Status(429, headers, r#"{"error":"RateLimitExceeded"}"#.to_owned())
    };
    let now = Clock::system().now();
    scene.network.fail_first(Site::Pds(0), 3, limited(&[("ratelimit-reset", "1")]));
    scene.network.fail_first(
        Site::Pds(1),
        3,
        limited(&[("retry-after", "-5"), ("ratelimit-remaining", "0")]),
    );
    scene.network.fail_first(
        Site::Pds(2),
        1,
        limited(&[("retry-after", "later"), ("ratelimit-reset", "soon")]),
    );
    scene.network.fail_first(
        Site::Pds(3),
        1,
        limited(&[("ratelimit-reset", &(now.as_seconds() + 2).to_string()), ("retry-after", "99999")]),
    );
    let started = Instant::now();
    let (id, job) = scene.backfill().await;
    assert_eq!((scene.errors(&id).await, job.total_records), (BTreeMap::new(), Some(8 * 110)));
    // A time that can't be read is five seconds.
    assert!(started.elapsed() >= Duration::from_secs(5), "{:?}", started.elapsed());
    scene.assert_equal(NOTES).await;
}

async fn bursts_of_errors_are_outlived(scene: Scene) {
    for n in 0..24 {
        scene.network.account(&account(n), n % 4);
        scene.network.fill(&account(n), NOTES, 110);
    }
    for pds in 0..4 {
        let (mut requests, mut failed) = (0, HashMap::new());
        scene.network.faults(Site::Pds(pds), move |query| {
            requests += 1;
            let fault =
                [Fault::Status(500 + pds as u16, Vec::new(), String::new()), Fault::Reset][pds % 2].clone();
            let of_repo: &mut u32 = failed.entry(query.did.clone()).or_default();
            // A repo that fails three times is given up.
            let fails = matches!(requests % 16, 4 | 5) && *of_repo < 2;
            *of_repo += u32::from(fails);
            fails.then_some(fault)
        });
    }
    let (id, job) = scene.backfill().await;
    assert_eq!((scene.errors(&id).await, job.total_records), (BTreeMap::new(), Some(24 * 110)));
    scene.assert_equal(NOTES).await;
}
