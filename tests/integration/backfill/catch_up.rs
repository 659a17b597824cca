//! After a gap of the stream, the server reads what has changed by itself.

use std::collections::HashSet;

use belvedere_standins::repos::{Fault, Site, document};
use tokio::sync::watch;

use super::*;
use crate::support::instance::Answer;

const HOUR: i64 = 3_600_000_000;

impl Scene {
    /// Stops the server, and makes it resume later at a time that the stream has no events of any more.
    async fn miss_events(&mut self, hours: i64) {
        let now = Clock::system().now().0;
        assert_eq!(self.server.stop(), Some(0));
        let cursor = now - hours * HOUR;
        self.execute(format!("UPDATE stream_cursors SET cursor = {cursor} WHERE source = 'jetstream'")).await;
        self.stream.forget_before(now);
        self.network.set_time(now - HOUR / 2);
    }

    /// Starts the server, and sends it an event, with which it notices the gap.
    async fn resume(&mut self) {
        self.server.start_again().await;
        self.stream.push(Frame::identity(Clock::system().now().0, &account(0), "x.test"));
    }

    async fn ready(&self) -> Answer {
        let answer = self.server.request(Method::GET, "/readyz", &[], None).await;
        assert_eq!(answer.body["checks"]["catch_up"]["ok"], true, "{}", answer.text);
        answer
    }

    /// The text of `/readyz` about gaps.
    async fn gaps(&self) -> String {
        self.ready().await.body["checks"]["catch_up"]["reason"].as_str().unwrap_or_default().to_owned()
    }

    async fn catch_ups(&self) -> Vec<JobRow> {
        let jobs = backfill::list(&self.db).await.unwrap();
        jobs.into_iter().filter(|job| job.kind == "catch_up").collect()
    }

    /// Waits until a catch-up has ended and its gap is closed.
    async fn caught_up(&self) -> JobRow {
        let ended = async |_: &Instance| {
            self.catch_ups().await.first().is_some_and(|job| job.completed_at.is_some())
                && self.gaps().await.is_empty()
        };
        self.server.eventually("the catch-up has ended", ended).await;
        self.catch_ups().await.remove(0)
    }

    /// The index has the records of the network, except those of hidden accounts.
    async fn assert_visible(&self, hidden: &[String]) {
        let mut expected = self.network.records(NOTES);
        expected.retain(|uri, _| !hidden.iter().any(|did| uri.contains(did.as_str())));
        assert_eq!(self.index(NOTES).await, expected);
    }
}

in_both_scenes!(
    what_changed_during_a_gap_is_read_and_only_that,
    a_moved_account_is_not_hidden_because_its_old_pds_refuses_it,
    an_account_is_not_hidden_while_the_directory_is_down,
    a_killed_catch_up_goes_on,
    an_operator_can_switch_it_off,
    a_catch_up_whose_relay_fails_is_not_complete
);

async fn what_changed_during_a_gap_is_read_and_only_that(mut scene: Scene) {
    for n in 0..9 {
        scene.network.account(&account(n), n % 4);
        scene.network.fill(&account(n), NOTES, 120);
    }
    scene.backfill().await;
    let at = Clock::system().now().0;
    scene.stream.push(Frame::account(at, &account(8), Some("deactivated")));
    scene
        .server
        .eventually("it is hidden", async |_: &Instance| {
            !scene.index(NOTES).await.keys().any(|uri| uri.contains(&account(8)))
        })
        .await;

    scene.miss_events(96).await;
    for key in ["0000", "0007", "0119"] {
        scene.network.delete(&account(1), NOTES, key);
    }
    scene.network.put(&account(1), NOTES, "0050", note("changed"));
    scene.network.put(&account(1), NOTES, "new", note("new"));
    for key in 0..120 {
        scene.network.delete(&account(2), NOTES, &format!("{key:04}"));
    }
    scene.network.unlist(&account(2));
    for (n, error) in [(3, "RepoDeactivated"), (4, "RepoTakendown"), (5, "RepoNotFound")] {
        scene.network.set_error(&account(n), Some(error));
    }
    scene.network.unlist(&account(3));
    scene.network.document(&account(6), Value::Null);
    scene.network.account(&account(9), 2);
    scene.network.fill(&account(9), NOTES, 5);
    let before: Vec<_> = (0..4).map(|pds| scene.network.queries(Site::Pds(pds)).len()).collect();
    scene.resume().await;

    let job = scene.caught_up().await;
    assert_eq!((job.status.as_str(), job.error.as_deref()), ("completed", None));
    assert_eq!(scene.errors(&job.id).await, BTreeMap::new());
    assert_eq!((job.total_repos, job.processed_repos), (Some(10), Some(10)));
    let hidden = [3, 4, 5, 6].map(account);
    scene.assert_visible(&hidden).await;
    let gone = scene.server.admin(Method::GET, "/admin/events?event_type=jetstream.gap", None).await;
    assert_eq!(gone.body["events"][0]["detail"]["reason"], "cursor_too_old", "{}", gone.text);
    let statuses = "/admin/events?event_type=account.status_changed";
    let statuses = scene.server.admin(Method::GET, statuses, None).await.text;
    for status in ["deactivated", "takendown", "deleted", "active"] {
        assert!(statuses.contains(&format!(r#""{status}""#)), "{status}: {statuses}");
    }

    // An unchanged repo costs one request.
    let queries = (0..4).flat_map(|pds| scene.network.queries(Site::Pds(pds)).split_off(before[pds]));
    let queries: Vec<_> = queries.map(|query| (query.did, query.method)).collect();
    for n in [0, 7] {
        let of: Vec<_> = queries.iter().filter(|(did, _)| *did == account(n)).map(|(_, m)| m).collect();
        assert_eq!(of, ["com.atproto.sync.getLatestCommit"], "{n}");
    }
    assert!(queries.contains(&(account(1), "com.atproto.repo.listRecords".to_owned())));
    let shown = scene.server.admin(Method::GET, "/admin/backfill/status", None).await.body;
    let kinds = shown.as_array().unwrap().iter().map(|job| job["kind"].as_str().unwrap());
    // Accounts that came back are repaired besides.
    let kinds: Vec<_> = kinds.filter(|kind| *kind != "repair").collect();
    assert_eq!(kinds, ["catch_up", "backfill"]);

    // The accounts come back with the stream's next event; a deleted one has no rows.
    for n in [3, 6] {
        scene.stream.push(Frame::account(Clock::system().now().0, &account(n), None));
    }
    let back = async |_: &Instance| scene.index(NOTES).await.keys().any(|uri| uri.contains(&account(3)));
    scene.server.eventually("it is back", back).await;
    scene.assert_visible(&[4, 5, 6].map(account)).await;
}

async fn a_moved_account_is_not_hidden_because_its_old_pds_refuses_it(mut scene: Scene) {
    let refusals = ["RepoTakendown", "RepoSuspended", "RepoDeactivated", "RepoNotFound"];
    let moved: Vec<_> = (1..=refusals.len()).map(account).collect();
    for did in &moved {
        scene.network.account(did, 0);
        scene.network.fill(did, NOTES, 3);
    }
    scene.backfill().await;
    scene.miss_events(96).await;
    for did in &moved {
        scene.network.account(did, 1);
        scene.network.put(did, NOTES, "new", note("new"));
    }
    // They move between the look-up and the request to the old PDS.
    let (mut unseen, old): (HashSet<_>, _) = (moved.iter().cloned().collect(), scene.network.pds_url(0));
    scene.network.faults(Site::Relay, move |query| {
        unseen.remove(&query.method).then(|| Fault::Text(document(&query.method, &old).to_string()))
    });
    scene.network.faults(Site::Pds(0), move |query| {
        let at = moved.iter().position(|did| *did == query.did)?;
        Some(Fault::refusal(refusals[at]))
    });
    scene.resume().await;
    let job = scene.caught_up().await;
    assert_eq!((job.status.as_str(), scene.errors(&job.id).await), ("completed", BTreeMap::new()));
    let visited: HashSet<_> =
        scene.network.queries(Site::Pds(0)).into_iter().map(|query| query.did).collect();
    assert_eq!(visited.len(), refusals.len(), "the old PDS was asked for all");
    scene.assert_equal(NOTES).await;
    let statuses = "/admin/events?event_type=account.status_changed";
    assert_eq!(scene.server.admin(Method::GET, statuses, None).await.body["events"], json!([]));
}

async fn an_account_is_not_hidden_while_the_directory_is_down(mut scene: Scene) {
    for n in 1..3 {
        scene.network.account(&account(n), n);
        scene.network.fill(&account(n), NOTES, 3);
    }
    scene.backfill().await;
    let once = json!({ "value": "1" });
    scene.server.admin(Method::PUT, "/admin/settings/backfill_max_attempts", Some(&once)).await;
    scene.miss_events(96).await;
    scene.network.set_error(&account(1), Some("RepoDeactivated"));
    scene.network.put(&account(2), NOTES, "new", note("new"));
    let (refused, mut lookups) = (account(1), 0);
    scene.network.faults(Site::Relay, move |query| {
        lookups += usize::from(query.method == refused);
        (query.method == refused && lookups > 1).then(|| Fault::bare(503))
    });
    scene.resume().await;
    let job = scene.caught_up().await;
    assert_eq!(scene.errors(&job.id).await, [(account(1), "pds_server_error".to_owned())].into());
    scene.assert_visible(&[]).await;
    scene.network.repair();
    scene.retry(&job.id).await;
    scene.assert_visible(&[account(1)]).await;
}

async fn a_killed_catch_up_goes_on(mut scene: Scene) {
    for n in 0..8 {
        scene.network.account(&account(n), n % 4);
        scene.network.fill(&account(n), NOTES, 30);
    }
    scene.backfill().await;
    scene.miss_events(24 * 30).await;
    for n in 0..8 {
        scene.network.delete(&account(n), NOTES, "0003");
        scene.network.put(&account(n), NOTES, "0005", note("changed"));
    }
    let (open, opened) = watch::channel(false);
    scene.network.faults(Site::Pds(0), move |query| {
        query.method.ends_with("listRecords").then(|| Fault::Until(opened.clone()))
    });
    scene.resume().await;
    let others = async |_: &Instance| {
        scene.catch_ups().await.first().is_some_and(|job| job.processed_repos == Some(6))
    };
    scene.server.eventually("the other PDSs are read", others).await;
    let id = scene.catch_ups().await[0].id.clone();
    let gaps = scene.gaps().await;
    assert!(gaps.contains("cursor_too_old") && gaps.contains(&format!("backfill {id} reads")), "{gaps}");
    assert_eq!(scene.ready().await.status, 200, "a gap is no reason to take the server out of service");

    scene.server.kill();
    scene.server.start_again().await;
    assert!(scene.gaps().await.contains(&id), "the gap is remembered");
    open.send_replace(true);
    let job = scene.caught_up().await;
    assert_eq!((job.id, job.processed_repos, scene.catch_ups().await.len()), (id, Some(8), 1));
    scene.assert_equal(NOTES).await;
}

async fn an_operator_can_switch_it_off(mut scene: Scene) {
    scene.network.account(&account(0), 0);
    scene.network.fill(&account(0), NOTES, 3);
    scene.backfill().await;
    let set = async |server: &Instance, value: &str| {
        let body = json!({ "value": value });
        let answer = server.admin(Method::PUT, "/admin/settings/backfill_catch_up", Some(&body)).await;
        assert!(answer.status.is_success(), "{}", answer.text);
    };
    set(&scene.server, "false").await;
    scene.miss_events(96).await;
    scene.network.delete(&account(0), NOTES, "0001");
    scene.resume().await;
    let is_off = async |_: &Instance| scene.gaps().await.contains("backfill_catch_up is false");
    scene.server.eventually("the gap is named", is_off).await;
    // A job that is created now ends, so the worker has passed the gap.
    scene.network.account(&account(1), 1);
    scene.network.fill(&account(1), NOTES, 1);
    let id = scene.create(Some(NOTES), Some(&account(1))).await;
    assert_eq!(scene.wait_for_status(&id, "completed").await.kind, "repair");
    assert_eq!(scene.catch_ups().await, []);
    set(&scene.server, "true").await;
    scene.caught_up().await;
    scene.assert_equal(NOTES).await;
}

async fn a_catch_up_whose_relay_fails_is_not_complete(mut scene: Scene) {
    scene.network.account(&account(0), 0);
    scene.network.fill(&account(0), NOTES, 3);
    scene.backfill().await;
    scene.miss_events(96).await;
    scene.network.delete(&account(0), NOTES, "0001");
    scene.network.faults(Site::Relay, |query| {
        let refuse = || Fault::Status(400, Vec::new(), r#"{"error":"InvalidRequest"}"#.to_owned());
        query.method.ends_with("listReposByCollection").then(refuse)
    });
    scene.resume().await;
    let ended = async |_: &Instance| {
        scene.catch_ups().await.first().is_some_and(|job| job.completed_at.is_some())
            && scene.gaps().await.contains("a backfill will read")
    };
    scene.server.eventually("it has ended, and the gap waits again", ended).await;
    let job = scene.catch_ups().await.remove(0);
    assert!(job.error.unwrap().contains("the relay did not list"), "the operator is told");
    scene.assert_equal(NOTES).await;
}
