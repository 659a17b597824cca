//! Dead letters of records on a real PDS: reindexing one reads the current record from the PDS.

use reqwest::Method;
use serde_json::{Value, json};

use crate::database::Database;
use crate::index::{add_client, add_query, query_until, track};
use crate::network::network;
use crate::server::{Server, expect};

const NOTE: &str = "com.example.letters.note";
const LIST: &str = "com.example.letters.listNotes";

crate::on_both!(a_dead_letter_is_reindexed);
async fn a_dead_letter_is_reindexed(database: Database) {
    let network = network().await;
    let alice = network.account().await;
    let mut server = Server::new(network, database);
    server.start().await;
    let key = server.create_key(&alice.did);
    track(&server, &key, NOTE).await;
    add_query(&server, &key, LIST, NOTE).await;
    let client = add_client(&server, &key).await;
    let bind = async |source: &str| {
        let script = json!({ "id": format!("record.index:{NOTE}"), "body": source });
        let request = server.request(Method::POST, "/admin/scripts").bearer_auth(&key).json(&script);
        assert!(request.send().await.unwrap().status().is_success());
    };
    let admin = |method: Method, path: &str| server.request(method, path).bearer_auth(&key);
    let list = || {
        let request = server.request(Method::GET, &format!("/xrpc/{LIST}")).query(&[("did", &alice.did)]);
        request.header("x-client-key", &client)
    };
    // Sorted, because records that are indexed in one batch have the same time.
    let texts = |body: &Value| {
        let records = body["records"].as_array().cloned().unwrap_or_default();
        let mut texts: Vec<_> =
            records.iter().map(|record| record["text"].as_str().unwrap_or_default().to_owned()).collect();
        texts.sort();
        texts
    };

    bind("function handle() error('broken') end").await;
    alice.put(NOTE, "kept", json!({ "text": "first" })).await;
    alice.put(NOTE, "gone", json!({ "text": "second" })).await;
    query_until("both are stored although the script failed", list, |body| {
        texts(body) == ["first", "second"]
    })
    .await;
    // Only alice's dead letters: other tests use the collection too.
    let hers = async || {
        let letters = expect(200, admin(Method::GET, "/admin/dead-letters")).await;
        let letters = letters["dead_letters"].as_array().unwrap().clone();
        let hers = letters.iter().filter(|letter| letter["did"] == alice.did);
        hers.map(|letter| letter["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let ids = hers().await;
    assert_eq!(ids.len(), 2);

    bind(
        "function handle() if record then record.text = record.text .. '!' return record end return true end",
    )
    .await;
    for id in &ids {
        expect(200, admin(Method::POST, &format!("/admin/dead-letters/{id}/reindex"))).await;
    }
    query_until("the script has changed both", list, |body| texts(body) == ["first!", "second!"]).await;
    assert!(hers().await.is_empty());
    // Later commits are indexed as usual, through the script.
    alice.put(NOTE, "kept", json!({ "text": "third" })).await;
    alice.delete(NOTE, "gone").await;
    query_until("later commits win", list, |body| texts(body) == ["third!"]).await;
    server.stop().await;
}
