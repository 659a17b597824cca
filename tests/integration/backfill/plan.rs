//! `GET /admin/backfill/plan`: close to what the backfill then costs, and without any effect.

use belvedere_standins::jetstream::tid;
use belvedere_standins::repos::{Fault, Site};
use tokio::sync::watch;

use super::*;
use crate::support::instance::{Answer, Instance};

const POSTS: &str = "com.example.post";

impl Scene {
    async fn plan(&self, query: &str) -> Answer {
        self.server.admin(Method::GET, &format!("/admin/backfill/plan{query}"), None).await
    }

    async fn shown_jobs(&self) -> usize {
        backfill::list(&self.db).await.unwrap().len()
    }

    /// Creates notes of about 300 bytes, one in each hour.
    fn write_hourly(&self, did: &str, collection: &str, count: u64) {
        for n in 0..count {
            let text = "a sentence of a usual length. ".repeat(8);
            let rkey = tid(1_700_000_000_000_000 + n * 3_600_000_000, 0);
            self.network.put(did, collection, &rkey, json!({ "$type": collection, "n": n, "text": text }));
        }
    }
}

/// Whether an estimate is at most a quarter off.
fn is_close(estimate: &Value, truth: i64) -> bool {
    let estimate = estimate.as_f64().unwrap();
    (truth as f64 * 0.75..=truth as f64 * 1.25).contains(&estimate)
}

in_both_scenes!(
    a_plan_is_close_to_what_the_backfill_costs,
    a_plan_says_what_it_does_not_know,
    few_plans_are_made_at_the_same_time
);

async fn a_plan_is_close_to_what_the_backfill_costs(scene: Scene) {
    scene.network.serve_cars();
    for n in 0..24 {
        scene.network.account(&account(n), n % 4);
        // Short ones, long ones, and long ones with much else.
        let count = match n % 3 {
            0 => 20,
            1 => 450,
            _ => 250,
        };
        scene.write_hourly(&account(n), NOTES, count);
        if n % 3 == 2 {
            scene.write_hourly(&account(n), POSTS, 5);
            scene.write_hourly(&account(n), "com.example.like", 5);
        }
    }
    let answer = scene.plan(&format!("?collection={NOTES}")).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    let plan = answer.body;
    assert_eq!(
        (&plan["collections"], &plan["repos"], &plan["repos_at_least"]),
        (&json!([NOTES]), &json!(24), &json!(false))
    );
    assert_eq!((&plan["sampled"], &plan["unreachable"]), (&json!(24), &json!(0)));
    assert_eq!((scene.server.records().await, scene.shown_jobs().await), (0, 0), "nothing is stored");
    let sampled: usize = (0..4).map(|n| scene.network.queries(Site::Pds(n)).len()).sum();
    assert!(sampled <= 3 * 24, "a description, a page, and the oldest record: {sampled}");

    let (_, job) = scene.backfill().await;
    assert!(is_close(&plan["records"], job.total_records.unwrap()), "{plan} {job:?}");
    let traffic = job.traffic;
    assert!(is_close(&plan["requests"], traffic.page_requests + traffic.car_requests), "{plan} {traffic:?}");
    assert!(is_close(&plan["bytes"], traffic.page_bytes + traffic.car_bytes), "{plan} {traffic:?}");
    assert_eq!(plan["sources"]["car"]["repos"], json!(traffic.car_repos), "{plan} {traffic:?}");
    assert!(plan["seconds"].as_u64().unwrap() >= 1, "{plan}");

    // One repo, and all collections.
    let plan = scene.plan(&format!("?did={}", account(1))).await.body;
    assert_eq!((&plan["repos"], &plan["sources"]["car"]["repos"]), (&json!(1), &json!(1)), "{plan}");
    assert!(is_close(&plan["records"], 450), "{plan}");
}

async fn a_plan_says_what_it_does_not_know(scene: Scene) {
    for n in 0..4 {
        scene.network.account(&account(n), n);
        scene.network.fill(&account(n), NOTES, 5);
    }
    // Without descriptions no repo can be looked at.
    let plan = scene.plan("").await.body;
    assert_eq!(
        (&plan["repos"], &plan["unreachable"], &plan["requests"]),
        (&json!(4), &json!(4), &json!(0)),
        "{plan}"
    );
    scene.network.serve_cars();
    scene.network.faults(Site::Pds(1), |_| Some(Fault::Reset));
    let plan = scene.plan("").await.body;
    assert_eq!((&plan["unreachable"], &plan["records"]), (&json!(1), &json!(15)), "{plan}");

    scene.network.set_repos_per_page(2);
    let mut pages = 0;
    scene.network.faults(Site::Relay, move |query| {
        pages += usize::from(query.method.ends_with("listReposByCollection"));
        (pages == 2).then(|| Fault::Status(500, Vec::new(), String::new()))
    });
    let plan = scene.plan("").await.body;
    assert_eq!((&plan["repos"], &plan["repos_at_least"]), (&json!(2), &json!(true)), "{plan}");
    scene.network.faults(Site::Relay, |_| {
        Some(Fault::Status(400, Vec::new(), r#"{"error":"Unsupported"}"#.to_owned()))
    });
    for (query, status, error) in [
        ("", 502, "the relay does not list repos: 400 Bad Request Unsupported"),
        ("?collection=nope", 400, "collection is not an NSID"),
        ("?did=nope", 400, "did: it is neither a handle nor a DID"),
    ] {
        let answer = scene.plan(query).await;
        assert_eq!(
            (answer.status.as_u16(), answer.error().contains(error)),
            (status, true),
            "{}",
            answer.text
        );
    }
    scene.network.repair();
    let plan = scene.plan("?collection=com.example.unknown").await.body;
    assert_eq!((&plan["repos"], &plan["seconds"]), (&json!(0), &json!(0)), "no lexicon is needed: {plan}");
    let deleted = scene.server.admin(Method::DELETE, &format!("/admin/lexicons/{NOTES}"), None).await;
    assert!(deleted.status.is_success());
    let answer = scene.plan("").await;
    assert_eq!(
        (answer.status.as_u16(), answer.error()),
        (400, "no record lexicon is uploaded, so there is nothing to read")
    );
}

async fn few_plans_are_made_at_the_same_time(scene: Scene) {
    scene.network.account(&account(0), 0);
    scene.network.fill(&account(0), NOTES, 5);
    let (open, opened) = watch::channel(false);
    scene.network.faults(Site::Relay, move |_| Some(Fault::Until(opened.clone())));
    let first_two = async { tokio::join!(scene.plan(""), scene.plan("")) };
    let third = async {
        let waiting = async |_: &Instance| scene.network.queries(Site::Relay).len() == 2;
        scene.server.eventually("two plans wait for the relay", waiting).await;
        let refused = scene.plan("").await;
        assert_eq!((refused.status.as_u16(), &refused.headers["retry-after"]), (429, &"10".parse().unwrap()));
        open.send_replace(true);
    };
    let ((first, second), ()) = tokio::join!(first_two, third);
    assert_eq!(
        (first.status.as_u16(), second.status.as_u16(), scene.plan("").await.status.as_u16()),
        (200, 200, 200)
    );
}
