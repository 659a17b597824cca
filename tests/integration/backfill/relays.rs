//! Relays that omit repos, lack a list or refuse requests, and jobs that could read nothing.

use std::process::Output;

use belvedere_standins::repos::{Fault, Site};
use tokio::sync::watch;

use super::*;

impl Scene {
    /// Runs a backfill of notes on the command line, to its end.
    fn watch(&self) -> Output {
        self.server.run(&["backfill", NOTES, "--watch", "--key", &self.server.admin_key])
    }
}

in_both_scenes!(
    repos_that_the_relay_omits_are_visited,
    entries_without_a_did_are_skipped,
    a_relay_without_lists_by_collection_is_asked_for_all_repos,
    a_proxys_status_is_no_reason_to_read_the_whole_network,
    accounts_of_the_index_are_read_before_the_relay_has_listed_all_others,
    refusals_of_a_busy_host_are_waited_out,
    a_job_that_could_read_nothing_has_failed
);

async fn repos_that_the_relay_omits_are_visited(scene: Scene) {
    for n in 0..3 {
        scene.network.account(&account(n), n);
        scene.network.fill(&account(n), NOTES, 6);
    }
    scene.backfill().await;
    // One that the relay forgets, one that has deleted all, and one that is hidden.
    scene.network.unlist(&account(0));
    scene.network.put(&account(0), NOTES, "new", note("new"));
    scene.network.delete(&account(0), NOTES, "0003");
    for key in 0..6 {
        scene.network.delete(&account(1), NOTES, &format!("{key:04}"));
    }
    let at = Clock::system().now().0;
    scene.stream.push(Frame::account(at, &account(2), Some("deactivated")));
    let hidden = async |_: &Instance| !scene.index(NOTES).await.keys().any(|uri| uri.contains(&account(2)));
    scene.server.eventually("it is hidden", hidden).await;
    scene.network.unlist(&account(2));
    let (id, job) = scene.backfill().await;
    assert_eq!((job.total_repos, job.error, scene.errors(&id).await), (Some(2), None, BTreeMap::new()));
    let mut expected = scene.network.records(NOTES);
    expected.retain(|uri, _| !uri.contains(&account(2)));
    assert_eq!(scene.index(NOTES).await, expected);

    // A backfill of all collections does the same.
    scene.network.delete(&account(0), NOTES, "new");
    let id = scene.create(None, None).await;
    scene.wait_for_status(&id, "completed").await;
    assert!(scene.record(&account(0), "new").await.is_none());
}

async fn entries_without_a_did_are_skipped(scene: Scene) {
    scene.network.account(&account(0), 0);
    scene.network.fill(&account(0), NOTES, 3);
    scene.network.faults(Site::Relay, |query| {
        query.method.ends_with("listReposByCollection").then_some(Fault::EntryWithoutDid)
    });
    let (id, job) = scene.backfill().await;
    assert_eq!((job.total_repos, job.error, scene.errors(&id).await), (Some(1), None, BTreeMap::new()));
    scene.assert_equal(NOTES).await;
}

async fn a_relay_without_lists_by_collection_is_asked_for_all_repos(scene: Scene) {
    scene.network.serve_cars();
    scene.network.set_repos_per_page(2);
    for n in 0..5 {
        scene.network.account(&account(n), n % 4);
        let collection = if n < 3 { NOTES } else { "com.example.other" };
        scene.network.fill(&account(n), collection, 3);
    }
    for n in 0..3 {
        scene.network.faults(Site::Relay, move |query| {
            query.method.ends_with("listReposByCollection").then(|| Fault::unknown_method(n))
        });
        let plan = scene.server.admin(Method::GET, "/admin/backfill/plan", None).await.body;
        assert_eq!((&plan["repos"], &plan["lists_all_repos"]), (&json!(5), &json!(true)), "{plan}");
        let (id, job) = scene.backfill().await;
        assert_eq!((job.total_repos, job.error, scene.errors(&id).await), (Some(5), None, BTreeMap::new()));
        let status = scene.server.admin(Method::GET, &format!("/admin/backfill/status?id={id}"), None).await;
        assert!(status.text.contains(r#""lists_all_repos":true"#), "{}", status.text);
        scene.assert_equal(NOTES).await;
        scene.network.put(&account(0), NOTES, "new", note(&n.to_string()));
    }
    // Without any list, the accounts of the index are read all the same.
    scene
        .network
        .faults(Site::Relay, |query| query.method.contains("listRepos").then(|| Fault::unknown_method(0)));
    let (_, job) = scene.backfill().await;
    assert_eq!((job.status.as_str(), job.total_repos), ("completed", Some(3)));
    assert!(job.error.unwrap().contains("did not list all of its repos: 501 Not Implemented"));
    scene.assert_equal(NOTES).await;
}

async fn a_proxys_status_is_no_reason_to_read_the_whole_network(scene: Scene) {
    scene.network.set_repos_per_page(2);
    for n in 0..5 {
        scene.network.account(&account(n), n % 4);
        scene.network.fill(&account(n), NOTES, 3);
    }
    scene.network.faults(Site::Relay, |query| {
        let is_later = query.method.ends_with("listReposByCollection") && query.cursor.is_some();
        is_later.then(|| Fault::bare(404))
    });
    let (_, job) = scene.backfill().await;
    let error = job.error.unwrap_or_default();
    assert!(error.contains("did not list all repos of com.example.note: 404 Not Found"), "{error}");
    assert_eq!(job.total_repos, Some(2), "those of the first page");
    for status in [404, 405, 501] {
        let once = |scene: &Scene| {
            let mut left = 1;
            scene.network.faults(Site::Relay, move |query| {
                let fails = query.method.ends_with("listReposByCollection") && left > 0;
                left -= usize::from(fails);
                fails.then(|| Fault::bare(status))
            });
        };
        once(&scene);
        let plan = scene.server.admin(Method::GET, "/admin/backfill/plan", None).await.body;
        assert_eq!((&plan["repos"], &plan["lists_all_repos"]), (&json!(5), &json!(false)), "{plan}");
        once(&scene);
        let (_, job) = scene.backfill().await;
        assert_eq!((job.total_repos, job.error, job.lists_all_repos), (Some(5), None, false), "{status}");
    }
    let lists = scene.network.queries(Site::Relay);
    assert!(!lists.iter().any(|query| query.method.ends_with("listRepos")), "{lists:?}");
}

async fn accounts_of_the_index_are_read_before_the_relay_has_listed_all_others(scene: Scene) {
    scene.network.account(&account(9), 0);
    scene.network.fill(&account(9), NOTES, 3);
    scene.backfill().await;
    scene.network.put(&account(9), NOTES, "new", note("new"));
    for n in 0..3 {
        scene.network.account(&account(n), n);
        scene.network.fill(&account(n), NOTES, 3);
    }
    let (open, opened) = watch::channel(false);
    scene.network.faults(Site::Relay, move |query| match query.method.rsplit('.').next() {
        Some("listReposByCollection") => Some(Fault::unknown_method(0)),
        Some("listRepos") => Some(Fault::Until(opened.clone())),
        _ => None,
    });
    let id = scene.create(Some(NOTES), None).await;
    let is_read = async |_: &Instance| scene.record(&account(9), "new").await.is_some();
    scene.server.eventually("the known account is read", is_read).await;
    // A job that is continued then still lists the others.
    let mut scene = scene;
    scene.server.kill();
    scene.server.start_again().await;
    open.send_replace(true);
    let job = scene.ended(&id).await;
    assert_eq!((job.total_repos, job.processed_repos, job.error), (Some(4), Some(4), None));
    scene.assert_equal(NOTES).await;
}

async fn refusals_of_a_busy_host_are_waited_out(scene: Scene) {
    for n in 0..8 {
        scene.network.account(&account(n), 0);
        scene.network.fill(&account(n), NOTES, 3);
    }
    scene.network.fail_first(Site::Relay, 1, Fault::rate_limited());
    // More rounds of refusals than failures after which a host is given up, of three repos each.
    let soon = Fault::Status(429, vec![("retry-after", "1".to_owned())], String::new());
    scene.network.fail_first(Site::Pds(0), 18, soon);
    let (id, job) = scene.backfill().await;
    assert_eq!((job.failed_repos, scene.errors(&id).await), (Some(0), BTreeMap::new()));
    scene.assert_equal(NOTES).await;
}

async fn a_job_that_could_read_nothing_has_failed(scene: Scene) {
    for n in 0..3 {
        scene.network.account(&account(n), n % 2);
        scene.network.fill(&account(n), NOTES, 3);
    }
    let broken = |_: &_| Some(Fault::Status(400, Vec::new(), r#"{"error":"InvalidRequest"}"#.to_owned()));
    for pds in 0..2 {
        scene.network.faults(Site::Pds(pds), broken);
    }
    let output = scene.watch();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let job = backfill::list(&scene.db).await.unwrap().remove(0);
    assert_eq!((job.status.as_str(), job.total_repos, job.failed_repos), ("failed", Some(3), Some(3)));
    let error = job.error.unwrap();
    assert!(error.starts_with("none of the repos could be read (other 3)"), "{error}");

    // Some of them.
    scene.network.faults(Site::Pds(0), |_| None);
    let output = scene.watch();
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let path = "/admin/backfill/status?limit=1";
    let job = scene.server.admin(Method::GET, path, None).await.body[0].clone();
    assert_eq!(
        (&job["status"], &job["failed_repos"], &job["error"]),
        (&json!("completed"), &json!(1), &Value::Null)
    );
    scene.network.repair();
    let output = scene.watch();
    assert_eq!(output.status.code(), Some(0), "{output:?}");

    let logged = async |server: &Instance| {
        let log = server.admin(Method::GET, "/admin/events?category=backfill", None).await.body;
        let ends = log["events"].as_array().unwrap().iter().filter_map(|event| {
            let end = event["event_type"].as_str().unwrap().strip_prefix("backfill.")?;
            let is_end = end == "completed" || end == "failed";
            is_end.then(|| json!([end, event["severity"], event["detail"]["failed_repos"]]))
        });
        let ends: Vec<_> = ends.collect();
        ends == [
            json!(["completed", "info", 0]),
            json!(["completed", "warn", 1]),
            json!(["failed", "error", null]),
        ]
    };
    scene.server.eventually("the ends are in the event log", logged).await;
}
