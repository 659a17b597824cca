//! A stream whose connections are dropped, and whose collections change.

use serde_json::json;

use crate::database::Database;
use crate::index::{equals_pds, track};
use crate::network::network;
use crate::server::Server;

const NOTE: &str = "com.example.stream.note";
const LATER: &str = "com.example.stream.later";
const CUTS: usize = 5;

crate::on_both!(a_dropped_stream_loses_nothing);
async fn a_dropped_stream_loses_nothing(database: Database) {
    let network = network().await;
    let accounts = [network.account().await, network.account().await];
    let mut server = Server::new(network, database);
    server.start().await;
    let key = server.create_key(&accounts[0].did);
    track(&server, &key, NOTE).await;

    for cut in 0..CUTS {
        for account in &accounts {
            account.put(NOTE, &format!("before{cut}"), json!({ "n": cut })).await;
        }
        // No wait: some events have been delivered, some have not.
        network.drop_jetstream().await;
        for account in &accounts {
            account.put(NOTE, &format!("after{cut}"), json!({ "n": cut })).await;
        }
    }
    assert_eq!(equals_pds(&server, &key, NOTE, &accounts).await, 2 * 2 * CUTS);

    // A record lexicon that is uploaded later adds its collection to the running stream.
    track(&server, &key, LATER).await;
    for account in &accounts {
        account.put(LATER, "one", json!({ "text": "new collection" })).await;
        account.put(NOTE, "last", json!({ "text": "old collection" })).await;
    }
    assert_eq!(equals_pds(&server, &key, LATER, &accounts).await, 2);
    assert_eq!(equals_pds(&server, &key, NOTE, &accounts).await, 2 * 2 * CUTS + 2);
}
