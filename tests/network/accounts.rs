//! Accounts that change their handle, are deactivated and reactivated, taken down, or deleted.

use serde_json::json;

use crate::database::Database;
use crate::index::{records, track};
use crate::network::network;
use crate::pds::Account;
use crate::server::Server;
use crate::wait::until;

const NOTE: &str = "com.example.accounts.note";

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
    expect_records(&server, &key, &stays, 2).await;
    expect_records(&server, &key, &goes, 2).await;

    goes.change_handle().await;
    goes.put(NOTE, "three", json!({ "n": 3 })).await;
    expect_records(&server, &key, &goes, 3).await;

    goes.deactivate().await;
    expect_records(&server, &key, &goes, 0).await;
    goes.activate().await;
    expect_records(&server, &key, &goes, 3).await;

    goes.take_down(true).await;
    expect_records(&server, &key, &goes, 0).await;
    // They stay hidden after a restart.
    server.stop().await;
    server.start().await;
    expect_records(&server, &key, &goes, 0).await;
    goes.take_down(false).await;
    expect_records(&server, &key, &goes, 3).await;

    goes.delete_account().await;
    expect_records(&server, &key, &goes, 0).await;
    expect_records(&server, &key, &stays, 2).await;
}

async fn expect_records(server: &Server, key: &str, account: &Account, count: usize) {
    until("the index has the expected number of the account's records", || async {
        let found = records(server, key, NOTE, std::slice::from_ref(account)).await.len();
        if found == count {
            Ok(())
        } else {
            Err(format!("{found} records of {} instead of {count}", account.handle))
        }
    })
    .await;
}
