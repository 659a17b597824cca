//! Repos that are read from CARs where that is cheaper: the index equals the network, and a wrong CAR changes nothing.

use belvedere_standins::cars::CarFault;
use belvedere_standins::repos::{Fault, Query, Site};
use tokio::sync::watch;

use super::*;
use crate::support::instance::Instance;

const LIKES: &str = "com.example.like";

fn is_car(query: &Query) -> bool {
    query.method == "com.atproto.sync.getRepo"
}

impl Scene {
    /// Creates records of about 350 bytes, such as people write.
    fn write(&self, did: &str, collection: &str, count: usize) {
        for n in 0..count {
            let text = format!("{n} {}", "a sentence of a usual length. ".repeat(10));
            let record =
                json!({ "$type": collection, "createdAt": "2026-01-01T00:00:00.000Z", "text": text });
            self.network.put(did, collection, &format!("{n:04}"), record);
        }
    }

    /// The accounts whose CARs were requested.
    fn cars(&self) -> Vec<String> {
        let sites = (0..4).flat_map(|n| self.network.queries(Site::Pds(n)));
        let mut dids: Vec<_> = sites.filter(is_car).map(|query| query.did).collect();
        dids.sort();
        dids
    }

    fn pages(&self, did: &str) -> usize {
        let sites = (0..4).flat_map(|n| self.network.queries(Site::Pds(n)));
        sites.filter(|query| query.is_page() && query.did == did).count()
    }

    /// The job as the admin API shows it.
    async fn shown(&self, id: &str) -> Value {
        let jobs = self.server.admin(Method::GET, "/admin/backfill/status", None).await.body;
        jobs.as_array().unwrap().iter().find(|job| job["id"] == id).unwrap().clone()
    }
}

in_both_scenes!(
    the_cheaper_source_is_chosen_for_each_repo,
    all_collections_of_a_repo_come_from_one_car,
    what_a_car_has_not_is_removed_and_newer_changes_win,
    wrong_cars_change_nothing,
    a_car_without_an_end_is_given_up,
    hosts_that_refuse_are_asked_once_and_rate_limits_are_kept,
    a_job_that_stops_during_a_car_reads_it_again
);

async fn the_cheaper_source_is_chosen_for_each_repo(scene: Scene) {
    scene.network.serve_cars();
    for n in 0..8 {
        scene.network.account(&account(n), n % 4);
    }
    // Small repos, with much else in one of them.
    for n in 0..3 {
        scene.write(&account(n), NOTES, 60);
    }
    scene.write(&account(2), LIKES, 700);
    // Large repos with nothing else.
    for n in 3..6 {
        scene.write(&account(n), NOTES, 900);
    }
    // Large repos with much else.
    scene.write(&account(6), NOTES, 300);
    scene.write(&account(7), NOTES, 300);
    for collection in ["com.example.other", "com.example.post", LIKES] {
        scene.write(&account(6), collection, 300);
        scene.write(&account(7), collection, 300);
    }
    // A large repo with something else, which is read last: it may waste a part of what was kept by then.
    scene.network.account(&account(8), 0);
    scene.write(&account(8), NOTES, 500);
    scene.network.put(&account(8), "com.example.profile", "self", note("x"));
    let (open, opened) = watch::channel(false);
    scene.network.faults(Site::Pds(0), move |query| {
        (query.did == account(8) && query.limit == 0).then(|| Fault::Until(opened.clone()))
    });
    let id = scene.create(Some(NOTES), None).await;
    let others = async |_: &Instance| scene.job(&id).await.processed_repos == Some(8);
    scene.server.eventually("the others are read", others).await;
    open.send_replace(true);
    let job = scene.wait_for_status(&id, "completed").await;
    let records = Some(3 * 60 + 3 * 900 + 2 * 300 + 500);
    assert_eq!((scene.errors(&id).await, job.total_records), (BTreeMap::new(), records));
    scene.assert_equal(NOTES).await;
    assert_eq!(scene.index(LIKES).await.len(), 0);
    let mut large = [3, 4, 5, 8].map(account);
    large.sort();
    assert_eq!(scene.cars(), large);
    assert_eq!([0, 3, 6].map(|n| scene.pages(&account(n))), [1, 1, 3]);

    let (fetched, kept) = (scene.network.bytes_of_pdss(), job.traffic.bytes_kept as u64);
    assert!(kept > 1_000_000 && fetched < 3 * kept, "{fetched} bytes fetched, {kept} kept");
    let shown = scene.shown(&id).await;
    assert_eq!((&shown["bytes_fetched"], &shown["bytes_kept"]), (&json!(fetched), &json!(kept)));
    let car = &shown["sources"]["car"];
    assert_eq!((&car["requests"], &car["repos"]), (&json!(4), &json!(4)), "{shown}");
    let requests: usize = (0..4).map(|n| scene.network.queries(Site::Pds(n)).len()).sum();
    assert_eq!(shown["sources"]["pages"]["requests"], json!(requests - 4));
    let bytes = |source: &str| shown["sources"][source]["bytes"].as_u64().unwrap();
    assert_eq!(bytes("car") + bytes("pages"), fetched);

    // A job that has kept nothing yet can't afford it.
    let before = scene.cars().len();
    let id = scene.create(Some(NOTES), Some(&account(8))).await;
    scene.wait_for_status(&id, "completed").await;
    assert_eq!(scene.cars().len(), before);
}

async fn all_collections_of_a_repo_come_from_one_car(scene: Scene) {
    scene.network.serve_cars();
    scene.track(LIKES).await;
    scene.network.account(&account(0), 0);
    scene.network.fill(&account(0), NOTES, 350);
    scene.network.fill(&account(0), LIKES, 120);
    scene.network.put(
        &account(0),
        NOTES,
        "deep",
        json!({
            "$type": NOTES, "text": "é\u{1F600}\"\\", "list": [1, -1, null, true, { "a": [] }],
            "link": { "$link": "bafyreidfayvfuwqa7qlnopdjiqrxzs6blmoeu4rujcjtnci5beludirz2a" },
        }),
    );
    let id = scene.create(None, Some(&account(0))).await;
    let job = scene.wait_for_status(&id, "completed").await;
    assert_eq!((job.total_records, job.traffic.car_repos), (Some(471), 1));
    for collection in [NOTES, LIKES] {
        scene.assert_equal(collection).await;
    }
    assert_eq!(scene.pages(&account(0)), 2, "one for each collection");

    // The same records from pages: nothing is written.
    let before = scene.rows(NOTES).await;
    scene
        .network
        .faults(Site::Pds(0), |query| is_car(query).then(|| Fault::Status(404, Vec::new(), String::new())));
    let id = scene.create(None, Some(&account(0))).await;
    let job = scene.wait_for_status(&id, "completed").await;
    assert_eq!((job.total_records, job.traffic.car_repos), (Some(471), 0));
    assert_eq!(scene.rows(NOTES).await, before, "not even when they were indexed");
}

async fn what_a_car_has_not_is_removed_and_newer_changes_win(scene: Scene) {
    scene.network.serve_cars();
    let did = account(0);
    scene.network.account(&did, 0);
    scene.network.fill(&did, NOTES, 700);
    scene.backfill().await;
    for n in (0..700).step_by(3) {
        scene.network.delete(&did, NOTES, &format!("{n:04}"));
    }
    scene.network.put(&did, NOTES, "0001", note("changed"));
    let (open, opened) = watch::channel(false);
    scene.network.faults(Site::Pds(0), move |query| is_car(query).then(|| Fault::Until(opened.clone())));
    let id = scene.create(Some(NOTES), None).await;
    scene.server.eventually("the CAR is in flight", async |_: &Instance| scene.cars().len() == 2).await;
    // While it is in flight, the stream brings changes that it does not have.
    let rev = scene.network.put(&did, NOTES, "0002", note("newer"));
    scene.push(&did, "0002", &rev, Some(&note("newer")));
    let rev = scene.network.delete(&did, NOTES, "0004");
    scene.push(&did, "0004", &rev, None);
    let rev = scene.network.put(&did, NOTES, "0005a", note("new"));
    scene.push(&did, "0005a", &rev, Some(&note("new")));
    let new = format!("at://{did}/{NOTES}/0005a");
    let arrived = async |_: &Instance| scene.index(NOTES).await.contains_key(&new);
    scene.server.eventually("the stream's changes", arrived).await;
    open.send_replace(true);
    let job = scene.wait_for_status(&id, "completed").await;
    assert_eq!((scene.errors(&id).await, job.traffic.car_repos), (BTreeMap::new(), 1));
    scene.assert_equal(NOTES).await;
}

async fn wrong_cars_change_nothing(scene: Scene) {
    scene.network.serve_cars();
    // Two on each PDS: after three in a row it would not be asked again.
    for (round, faults) in CarFault::BAD.chunks(8).enumerate() {
        let by_did: BTreeMap<String, CarFault> =
            faults.iter().enumerate().map(|(n, fault)| (account(8 * round + n), *fault)).collect();
        for (n, did) in (0..faults.len()).map(|n| (n, account(8 * round + n))) {
            scene.network.account(&did, n % 4);
            scene.network.fill(&did, NOTES, 240);
        }
        scene.backfill().await;
        let before = scene.index(NOTES).await;
        for did in by_did.keys() {
            for n in 0..60 {
                scene.network.delete(did, NOTES, &format!("{n:04}"));
            }
            scene.network.put(did, NOTES, "0070", note("changed"));
        }
        for pds in 0..4 {
            let by_did = by_did.clone();
            scene.network.faults(Site::Pds(pds), move |query| {
                let fault = by_did.get(&query.did)?;
                if query.cursor.is_some() {
                    return Some(Fault::Status(400, Vec::new(), r#"{"error":"Broken"}"#.to_owned()));
                }
                is_car(query).then_some(Fault::Car(*fault))
            });
        }
        let requests = |did: &str| scene.cars().iter().filter(|other| *other == did).count();
        let requested: Vec<_> = by_did.keys().map(|did| (did, requests(did))).collect();
        let (id, job) = scene.backfill().await;
        for (did, before) in requested {
            assert_eq!(requests(did), before + 1, "{did}");
        }
        // Neither source gives the rest: the job says so, and what is stored stays.
        let failed: BTreeMap<_, _> = by_did.keys().map(|did| (did.clone(), "other".to_owned())).collect();
        assert_eq!(scene.errors(&id).await, failed);
        assert_eq!(scene.index(NOTES).await, before);
        assert_eq!(job.traffic.car_repos as usize + by_did.len(), 8 * round + faults.len());

        // The pages alone are enough.
        for pds in 0..4 {
            let by_did = by_did.clone();
            scene.network.faults(Site::Pds(pds), move |query| {
                by_did.get(&query.did).filter(|_| is_car(query)).map(|fault| Fault::Car(*fault))
            });
        }
        let (retry, job) = scene.retry(&id).await;
        assert_eq!((scene.errors(&retry).await, job.traffic.car_repos), (BTreeMap::new(), 0));
        scene.assert_equal(NOTES).await;
        scene.network.repair();
    }
    let log = scene.server.log();
    for reason in [
        "truncated block data",
        "has another CID",
        "is missing",
        "not signed with the account's key",
        "keys are not in ascending order",
        "is older than the repo's latest commit",
        "it is the repo of did:plc:someoneelse",
    ] {
        assert!(log.contains(reason), "{reason}: {log}");
    }
    let (id, job) = scene.backfill().await;
    assert_eq!(
        (scene.errors(&id).await, job.traffic.car_repos as usize),
        (BTreeMap::new(), CarFault::BAD.len())
    );
    scene.assert_equal(NOTES).await;
}

async fn a_car_without_an_end_is_given_up(scene: Scene) {
    scene.network.serve_cars();
    scene.network.account(&account(0), 0);
    scene.network.fill(&account(0), NOTES, 250);
    scene.network.faults(Site::Pds(0), |query| is_car(query).then_some(Fault::Gigabyte));
    let (id, job) = scene.backfill().await;
    assert_eq!((scene.errors(&id).await, job.total_records), (BTreeMap::new(), Some(250)));
    scene.assert_equal(NOTES).await;
    assert!(job.traffic.car_bytes <= 32 << 20, "{:?}", job.traffic);
    // And what buffers on the way hold.
    assert!(scene.network.bytes_of_pdss() < 64 << 20);
}

async fn hosts_that_refuse_are_asked_once_and_rate_limits_are_kept(scene: Scene) {
    scene.network.serve_cars();
    for n in 0..12 {
        scene.network.account(&account(n), n % 4);
        scene.network.fill(&account(n), NOTES, 150);
    }
    for (pds, status) in [(0, 501), (1, 404), (2, 403)] {
        scene.network.faults(Site::Pds(pds), move |query| {
            is_car(query)
                .then(|| Fault::Status(status, Vec::new(), r#"{"error":"MethodNotImplemented"}"#.to_owned()))
        });
    }
    let mut limited = 1;
    scene.network.faults(Site::Pds(3), move |query| {
        let headers = vec![("retry-after", "1".to_owned())];
        (is_car(query) && limited > 0).then(|| {
            limited -= 1;
            Fault::Status(429, headers, String::new())
        })
    });
    // One repo at a time.
    let settings = json!({ "value": "1" });
    let path = "/admin/settings/backfill_concurrent_dids_per_pds";
    assert!(scene.server.admin(Method::PUT, path, Some(&settings)).await.status.is_success());
    let (id, job) = scene.backfill().await;
    assert_eq!((scene.errors(&id).await, job.total_records), (BTreeMap::new(), Some(12 * 150)));
    scene.assert_equal(NOTES).await;
    let asked = |pds| scene.network.queries(Site::Pds(pds)).iter().filter(|query| is_car(query)).count();
    assert_eq!([0, 1, 2, 3].map(asked), [1, 1, 1, 3]);
    assert_eq!(job.traffic.car_repos, 2, "the one that had to wait was read in pages");
}

async fn a_job_that_stops_during_a_car_reads_it_again(mut scene: Scene) {
    scene.network.serve_cars();
    scene.network.account(&account(0), 0);
    scene.network.fill(&account(0), NOTES, 1_250);
    let (open, opened) = watch::channel(false);
    scene.network.faults(Site::Pds(0), move |query| is_car(query).then(|| Fault::Until(opened.clone())));
    let id = scene.create(Some(NOTES), None).await;
    scene.server.eventually("the CAR is in flight", async |_: &Instance| scene.cars().len() == 1).await;
    scene.request(&id, Request::Pause).await;
    let paused = scene.wait_for_status(&id, "paused").await;
    assert_eq!((paused.total_records, paused.processed_repos), (Some(100), Some(0)));
    scene.request(&id, Request::Resume).await;
    scene.server.eventually("the CAR is in flight", async |_: &Instance| scene.cars().len() == 2).await;
    scene.server.kill();
    open.send_replace(true);
    scene.server.start_again().await;
    let job = scene.wait_for_status(&id, "completed").await;
    assert_eq!((job.total_records, job.processed_repos, job.traffic.car_repos), (Some(1_250), Some(1), 1));
    scene.assert_equal(NOTES).await;
}
