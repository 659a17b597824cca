//! Runs the JavaScript examples of `docs/authentication.md` unmodified.

use serde_json::{Value, json};

use crate::app::App;
use crate::database::Database;
use crate::index::{add_procedure, add_query, track};
use crate::network::network;
use crate::node::node;
use crate::server::Server;

const NOTE: &str = "com.example.docs.note";
const PUT: &str = "com.example.docs.putNote";
const LIST: &str = "com.example.docs.listNotes";
const SCOPES: &str = "atproto transition:generic";

crate::on_both!(the_examples_work);
async fn the_examples_work(database: Database) {
    let network = network().await;
    let (admin, alice) = (network.account().await, network.account().await);
    let mut server = Server::new(network, database);
    server.start().await;
    let key = server.create_key(&admin.did);
    track(&server, &key, NOTE).await;
    add_query(&server, &key, LIST, NOTE).await;
    add_procedure(&server, &key, PUT, NOTE).await;
    let app = App::register(&server, &key, SCOPES).await;
    let input = json!({
        "instance": server.url, "clientKey": app.client_key, "clientSecret": app.secret, "clientId": app.client_id,
        "redirectUri": app.redirect, "scopes": SCOPES, "pds": network.pds,
        "user": { "handle": alice.handle, "password": alice.password }, "methods": { "put": PUT, "list": LIST },
    });
    let printed = node("docs.mjs", &input).await;
    assert!(printed.contains("text: 'Hello'") && printed.trim_end().ends_with("204"), "{printed}");
    let records: Vec<Value> = alice.records(NOTE).await.into_values().map(|(_, record)| record).collect();
    assert_eq!(records, [json!({ "$type": NOTE, "text": "Hello" })]);
    server.stop().await;
}
