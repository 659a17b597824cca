//! Permissioned spaces over two servers and two real PDSs: one server hosts a space, and a member of it uses the other one.

use std::time::{Duration, Instant};

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use crate::app::App;
use crate::database::Database;
use crate::lossy::Lossy;
use crate::network::{Network, network};
use crate::pds::Account;
use crate::server::{Server, expect, send};
use crate::wait::until;

const NOTE: &str = "com.example.spaces.note";
const KIND: &str = "com.example.spaces.group";
const SCOPES: &str = "atproto transition:generic";

/// A server with spaces and an identity, and the DID of it.
async fn server(network: &'static Network, database: Database, more: &[(&'static str, &str)]) -> Server {
    let mut environment = vec![("FEATURE_SPACES_ENABLED", "true")];
    environment.extend(more);
    let mut server = Server::with(network, database, &environment);
    server.start().await;
    server
}

async fn expose(server: &Server, key: &str) {
    let identity = server.request(Method::PUT, "/admin/service-identity").bearer_auth(key);
    let (status, body) = send(identity.json(&json!({ "mode": "did_web" }))).await;
    assert_eq!(status, 204, "{body}");
}

/// A call of a user with a service token that the PDS has signed.
async fn call(
    server: &Server,
    did: &str,
    client: &str,
    user: &Account,
    verb: Method,
    method: &str,
) -> RequestBuilder {
    let name = method.split('?').next().unwrap();
    let token = user.service_token(did, Some(name)).await;
    server.request(verb, &format!("/xrpc/{method}")).bearer_auth(token).header("x-client-key", client)
}

/// A server as one user sees it.
struct View<'a> {
    server: &'a Server,
    did: String,
    client: String,
    user: &'a Account,
}

impl View<'_> {
    async fn post(&self, method: &str, body: Value) -> Value {
        let request = call(self.server, &self.did, &self.client, self.user, Method::POST, method).await;
        let (status, answer) = send(request.json(&body)).await;
        assert!(status.is_success(), "{method}: {status} {answer}");
        answer
    }

    async fn get(&self, method: &str) -> (u16, Value) {
        let request = call(self.server, &self.did, &self.client, self.user, Method::GET, method).await;
        let (status, answer) = send(request).await;
        (status.as_u16(), answer)
    }

    async fn note(&self, space: &str, rkey: &str) {
        let record = json!({ "text": rkey });
        let body = json!({ "space": space, "collection": NOTE, "rkey": rkey, "record": record });
        self.post("com.atproto.space.putRecord", body).await;
    }

    /// The keys of the notes that the user reads, or the error.
    async fn notes(&self, space: &str) -> Result<Vec<String>, String> {
        let path = format!("com.atproto.space.listRecords?space={}&limit=100", space.replace('%', "%25"));
        let (status, answer) = self.get(&path).await;
        if status != 200 {
            return Err(format!("{status} {answer}"));
        }
        let records = answer["records"].as_array().unwrap();
        let mut keys: Vec<String> =
            records.iter().map(|record| record["rkey"].as_str().unwrap().to_owned()).collect();
        keys.sort();
        Ok(keys)
    }

    async fn until_it_reads(&self, space: &str, expected: &[String]) {
        until("the user reads what was written", || async {
            let found = self.notes(space).await?;
            if found == expected { Ok(()) } else { Err(format!("{} of {}", found.len(), expected.len())) }
        })
        .await;
    }
}

crate::on_both!(members_of_two_servers_share_a_space);
async fn members_of_two_servers_share_a_space(database: Database) {
    let network = network().await;
    let (alice, bob) = (network.account().await, network.account_at(&network.other_pds).await);
    // A PDS signs no token for an app whose audience is a did:web with a port, but for that of localhost.
    let host = server(network, database, &[("PUBLIC_URL", "http://localhost:{port}")]).await;
    let host_did = host.did.replace("127.0.0.1", "localhost");
    let key = host.create_key(&alice.did);
    expose(&host, &key).await;
    // The notices for the other server pass a proxy that loses three of ten.
    let lossy = Lossy::start("com.atproto.space.notifyWrite", 3).await;
    let public = format!("http://localhost:{}", lossy.address.port());
    let mut other = server(network, Database::sqlite(), &[("PUBLIC_URL", &public)]).await;
    lossy.forward_to(&other.url);
    let other_key = other.create_key(&bob.did);
    expose(&other, &other_key).await;
    let app = App::register(&host, &key, SCOPES).await;
    let other_app = App::register(&other, &other_key, SCOPES).await;
    other_app.log_in(&other, network, &bob, json!({})).await;
    let other_did = format!("did:web:localhost%3A{}", lossy.address.port());

    let alice_here =
        View { server: &host, did: host_did.clone(), client: app.client_key.clone(), user: &alice };
    let bob_at_host =
        View { user: &bob, client: app.client_key.clone(), did: host_did.clone(), ..alice_here };
    let bob_there =
        View { server: &other, did: other_did.clone(), client: other_app.client_key.clone(), user: &bob };

    // Bob joins by an invite, writes at his server, and both read both.
    let space = json!({ "spaceType": KIND, "skey": "main" });
    let space = alice_here.post("com.atproto.simplespace.createSpace", space).await;
    let space = space["uri"].as_str().unwrap().to_owned();
    let invite = json!({ "space": space, "access": "write", "maxUses": 1 });
    let invite = alice_here.post("dev.service.space.createInvite", invite).await;
    bob_at_host.post("dev.service.space.acceptInvite", json!({ "token": invite["token"] })).await;
    bob_there.post("dev.service.space.follow", json!({ "space": space })).await;
    alice_here.note(&space, "a").await;
    bob_there.note(&space, "b").await;
    let mut expected = vec!["a".to_owned(), "b".to_owned()];
    bob_there.until_it_reads(&space, &expected).await;
    alice_here.until_it_reads(&space, &expected).await;

    // Notices are lost, and the copies are complete nevertheless; also after a crash.
    for n in 0..40 {
        let rkey = format!("n{n:02}");
        let writer = if n % 4 == 3 { &bob_there } else { &alice_here };
        writer.note(&space, &rkey).await;
        expected.push(rkey);
    }
    expected.sort();
    let began = Instant::now();
    bob_there.until_it_reads(&space, &expected).await;
    alice_here.until_it_reads(&space, &expected).await;
    println!("{} notices lost, the copies are complete after {:?}", lossy.lost(), began.elapsed());
    assert!(lossy.lost() > 0);
    drop(bob_there);
    other.kill();
    alice_here.note(&space, "while-it-is-down").await;
    expected.push("while-it-is-down".to_owned());
    expected.sort();
    other.start().await;
    let bob_there = View { server: &other, did: other_did, client: other_app.client_key.clone(), user: &bob };
    bob_there.until_it_reads(&space, &expected).await;

    // A removal ends the access at the host at once, and at the other server with the notice of the revoked credential.
    let removed = Instant::now();
    alice_here.post("com.atproto.simplespace.removeMember", json!({ "space": space, "did": bob.did })).await;
    let (status, answer) =
        bob_at_host.get(&format!("com.atproto.space.listRecords?space={}", space.replace('%', "%25"))).await;
    assert_eq!((status, &answer["error"]), (404, &json!("SpaceNotFound")));
    assert!(removed.elapsed() < Duration::from_secs(5), "{:?}", removed.elapsed());
    let own: Vec<String> = bob_there.notes(&space).await.unwrap_or_default();
    println!("at the other server {} notes are read after the removal", own.len());
    until("the other server shows Bob's notes only", || async {
        let found = bob_there.notes(&space).await?;
        let is_own = found.iter().all(|rkey| rkey == "b" || rkey.starts_with('n'));
        if is_own && found.len() == 11 { Ok(()) } else { Err(format!("{found:?}")) }
    })
    .await;
    assert!(bob_at_host.post_status("com.atproto.space.createRecord", &space).await >= 400);
    expect(200, host.request(Method::GET, "/health")).await;
}

impl View<'_> {
    async fn post_status(&self, method: &str, space: &str) -> u16 {
        let request = call(self.server, &self.did, &self.client, self.user, Method::POST, method).await;
        let body = json!({ "space": space, "collection": NOTE, "record": { "text": "x" } });
        send(request.json(&body)).await.0.as_u16()
    }
}
