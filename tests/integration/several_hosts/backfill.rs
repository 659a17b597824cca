//! One host at a time runs backfills; when it dies, another continues its job.

use belvedere_base::clock::Clock;
use belvedere_standins::repos::{Fault, RepoNetwork, Site};
use belvedere_storage::store::Db;
use belvedere_storage::store::backfill::{self, NewJob};
use belvedere_storage::store::status::Request;
use tokio::sync::watch;

use crate::fixtures::{ALICE, NOTES};
use crate::support::instance::record_lexicon;

use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_host_continues_the_job_of_a_dead_one() {
    let mut hosts = Hosts::start().await;
    let network = RepoNetwork::start(1).await;
    network.account(ALICE, 0);
    network.fill(ALICE, NOTES, 450);
    hosts.plc.host(ALICE, &network.pds_url(0));
    let body = json!({ "lexicon_json": record_lexicon(NOTES), "backfill": false });
    done(&hosts.a, Method::POST, "/admin/lexicons", &body).await;
    let (open, opened) = watch::channel(false);
    network.faults(Site::Pds(0), move |query| {
        (query.cursor.as_deref() == Some("0150")).then(|| Fault::Until(opened.clone()))
    });
    let db = Db::open(&hosts.url, 1).await.unwrap();
    let job = |id: &str| NewJob {
        id: id.to_owned(),
        collection: Some(NOTES.to_owned()),
        did: Some(ALICE.to_owned()),
        ..NewJob::default()
    };
    backfill::create(&db, &job("first"), Clock::system().now()).await.unwrap();
    backfill::create(&db, &job("second"), Clock::system().now()).await.unwrap();
    backfill::create(&db, &job("third"), Clock::system().now()).await.unwrap();
    hosts.b.eventually("three pages", async |server| server.records().await == 300).await;
    let asked = network.queries(Site::Pds(0)).len();
    assert_eq!(asked, 7, "the rev, the lowest key, the collections, and four pages by one host");

    // The host that started first has the lease, and is killed in the middle of a request to stop.
    let requested = backfill::request(&db, "second", Request::Cancel).await.unwrap();
    assert!(matches!(requested, backfill::Requested::Done(_)));
    hosts.a.kill();
    open.send_replace(true);
    for (id, status) in [("first", "completed"), ("second", "cancelled"), ("third", "completed")] {
        let ended =
            async |_: &Instance| backfill::get(&db, id).await.unwrap().unwrap().status.as_str() == status;
        hosts.b.eventually(&format!("the {id} job is {status}"), ended).await;
    }
    assert_eq!(hosts.b.records().await, 450);
    let first = backfill::get(&db, "first").await.unwrap().unwrap();
    assert_eq!((first.total_records, first.processed_repos), (Some(450), Some(1)));
}
