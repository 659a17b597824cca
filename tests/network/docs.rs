//! Runs the JavaScript examples of `docs/authentication.md` unmodified.

use serde_json::{Value, json};

use crate::app::App;
use crate::database::Database;
use crate::index::{add_procedure, add_query, track};
use crate::network::network;
use crate::node::node;
use crate::pds::Account;
use crate::server::Server;

const NOTE: &str = "com.example.docs.note";
const PUT: &str = "com.example.docs.putNote";
const LIST: &str = "com.example.docs.listNotes";
const SCOPES: &str = "atproto transition:generic";

crate::on_both!(the_examples_work);
async fn the_examples_work(database: Database) {
    let network = network().await;
    let (admin, alice) = (network.account().await, network.account().await);
    let (shared, editor, author) =
        (network.account().await, network.account().await, network.account().await);
    let mut server = Server::new(network, database);
    server.start().await;
    let key = server.create_key(&admin.did);
    track(&server, &key, NOTE).await;
    add_query(&server, &key, LIST, NOTE).await;
    add_procedure(&server, &key, PUT, NOTE).await;
    let app = App::register(&server, &key, SCOPES).await;
    let users = [&alice, &shared, &editor, &author]
        .map(|user| json!({ "handle": user.handle, "password": user.password }));
    let input = json!({
        "instance": server.url, "clientKey": app.client_key, "clientSecret": app.secret, "clientId": app.client_id,
        "redirectUri": app.redirect, "scopes": SCOPES, "pds": network.pds,
        "users": users,
        "handles": { "shared": shared.handle, "editor": editor.handle, "author": author.handle },
        "namespace": "dev.service", "methods": { "put": PUT, "list": LIST },
    });
    let printed = node("docs.mjs", &input).await;
    assert!(printed.contains("text: 'Hello'") && printed.lines().any(|line| line == "204"), "{printed}");
    let records = async |user: &Account| -> Vec<Value> {
        user.records(NOTE).await.into_values().map(|(_, record)| record).collect()
    };
    assert_eq!(records(&alice).await, [json!({ "$type": NOTE, "text": "Hello" })]);
    // The author's record is in the shared account's repo.
    assert_eq!(records(&shared).await, [json!({ "$type": NOTE, "text": "From all of us" })]);
    assert!(records(&author).await.is_empty());
    assert!(printed.contains(&shared.uri(NOTE, "")), "{printed}");
    server.stop().await;
}
