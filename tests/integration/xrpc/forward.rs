//! `/xrpc/{nsid}` without a lexicon: requests are forwarded to the lexicon authority that DNS names.

use belvedere_protocol::crypto::Algorithm;
use belvedere_standins::upstream::{ReceivedRequest, Upstream, respond};
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use http::Method;
use serde_json::{Value, json};

use crate::fixtures::{ALICE, World};
use crate::support::app::App;

const AUTHORITY: &str = "did:plc:authorityauthorityautho";
/// An account whose PDS refuses connections.
const DOWN: &str = "did:plc:downdowndowndowndowndown";

/// Starts a PDS that is the authority for `example.net`.
pub async fn authority(
    world: &World,
    answer: impl Fn(&ReceivedRequest) -> http::Response<bytes::Bytes> + Send + Sync + 'static,
) -> Upstream {
    let pds = Upstream::start(answer).await;
    world.server.dns.txt("_lexicon.example.net", &format!("did={AUTHORITY}"));
    world.plc.host(AUTHORITY, &pds.url());
    pds
}

async fn set_rules(world: &World, mode: &str, nsids: &[&str]) {
    let rules = json!({ "mode": mode, "nsids": nsids });
    let put = world.server.admin(Method::PUT, "/admin/settings/xrpc-proxy", Some(&rules)).await;
    assert_eq!(put.status, 204, "{}", put.text);
}

crate::in_both_worlds!(
    an_unknown_query_is_forwarded_to_its_authority,
    an_unknown_procedure_is_forwarded_for_callers_with_a_did_and_without_their_proof,
    operators_configure_what_is_forwarded,
    a_client_with_a_slow_authority_leaves_forwarding_to_others,
    no_authority_is_an_unknown_method_and_an_unavailable_one_a_bad_gateway,
    an_endless_response_is_aborted
);

async fn an_unknown_query_is_forwarded_to_its_authority(world: World) {
    let pds = authority(&world, |request| {
        if request.path_and_query.contains("fail") {
            return respond(418, "text/html", "<script>alert(1)</script>");
        }
        respond(200, "application/json", r#"{"from":"authority"}"#)
    })
    .await;
    let server = &world.server;
    let path = format!("net.example.getThing?a=1&a=2&b=x%26y&client_key={}", server.client_key);
    let headers =
        [("x-client-key", server.client_key.as_str()), ("x-client-secret", "bvs_secret"), ("cookie", "c=1")];
    let answer = server.request(Method::GET, &format!("/xrpc/{path}"), &headers, None).await;
    assert_eq!((answer.status.as_u16(), &answer.body), (200, &json!({ "from": "authority" })));
    let requests = pds.requests();
    assert_eq!(requests[0].path_and_query, "/xrpc/net.example.getThing?a=1&a=2&b=x%26y");
    for name in ["x-client-key", "x-client-secret", "cookie", "authorization"] {
        assert!(!requests[0].headers.contains_key(name), "{name} went out");
    }
    // Any response is returned, with headers that keep browsers from running it.
    let failed = server.xrpc("net.example.getThing?fail").await;
    assert_eq!(failed.status, 418);
    assert_eq!(failed.headers["content-type"], "text/html");
    assert_eq!(failed.headers["x-content-type-options"], "nosniff");
    assert!(failed.headers["content-security-policy"].to_str().unwrap().contains("sandbox"));
}

async fn an_unknown_procedure_is_forwarded_for_callers_with_a_did_and_without_their_proof(world: World) {
    let pds = authority(&world, |_| respond(200, "application/json", "{}")).await;
    let server = &world.server;
    let alice = world.plc.person(ALICE, Algorithm::Es256k);
    let token = alice.token(&server.did(), json!({ "lxm": "net.example.doThing" }));
    let answer = server.procedure("net.example.doThing?x=1", &token, &json!({ "text": "hi" })).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    let requests = pds.requests();
    assert_eq!(
        (&requests[0].method, requests[0].path_and_query.as_str()),
        (&Method::POST, "/xrpc/net.example.doThing?x=1")
    );
    assert_eq!(serde_json::from_slice::<Value>(&requests[0].body).unwrap(), json!({ "text": "hi" }));
    assert_eq!(requests[0].headers["content-type"], "application/json");
    assert!(!requests[0].headers.contains_key("authorization"));

    let headers = [("x-client-key", server.client_key.as_str())];
    let anonymous = server.request(Method::POST, "/xrpc/net.example.doThing", &headers, None).await;
    assert_eq!(anonymous.status, 401, "{}", anonymous.text);
    let token = alice.token(&server.did(), json!({ "lxm": "net.example.doThing" }));
    let headers =
        [("x-client-key", server.client_key.as_str()), ("authorization", &format!("Bearer {token}"))];
    let garbage =
        server.request(Method::POST, "/xrpc/net.example.doThing", &headers, Some("{".to_owned())).await;
    assert_eq!(garbage.status, 400, "{}", garbage.text);
    assert_eq!(pds.requests().len(), 1);
}

async fn operators_configure_what_is_forwarded(world: World) {
    let pds = authority(&world, |_| respond(200, "application/json", "{}")).await;
    let server = &world.server;
    let status = async |nsid: &str| server.xrpc(nsid).await.status.as_u16();
    set_rules(&world, "allowlist", &["net.example.good"]).await;
    assert_eq!((status("net.example.good").await, status("net.example.bad").await), (200, 403));
    set_rules(&world, "blocklist", &["net.example.*"]).await;
    let refused = server.xrpc("net.example.good").await;
    assert_eq!((refused.status.as_u16(), refused.error()), (403, "NSID not allowed by proxy policy"));
    set_rules(&world, "disabled", &[]).await;
    assert_eq!(status("net.example.good").await, 403);
    set_rules(&world, "open", &[]).await;
    assert_eq!(status("net.example.bad").await, 200);
    assert_eq!(pds.requests().len(), 2);
}

async fn a_client_with_a_slow_authority_leaves_forwarding_to_others(world: World) {
    let _quick = authority(&world, |_| respond(200, "application/json", "{}")).await;
    let server = &world.server;
    let slow = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    server.dns.txt("_lexicon.slow.example", &format!("did={DOWN}"));
    world.plc.host(DOWN, &format!("http://{}", slow.local_addr().unwrap()));
    let greedy = App::public(server, "greedy").await;
    // More calls than one client may have in flight or queued; the others are refused.
    let headers = [("x-client-key", greedy.key.as_str()), ("origin", "https://greedy.example")];
    let calls = (0..90).map(|_| server.request(Method::GET, "/xrpc/example.slow.get", &headers, None));
    let mut calls = calls.collect::<FuturesUnordered<_>>();
    let mut held = Vec::new();
    let mut refused = 0;
    while held.len() < 16 || refused < 90 - 16 {
        tokio::select! {
            taken = slow.accept() => held.push(taken.unwrap().0),
            Some(answer) = calls.next() => {
                assert_eq!(answer.status, 503, "{}", answer.text);
                refused += 1;
            }
        }
    }
    assert_eq!(server.xrpc("net.example.getThing").await.status, 200);
    assert_eq!(held.len(), 16);
}

async fn no_authority_is_an_unknown_method_and_an_unavailable_one_a_bad_gateway(world: World) {
    let server = &world.server;
    world.server.dns.txt("_lexicon.nodid.example", "did=nonsense");
    world.server.dns.txt("_lexicon.nopds.example", "did=did:plc:nobodynobodynobodynobody");
    world.server.dns.txt("_lexicon.inside.example", "did=did:plc:insideinsideinsideinside");
    world.server.dns.txt("_lexicon.down.example", &format!("did={DOWN}"));
    world.plc.host("did:plc:insideinsideinsideinside", "http://10.0.0.1");
    world.plc.host(DOWN, "http://127.0.0.1:9");
    for (nsid, status) in [
        ("com.nowhere.get", 404),
        ("nodots", 404),
        ("example.nodid.get", 404),
        ("example.nopds.get", 404),
        // Methods of the server's own namespace are never forwarded.
        ("dev.service.unknown", 404),
        ("example.inside.get", 502),
        ("example.down.get", 502),
    ] {
        let answer = server.xrpc(nsid).await;
        assert_eq!(answer.status, status, "{nsid}: {}", answer.text);
        let expected = if status == 404 {
            "method not found"
        } else {
            "the server that answers this method can't be reached"
        };
        assert_eq!(answer.error(), expected, "{nsid}");
    }
}

async fn an_endless_response_is_aborted(world: World) {
    let _pds = authority(&world, |_| respond(200, "application/json", vec![b' '; (8 << 20) + 1])).await;
    let answer = world.server.xrpc("net.example.large").await;
    assert_eq!(answer.status, 502, "{}", answer.error());
}
