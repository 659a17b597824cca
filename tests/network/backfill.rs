//! Backfills from a real PDS, through a real directory.

use belvedere_base::clock::Clock;
use belvedere_base::random::Random;
use belvedere_storage::store::Db;
use belvedere_storage::store::backfill::{self, JobRow, NewJob};
use belvedere_storage::store::status::{BackfillStatus, Status as _};
use serde_json::{Value, json};

use crate::database::Database;
use crate::index::{equals_pds, records, track};
use crate::network::network;
use crate::pds::{Account, Records};
use crate::server::Server;
use crate::wait::until;

const NOTE: &str = "com.example.backfill.note";

crate::on_both!(history_deletions_and_missed_changes_are_repaired);
async fn history_deletions_and_missed_changes_are_repaired(database: Database) {
    let network = network().await;
    let collection =
        format!("{NOTE}{}", if database.url.starts_with("sqlite") { "Sqlite" } else { "Postgres" });
    let note = |n: usize| json!({ "$type": collection, "text": format!("note {n}"), "n": n });
    let (alice, bob, carol) = (network.account().await, network.account().await, network.account().await);
    for (account, count) in [(&alice, 230), (&bob, 3), (&carol, 2)] {
        // A PDS takes two hundred writes at a time.
        for chunk in (0..count).collect::<Vec<_>>().chunks(200) {
            let writes =
                chunk.iter().map(|n| Account::create_write(&collection, &format!("k{n:03}"), note(*n)));
            account.apply_writes(writes.collect()).await;
        }
    }
    let url = database.url.clone();
    // Without a stream, only backfills fill the index.
    let mut server = Server::with(network, database, &[("JETSTREAM_URL", "none")]);
    server.start().await;
    let key = server.create_key(&alice.did);
    track(&server, &key, &collection).await;
    let db = Db::open(&url, 1).await.unwrap();

    let job = run(&db, &collection, None).await;
    assert_eq!((job.total_repos, job.processed_repos, job.total_records), (Some(3), Some(3), Some(235)));
    let accounts = [alice, bob, carol];
    equals_pds(&server, &key, &collection, &accounts).await;

    let [alice, bob, carol] = &accounts;
    for n in [0, 1, 99, 100, 101, 129, 130, 228, 229] {
        alice.delete(&collection, &format!("k{n:03}")).await;
    }
    alice
        .apply_writes(vec![Account::update_write(
            &collection,
            "k050",
            json!({ "$type": collection, "text": "new" }),
        )])
        .await;
    alice.put(&collection, "k500", note(500)).await;
    bob.put(&collection, "k001", note(77)).await;
    let job = run(&db, &collection, Some(&alice.did)).await;
    assert_eq!((job.total_repos, job.total_records), (Some(1), Some(222)));
    equals_pds(&server, &key, &collection, std::slice::from_ref(alice)).await;
    let stale: Records = records(&server, &key, &collection, std::slice::from_ref(bob)).await;
    assert_eq!(stale[&bob.uri(&collection, "k001")].1["n"], Value::from(1), "another repo is not read");

    // A deactivated account is named, and keeps its rows.
    carol.deactivate().await;
    let job = run_to_end(&db, &collection, Some(&carol.did)).await;
    assert_eq!((job.status, job.failed_repos), (BackfillStatus::Failed, Some(1)), "nothing could be read");
    let errors = backfill::error_counts(&db, &job.id).await.unwrap();
    assert_eq!(errors, [("repo_deactivated".to_owned(), 1)].into());
    assert_eq!(records(&server, &key, &collection, std::slice::from_ref(carol)).await.len(), 2);
    carol.activate().await;
    run(&db, &collection, None).await;
    equals_pds(&server, &key, &collection, &accounts).await;
}

crate::on_both!(a_repo_from_its_car_equals_its_pages);
async fn a_repo_from_its_car_equals_its_pages(database: Database) {
    let network = network().await;
    let is_sqlite = database.url.starts_with("sqlite");
    let collection = format!("com.example.car.note{}", if is_sqlite { "Sqlite" } else { "Postgres" });
    let account = network.account().await;
    let blob = account.upload_blob("text/plain", b"a blob".to_vec()).await;
    let link = "bafyreidfayvfuwqa7qlnopdjiqrxzs6blmoeu4rujcjtnci5beludirz2a";
    let record = |n: usize| match n % 4 {
        0 => json!({ "$type": collection, "blob": blob, "n": -1 - (n as i64) }),
        1 => {
            json!({ "$type": collection, "zz": { "$link": link }, "a": [1, [], {}, null, true, "é\u{1F600}\"\\"] })
        }
        2 => json!({ "$type": collection, "bytes": { "$bytes": "AAEC/w" }, "n": 9_007_199_254_740_991_i64 }),
        _ => json!({ "$type": collection, "text": "x".repeat(n), "of": account.uri(&collection, "k001") }),
    };
    for chunk in (0..330).collect::<Vec<_>>().chunks(200) {
        let writes =
            chunk.iter().map(|n| Account::create_write(&collection, &format!("k{n:03}"), record(*n)));
        account.apply_writes(writes.collect()).await;
    }
    let url = database.url.clone();
    let mut server = Server::with(network, database, &[("JETSTREAM_URL", "none")]);
    server.start().await;
    let key = server.create_key(&account.did);
    track(&server, &key, &collection).await;
    let db = Db::open(&url, 1).await.unwrap();
    let job = run(&db, &collection, Some(&account.did)).await;
    assert_eq!((job.total_records, job.traffic.car_repos), (Some(330), 1), "{:?}", job.traffic);
    // Compares with the PDS's list page by page, by CID and value.
    equals_pds(&server, &key, &collection, std::slice::from_ref(&account)).await;

    // Deletions between the records that stay.
    for n in 0..40 {
        account.delete(&collection, &format!("k{:03}", n * 3)).await;
    }
    let job = run(&db, &collection, Some(&account.did)).await;
    assert_eq!((job.total_records, job.traffic.car_repos), (Some(290), 1), "{:?}", job.traffic);
    equals_pds(&server, &key, &collection, std::slice::from_ref(&account)).await;

    // A collection besides: pages again, with the same records.
    account.put("com.example.car.other", "x", json!({ "text": "not wanted" })).await;
    let before = records(&server, &key, &collection, std::slice::from_ref(&account)).await;
    let job = run(&db, &collection, Some(&account.did)).await;
    assert_eq!((job.total_records, job.traffic.car_repos), (Some(290), 0), "{:?}", job.traffic);
    assert_eq!(records(&server, &key, &collection, std::slice::from_ref(&account)).await, before);
}

/// Runs a job until it is completed.
async fn run(db: &Db, collection: &str, did: Option<&str>) -> JobRow {
    let job = run_to_end(db, collection, did).await;
    assert_eq!(job.status, BackfillStatus::Completed, "{job:?}");
    job
}

/// Runs a job to its end.
async fn run_to_end(db: &Db, collection: &str, did: Option<&str>) -> JobRow {
    let job = NewJob {
        id: Random::system().uuid(),
        collection: Some(collection.to_owned()),
        did: did.map(str::to_owned),
        ..NewJob::default()
    };
    backfill::create(db, &job, Clock::system().now()).await.unwrap();
    until("the job has ended", || async {
        let row = backfill::get(db, &job.id).await.unwrap().unwrap();
        if row.status.has_ended() { Ok(row) } else { Err(format!("{row:?}")) }
    })
    .await
}
