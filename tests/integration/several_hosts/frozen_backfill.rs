//! A host that hangs while it runs a backfill is replaced, and stores nothing more of the job when it goes on.

use belvedere_base::clock::Clock;
use belvedere_standins::repos::{Fault, RepoNetwork, Site};
use belvedere_storage::store::Db;
use belvedere_storage::store::backfill::{self, JobRow, NewJob, RepoRow};
use tokio::sync::watch;

use crate::fixtures::{ALICE, BOB, NOTES};
use crate::support::instance::record_lexicon;

use super::stream::TAKEN_OVER;
use super::*;

async fn job(db: &Db, id: &str) -> JobRow {
    backfill::get(db, id).await.unwrap().unwrap()
}

async fn repos(db: &Db, id: &str) -> Vec<RepoRow> {
    backfill::repos(db, id, backfill::Phase::All, None, 10).await.unwrap()
}

async fn create(db: &Db, id: &str, did: &str) {
    let (id, did) = (id.to_owned(), Some(did.to_owned()));
    let job = NewJob { id, collection: Some(NOTES.to_owned()), did, ..NewJob::default() };
    backfill::create(db, &job, Clock::system().now()).await.unwrap();
}

/// Each host hangs once, in the middle of a repo.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_takes_over_and_the_hung_one_stores_nothing_more() {
    let hosts = Hosts::start().await;
    let network = RepoNetwork::start(1).await;
    for did in [ALICE, BOB] {
        network.account(did, 0);
        network.fill(did, NOTES, 450);
        hosts.plc.host(did, &network.pds_url(0));
    }
    let body = json!({ "lexicon_json": record_lexicon(NOTES), "backfill": false });
    done(&hosts.a, Method::POST, "/admin/lexicons", &body).await;
    let db = Db::open(&hosts.url, 1).await.unwrap();
    let mut before = 0;
    for (round, did) in [ALICE, BOB].into_iter().enumerate() {
        // The first request for the third page is answered only after the host hangs.
        let (open, opened) = watch::channel(false);
        let mut held = false;
        network.faults(Site::Pds(0), move |query| {
            (query.cursor.as_deref() == Some("0250") && !std::mem::replace(&mut held, true))
                .then(|| Fault::Until(opened.clone()))
        });
        let id = format!("job{round}");
        create(&db, &id, did).await;
        let (hung, other) = if round == 0 { (&hosts.a, &hosts.b) } else { (&hosts.b, &hosts.a) };
        other.eventually("two pages", async |host| host.records().await == before + 200).await;
        hung.signal("STOP");
        soon("another completes the job", TAKEN_OVER, async || {
            job(&db, &id).await.status.as_str() == "completed"
        })
        .await;
        assert_eq!(other.records().await, before + 450);
        let (completed, read) = (job(&db, &id).await, repos(&db, &id).await);
        assert_eq!((completed.total_records, completed.processed_repos), (Some(450), Some(1)));

        // It goes on with the page that it was waiting for.
        open.send_replace(true);
        hung.signal("CONT");
        let standby = async || hung.admin(Method::GET, "/admin/backfill/status", None).await.status == 200;
        soon("it answers again", TAKEN_OVER, standby).await;
        before += 450;
        // It stored nothing more before it noticed: a later job, which only a host with the lease can run, comes after.
        let later = format!("later{round}");
        create(&db, &later, did).await;
        soon("the next job", TAKEN_OVER, async || job(&db, &later).await.status.as_str() == "completed")
            .await;
        assert_eq!((job(&db, &id).await, repos(&db, &id).await), (completed, read));
        assert_eq!(other.records().await, before);
        let events = other.admin(Method::GET, "/admin/events?event_type=backfill.completed", None).await;
        let of_job =
            events.body["events"].as_array().unwrap().iter().filter(|event| event["detail"]["job_id"] == id);
        assert_eq!(of_job.count(), 1, "{}", events.text);
    }
}
