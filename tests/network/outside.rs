//! Scripts that access the real network: accounts, blobs, and methods of other servers.

use reqwest::Method;
use serde_json::json;

use crate::database::Database;
use crate::index::{add_client, add_query};
use crate::network::network;
use crate::server::{Server, expect};

const COLLECTION: &str = "com.example.outside.picture";
const METHOD: &str = "com.example.outside.look";

const SCRIPT: &str = r"
function handle()
  local blob = atproto.blob_download(params.did, params.cid)
  local described = xrpc.query('com.atproto.server.describeServer')
  local repo = xrpc.query('com.atproto.repo.describeRepo', { repo = params.did })
  local missing = xrpc.query('com.atproto.repo.getRecord', { repo = params.did, collection = 'com.example.none', rkey = 'x' })
  return {
    pds = atproto.resolve_service_endpoint(params.did), size = blob.size, mime_type = blob.mimeType,
    described = described.status, did = json.decode(repo.body).did, missing = missing.status,
  }
end
";

crate::on_both!(scripts_look_outside);
async fn scripts_look_outside(database: Database) {
    let network = network().await;
    let alice = network.account().await;
    let mut server = Server::new(network, database);
    server.start().await;
    let key = server.create_key(&alice.did);
    add_query(&server, &key, METHOD, COLLECTION).await;
    let client = add_client(&server, &key).await;
    let script = json!({ "id": format!("xrpc.query:{METHOD}"), "body": SCRIPT });
    expect(201, server.request(Method::POST, "/admin/scripts").bearer_auth(&key).json(&script)).await;

    // The lexicon authority of the protocol's own methods is alice, so they are forwarded to her PDS.
    for domain in ["server.atproto.com", "repo.atproto.com"] {
        network.txt(&format!("_lexicon.{domain}"), &format!("did={}", alice.did)).await;
    }
    let blob = alice.upload_blob("image/png", b"a picture in words".to_vec()).await;
    alice.put(COLLECTION, "one", json!({ "picture": blob })).await;
    let cid = blob["ref"]["$link"].as_str().expect("a blob has a CID");

    let look = server.request(Method::GET, &format!("/xrpc/{METHOD}")).header("x-client-key", &client);
    let seen = expect(200, look.query(&[("did", alice.did.as_str()), ("cid", cid)])).await;
    assert_eq!(
        seen,
        json!({ "pds": network.pds, "size": 18, "mime_type": "image/png", "described": 200, "did": alice.did,
            "missing": 400 })
    );

    // The same methods over HTTP, until the operator blocks them.
    let describe = || {
        let request = server.request(Method::GET, "/xrpc/com.atproto.repo.describeRepo");
        request.query(&[("repo", &alice.did)]).header("x-client-key", &client)
    };
    assert_eq!(expect(200, describe()).await["handle"], alice.handle.as_str());
    let rules = json!({ "mode": "blocklist", "nsids": ["com.atproto.repo.*"] });
    let put = server.request(Method::PUT, "/admin/settings/xrpc-proxy").bearer_auth(&key).json(&rules);
    assert_eq!(put.send().await.expect("the server responds").status(), 204);
    expect(403, describe()).await;
    server.stop().await;
}
