//! Runs the unmodified client SDKs from npm against the server.

use serde_json::{Value, json};

use crate::app::{App, client_id};
use crate::database::Database;
use crate::index::{add_procedure, add_query, track};
use crate::network::network;
use crate::node::node;
use crate::server::Server;

const NOTE: &str = "com.example.sdk.note";
const PUT: &str = "com.example.sdk.putNote";
const LIST: &str = "com.example.sdk.listNotes";
const SCOPES: &str = "atproto transition:generic";

crate::on_both!(apps_written_with_the_sdks_work);
async fn apps_written_with_the_sdks_work(database: Database) {
    let network = network().await;
    let (admin, alice) = (network.account().await, network.account().await);
    let mut server = Server::with(network, database, &[("SERVICE_NAMESPACE", "dev.happyview")]);
    server.start().await;
    let key = server.create_key(&admin.did);
    track(&server, &key, NOTE).await;
    add_query(&server, &key, LIST, NOTE).await;
    add_procedure(&server, &key, PUT, NOTE).await;
    let confidential = App::register(&server, &key, SCOPES).await;
    let (page_id, redirect) = client_id(SCOPES);
    let page = json!({
        "name": "page", "client_id_url": page_id, "client_uri": "https://app.example", "redirect_uris": [redirect],
        "scopes": SCOPES, "client_type": "public", "allowed_origins": ["https://app.example"],
    });
    let page = App::create(&server, &key, &page).await;
    let input = json!({
        "instance": server.url, "plc": network.plc, "pds": network.pds,
        "user": { "did": alice.did, "handle": alice.handle, "password": alice.password },
        "other": { "did": admin.did, "handle": admin.handle },
        "page": { "clientKey": page["client_key"], "clientId": page_id, "redirectUri": redirect, "scopes": SCOPES },
        "confidential": { "clientKey": confidential.client_key, "clientSecret": confidential.secret,
            "clientId": confidential.client_id, "redirectUri": confidential.redirect, "scopes": SCOPES },
        "methods": { "put": PUT, "list": LIST, "note": NOTE },
    });
    let answer: Value = serde_json::from_str(&node("sdk.mjs", &input).await).unwrap();
    let records = alice.records(NOTE).await;
    assert_eq!(records[answer["uri"].as_str().unwrap()].1["text"], "from a server");
    server.stop().await;
}

crate::on_both!(the_reference_client_takes_our_metadata);
async fn the_reference_client_takes_our_metadata(database: Database) {
    let network = network().await;
    let alice = network.account().await;
    let mut server = Server::new(network, database);
    server.start().await;
    let input = json!({
        "instance": server.url, "plc": network.plc, "pds": network.pds,
        "user": { "did": alice.did, "handle": alice.handle, "password": alice.password },
    });
    let output: Value = serde_json::from_str(&node("own_client.mjs", &input).await).unwrap();
    assert!(output["client_id"].as_str().unwrap().starts_with("http://localhost?"), "{output}");
    server.stop().await;
}
