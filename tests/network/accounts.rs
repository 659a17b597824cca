//! Accounts that change their handle, are deactivated and reactivated, taken down, or deleted.

use belvedere_storage::store::Db;
use belvedere_storage::store::backfill;
use belvedere_storage::store::status::BackfillStatus;
use serde_json::json;

use crate::database::Database;
use crate::index::{equals_pds, records, track};
use crate::network::network;
use crate::pds::Account;
use crate::server::Server;
use crate::wait::until;

const NOTE: &str = "com.example.accounts.note";
const SYNCED: &str = "com.example.accounts.synced";

crate::on_both!(records_of_a_hidden_account_are_hidden);
async fn records_of_a_hidden_account_are_hidden(database: Database) {
    let network = network().await;
    let (admin, stays, mut goes) =
        (network.account().await, network.account().await, network.account().await);
    let mut server = Server::new(network, database);
    server.start().await;
    let key = server.create_key(&admin.did);
    track(&server, &key, NOTE).await;

    for account in [&stays, &goes] {
        account.put(NOTE, "one", json!({ "n": 1 })).await;
        account.put(NOTE, "two", json!({ "n": 2 })).await;
    }
    expect_records(&server, &key, NOTE, &stays, 2).await;
    expect_records(&server, &key, NOTE, &goes, 2).await;

    goes.change_handle().await;
    goes.put(NOTE, "three", json!({ "n": 3 })).await;
    expect_records(&server, &key, NOTE, &goes, 3).await;

    goes.deactivate().await;
    expect_records(&server, &key, NOTE, &goes, 0).await;
    goes.activate().await;
    expect_records(&server, &key, NOTE, &goes, 3).await;

    goes.take_down(true).await;
    expect_records(&server, &key, NOTE, &goes, 0).await;
    // They stay hidden after a restart.
    server.stop().await;
    server.start().await;
    expect_records(&server, &key, NOTE, &goes, 0).await;
    goes.take_down(false).await;
    expect_records(&server, &key, NOTE, &goes, 3).await;

    goes.delete_account().await;
    expect_records(&server, &key, NOTE, &goes, 0).await;
    expect_records(&server, &key, NOTE, &stays, 2).await;
}

crate::on_both!(the_protocol_with_sync_events_is_understood);
async fn the_protocol_with_sync_events_is_understood(database: Database) {
    let network = network().await;
    let (admin, account) = (network.account().await, network.account().await);
    let stream =
        format!("{}/xrpc/network.bsky.jetstream.subscribeEvents", network.jetstream.trim_end_matches('/'));
    let url = database.url.clone();
    let mut server = Server::with(network, database, &[("JETSTREAM_URL", &stream)]);
    server.start().await;
    let key = server.create_key(&admin.did);
    track(&server, &key, SYNCED).await;
    for n in 0..3 {
        account.put(SYNCED, &format!("k{n}"), json!({ "n": n })).await;
    }
    account.delete(SYNCED, "k1").await;
    expect_records(&server, &key, SYNCED, &account, 2).await;
    account.deactivate().await;
    expect_records(&server, &key, SYNCED, &account, 0).await;
    // The PDS sends an account, an identity and a sync event; the repo is read again.
    account.activate().await;
    expect_records(&server, &key, SYNCED, &account, 2).await;
    let db = Db::open(&url, 1).await.unwrap();
    until("the repo was read again", || async {
        let jobs = backfill::list(&db).await.unwrap();
        // The account of the test beside this one is tracked, too, and may be in the same job.
        for job in jobs.iter().filter(|job| job.status == BackfillStatus::Completed) {
            let repos = backfill::repos(&db, &job.id, backfill::Phase::Fetched, None, 100).await.unwrap();
            if repos.iter().any(|repo| repo.did == account.did && repo.records_fetched == 2) {
                return Ok(());
            }
        }
        Err(format!("{jobs:?}"))
    })
    .await;
    equals_pds(&server, &key, SYNCED, std::slice::from_ref(&account)).await;
    account.delete_account().await;
    expect_records(&server, &key, SYNCED, &account, 0).await;
}

async fn expect_records(server: &Server, key: &str, collection: &str, account: &Account, count: usize) {
    until("the index has the expected number of the account's records", || async {
        let found = records(server, key, collection, std::slice::from_ref(account)).await.len();
        if found == count {
            Ok(())
        } else {
            Err(format!("{found} records of {} instead of {count}", account.handle))
        }
    })
    .await;
}
