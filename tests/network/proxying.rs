//! A real PDS resolves the server's did:web and forwards calls with service tokens.

use reqwest::Method;
use serde_json::{Value, json};

use crate::database::Database;
use crate::index::{add_procedure, add_query, track};
use crate::network::network;
use crate::server::{Server, expect, send};

const NOTE: &str = "com.example.proxying.note";
const ASK: &str = "com.example.proxying.ask";
const TELL: &str = "com.example.proxying.tell";

crate::on_both!(a_pds_forwards_calls_to_our_did_web);
async fn a_pds_forwards_calls_to_our_did_web(database: Database) {
    let network = network().await;
    let (admin, alice) = (network.account().await, network.account().await);
    // The PDS resolves a did:web over http for localhost only.
    let mut server = Server::with(network, database, &[("PUBLIC_URL", "http://localhost:{port}")]);
    server.start().await;
    let key = server.create_key(&admin.did);
    track(&server, &key, NOTE).await;
    add_query(&server, &key, ASK, NOTE).await;
    add_procedure(&server, &key, TELL, NOTE).await;
    for (trigger, answer) in [
        (format!("xrpc.query:{ASK}"), "{ caller = caller_did, q = params.q }"),
        (format!("xrpc.procedure:{TELL}"), "{ caller = caller_did, text = input.text }"),
    ] {
        let script = json!({ "id": trigger, "body": format!("function handle() return {answer} end") });
        expect(201, server.request(Method::POST, "/admin/scripts").bearer_auth(&key).json(&script)).await;
    }

    let document = expect(200, server.request(Method::GET, "/.well-known/did.json")).await;
    let did = document["id"].as_str().unwrap();
    let port = server.url.rsplit(':').next().unwrap();
    assert_eq!(did, format!("did:web:localhost%3A{port}"));
    let service = format!("{did}{}", document["service"][0]["id"].as_str().unwrap());

    let ask = alice.proxied(Method::GET, ASK, &service).query(&[("q", "hello & more")]);
    assert_eq!(expect(200, ask).await, json!({ "caller": alice.did, "q": "hello & more" }));
    let tell = alice.proxied(Method::POST, TELL, &service).json(&json!({ "text": "forwarded" }));
    assert_eq!(expect(200, tell).await, json!({ "caller": alice.did, "text": "forwarded" }));
    // Our errors come back through the PDS.
    let (status, body): (_, Value) =
        send(alice.proxied(Method::GET, "com.example.proxying.none", &service)).await;
    assert_eq!(status, 404, "{body}");
    // A service that the document does not have.
    let (status, body) = send(alice.proxied(Method::GET, ASK, &format!("{did}#other"))).await;
    assert_eq!(status, 400, "{body}");
    server.stop().await;
}
