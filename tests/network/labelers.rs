//! Labels of a real labeler (`@skyware/labeler`) on a real PDS's records.

use reqwest::Method;
use serde_json::{Value, json};

use crate::database::Database;
use crate::index::track;
use crate::network::network;
use crate::server::{Server, expect};
use crate::wait::until;

const NOTE: &str = "com.example.labels.note";

/// The values of the labels of a record, by source.
async fn labels(server: &Server, key: &str, uri: &str, src: &str) -> Result<Vec<String>, String> {
    let request = server.request(Method::GET, "/admin/records").bearer_auth(key);
    let page = expect(200, request.query(&[("collection", NOTE), ("limit", "100")])).await;
    let records = page["records"].as_array().unwrap();
    let record = records.iter().find(|record| record["uri"] == uri).ok_or("the record is not indexed")?;
    let labels = record["labels"].as_array().unwrap().iter().filter(|label| label["src"] == src);
    Ok(labels.map(|label| label["val"].as_str().unwrap().to_owned()).collect())
}

async fn wait_for(server: &Server, key: &str, uri: &str, src: &str, expected: &[&str]) {
    until(&format!("the labels of {uri} are {expected:?}"), || async {
        let found = labels(server, key, uri, src).await?;
        if found == expected { Ok(()) } else { Err(format!("{found:?}")) }
    })
    .await;
}

crate::on_both!(a_real_labeler_is_followed);
async fn a_real_labeler_is_followed(database: Database) {
    let network = network().await;
    let alice = network.account().await;
    let labeler = network.labeler.did.as_str();
    let mut server = Server::new(network, database);
    server.start().await;
    let key = server.create_key(&alice.did);
    track(&server, &key, NOTE).await;
    let own = json!({ "$type": "com.atproto.label.defs#selfLabels", "values": [{ "val": "art" }] });
    let cid = alice.put(NOTE, "a", json!({ "text": "x", "labels": own })).await;
    let uri = alice.uri(NOTE, "a");
    // A label from before the subscription.
    network.label(json!({ "uri": uri, "val": "early" })).await;
    let admin =
        |method: Method, path: &str, body: &Value| server.request(method, path).bearer_auth(&key).json(body);
    let added = admin(Method::POST, "/admin/labelers", &json!({ "did": labeler })).send().await.unwrap();
    assert_eq!(added.status(), 201);
    wait_for(&server, &key, &uri, labeler, &["early"]).await;
    wait_for(&server, &key, &uri, &alice.did, &["art"]).await;

    network.label(json!({ "uri": uri, "val": "live" })).await;
    network.label(json!({ "uri": uri, "val": "version", "cid": cid })).await;
    network.label(json!({ "uri": uri, "val": "expired", "exp": "2020-01-01T00:00:00.000Z" })).await;
    network.label(json!({ "uri": alice.did, "val": "account" })).await;
    wait_for(&server, &key, &uri, labeler, &["early", "live", "version"]).await;
    network.label(json!({ "uri": uri, "val": "early", "neg": true })).await;
    wait_for(&server, &key, &uri, labeler, &["live", "version"]).await;

    // A label that is made while the server is down arrives when it is back.
    server.kill();
    network.label(json!({ "uri": uri, "val": "missed" })).await;
    server.start().await;
    wait_for(&server, &key, &uri, labeler, &["live", "missed", "version"]).await;
    alice.put(NOTE, "a", json!({ "text": "y" })).await;
    wait_for(&server, &key, &uri, labeler, &["live", "missed"]).await;

    let path = format!("/admin/labelers/{labeler}");
    let deleted = server.request(Method::DELETE, &path).bearer_auth(&key).send().await.unwrap();
    assert_eq!(deleted.status(), 204);
    wait_for(&server, &key, &uri, labeler, &[]).await;
    server.stop().await;
}
