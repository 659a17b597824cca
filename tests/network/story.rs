//! The steps of the README: create a key, upload a record lexicon and a query lexicon, register a client, write a
//! record on a real PDS, and read it through the built-in query and through a script.

use reqwest::Method;
use serde_json::json;

use crate::database::Database;
use crate::index::{add_client, add_query, equals_pds, query_until, track};
use crate::network::network;
use crate::server::{Server, expect};

const NOTE: &str = "com.example.story.note";
const LIST: &str = "com.example.story.listNotes";
const SCRIPTED: &str = "com.example.story.scriptedNotes";

const SCRIPT: &str = r"
function handle()
  local page = db.query({ collection = collection, did = params.did, limit = 10 })
  local texts = toarray({})
  for _, record in ipairs(page.records) do table.insert(texts, record.text) end
  return { texts = texts, caller = caller_did, count = db.count(collection, params.did) }
end
";

crate::on_both!(a_record_is_read_back);
async fn a_record_is_read_back(database: Database) {
    let network = network().await;
    let alice = network.account().await;
    let mut server = Server::new(network, database);
    server.start().await;

    // The operator: a key from the command line, lexicons, a client.
    let key = server.create_key(&alice.did);
    track(&server, &key, NOTE).await;
    add_query(&server, &key, LIST, NOTE).await;
    let client = add_client(&server, &key).await;
    let list = || {
        let request = server.request(Method::GET, &format!("/xrpc/{LIST}")).query(&[("did", &alice.did)]);
        request.header("x-client-key", &client)
    };
    assert_eq!(expect(200, list()).await, json!({ "records": [] }));
    let anonymous = expect(401, server.request(Method::GET, &format!("/xrpc/{LIST}"))).await;
    assert_eq!(anonymous["error"], "Missing client identification");

    // A record that the user writes on their PDS is returned by the list and by its URI.
    alice.put(NOTE, "first", json!({ "text": "hello" })).await;
    let uri = alice.uri(NOTE, "first");
    let page =
        query_until("the record is listed", list, |body| body["records"][0]["uri"] == uri.as_str()).await;
    assert_eq!(page, json!({ "records": [{ "$type": NOTE, "text": "hello", "uri": uri }] }));
    let single = expect(200, list().query(&[("uri", &uri)])).await;
    assert_eq!(single, json!({ "record": { "$type": NOTE, "text": "hello", "uri": uri } }));

    // The operator binds a script, which reads the same record and the caller's DID.
    add_query(&server, &key, SCRIPTED, NOTE).await;
    let script = json!({ "id": format!("xrpc.query:{SCRIPTED}"), "body": SCRIPT });
    expect(201, server.request(Method::POST, "/admin/scripts").bearer_auth(&key).json(&script)).await;
    let scripted = || {
        let request = server.request(Method::GET, &format!("/xrpc/{SCRIPTED}")).query(&[("did", &alice.did)]);
        request.header("x-client-key", &client)
    };
    assert_eq!(expect(200, scripted()).await, json!({ "texts": ["hello"], "count": 1 }));
    let token = alice.service_token(&server.did, Some(SCRIPTED)).await;
    let known = expect(200, scripted().bearer_auth(&token)).await;
    assert_eq!(known, json!({ "texts": ["hello"], "count": 1, "caller": alice.did }));
    // A token for one method is not valid for another.
    let other = alice.service_token(&server.did, Some(LIST)).await;
    expect(401, scripted().bearer_auth(&other)).await;

    // An update and a delete arrive too.
    alice.put(NOTE, "first", json!({ "text": "changed" })).await;
    query_until("the update arrives", scripted, |body| body["texts"] == json!(["changed"])).await;
    alice.put(NOTE, "second", json!({ "text": "more" })).await;
    alice.delete(NOTE, "first").await;
    query_until("the delete arrives", scripted, |body| body["texts"] == json!(["more"])).await;

    // Records written while the server is down are indexed when it is back.
    server.stop().await;
    alice.put(NOTE, "third", json!({ "text": "meanwhile" })).await;
    server.start().await;
    assert_eq!(equals_pds(&server, &key, NOTE, &[alice]).await, 2);
    server.stop().await;
}

crate::on_both!(the_first_caller_becomes_super);
async fn the_first_caller_becomes_super(database: Database) {
    let network = network().await;
    let (alice, bob) = (network.account().await, network.account().await);
    let mut server = Server::new(network, database);
    server.start().await;

    let lexicons = |token: &str| server.request(Method::GET, "/admin/lexicons").bearer_auth(token);
    let wrong = alice.service_token("did:web:elsewhere.example", None).await;
    expect(401, lexicons(&wrong)).await;
    let token = alice.service_token(&server.did, None).await;
    assert_eq!(expect(200, lexicons(&token)).await, json!([]));
    // A token is valid only once.
    expect(401, lexicons(&token)).await;
    expect(403, lexicons(&bob.service_token(&server.did, None).await)).await;

    // On the command line bob gets an operator's permissions. He can't create a key with more permissions than his own.
    let key = server.cli(&["admin", "create-key", "--did", &bob.did, "--permissions", "operator"]);
    expect(200, lexicons(key.trim())).await;
    expect(200, lexicons(&bob.service_token(&server.did, None).await)).await;
    let create = |token: String| {
        let body = json!({ "name": "too much", "permissions": ["users:create"] });
        server.request(Method::POST, "/admin/api-keys").bearer_auth(token).json(&body)
    };
    expect(201, create(alice.service_token(&server.did, None).await)).await;
    expect(403, create(bob.service_token(&server.did, None).await)).await;
}
