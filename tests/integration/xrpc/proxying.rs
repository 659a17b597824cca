//! `atproto-proxy`, `atproto-accept-labelers` and `atproto-content-labelers`

use belvedere_protocol::crypto::Algorithm;
use belvedere_standins::upstream::{Upstream, respond};
use http::Method;
use serde_json::{Value, json};

use crate::fixtures::{ALICE, LIST, NOTES, World};
use crate::oauth::device::{App, Device, pds};
use crate::spaces::Group;
use crate::support::instance::{Answer, procedure_lexicon};

const LABELERS: &str = "did:plc:labeler1;redact, did:plc:labeler2";

/// A server with one service, `#svc`, that returns what it was asked.
async fn service(world: &World) -> (Upstream, String) {
    let upstream = Upstream::start(|request| {
        let body = json!({ "from": "service", "path": request.path_and_query }).to_string();
        let mut answer = respond(200, "application/json", body);
        answer.headers_mut().insert("atproto-content-labelers", "did:plc:labeler1".parse().unwrap());
        answer
    })
    .await;
    let did = "did:plc:serviceserviceservicese";
    world.plc.host(did, &upstream.url());
    (upstream, did.to_owned())
}

async fn get(world: &World, path: &str, headers: &[(&str, &str)]) -> Answer {
    let mut all = vec![("x-client-key", world.server.client_key.as_str())];
    all.extend(headers);
    world.server.request(Method::GET, &format!("/xrpc/{path}"), &all, None).await
}

/// A request with a session's proof and more headers.
async fn as_device(
    world: &World,
    device: &Device,
    method: Method,
    path: &str,
    headers: &[(&str, &str)],
    body: Option<Value>,
) -> Answer {
    let path = format!("/xrpc/{path}");
    let proof = device.proof(&world.server, &method, &path);
    let token = format!("DPoP {}", device.token);
    let mut all =
        vec![("x-client-key", device.client_key.as_str()), ("authorization", &token), ("dpop", &proof)];
    all.extend(headers);
    world.server.request(method, &path, &all, body.map(|body| body.to_string())).await
}

crate::in_both_worlds!(
    a_call_without_a_session_goes_to_the_named_service,
    methods_of_spaces_of_another_server_are_forwarded,
    a_call_to_our_own_service_is_answered_here,
    internal_addresses_are_out_of_reach,
    a_call_with_a_session_goes_through_the_callers_pds,
    what_a_pds_does_itself_stays_with_it
);

async fn a_call_without_a_session_goes_to_the_named_service(world: World) {
    let world: World = world.with_notes().await;
    let (upstream, did) = service(&world).await;
    // `host` of the stand-in names its PDS: that is a service like any other.
    let target = format!("{did}#atproto_pds");
    let proxied = [("atproto-proxy", target.as_str()), ("atproto-accept-labelers", LABELERS)];
    // The service answers, whatever lexicons are here.
    for method in [LIST, "com.example.unknown"] {
        let answer = get(&world, &format!("{method}?a=1&client_key=x"), &proxied).await;
        assert_eq!(
            answer.body,
            json!({ "from": "service", "path": format!("/xrpc/{method}?a=1") }),
            "{}",
            answer.text
        );
        assert_eq!(answer.headers["atproto-content-labelers"], "did:plc:labeler1");
    }
    let asked = &upstream.requests()[0];
    assert_eq!(asked.headers["atproto-accept-labelers"], LABELERS);
    for name in ["authorization", "x-client-key", "atproto-proxy", "cookie"] {
        assert!(!asked.headers.contains_key(name), "{name} went out");
    }
    // A service token for this server is not for others.
    let token =
        format!("Bearer {}", world.plc.person(ALICE, Algorithm::Es256).token(&world.server.did(), json!({})));
    let answer = get(&world, LIST, &[("atproto-proxy", &*target), ("authorization", &*token)]).await;
    assert_eq!(answer.body["from"], "service", "{}", answer.text);
    assert!(!upstream.requests().last().unwrap().headers.contains_key("authorization"));

    for (header, status) in [
        (format!("{did}#none"), 400),
        ("did:plc:nobodynobodynobodynobody#svc".to_owned(), 400),
        (did.clone(), 400),
        ("#svc".to_owned(), 400),
        ("nonsense".to_owned(), 400),
        (format!("{}#none", world.server.did()), 400),
    ] {
        let answer = get(&world, LIST, &[("atproto-proxy", &*header)]).await;
        assert_eq!(answer.status, status, "{header} {}", answer.text);
        assert!(answer.error().contains("atproto-proxy"), "{}", answer.text);
    }
    // The operator's rules hold.
    let rules = json!({ "mode": "blocklist", "nsids": [LIST] });
    assert_eq!(world.server.admin(Method::PUT, "/admin/settings/xrpc-proxy", Some(&rules)).await.status, 204);
    assert_eq!(get(&world, LIST, &proxied).await.status, 403);
    assert_eq!(get(&world, LIST, &[]).await.status, 200, "not a forwarded call");
}

/// They are not methods of this server, so its flag has nothing to say about them.
async fn methods_of_spaces_of_another_server_are_forwarded(world: World) {
    let world: World = world;
    let (upstream, did) = service(&world).await;
    let target = format!("{did}#atproto_pds");
    let method = "com.atproto.space.getRecord";
    let answer = get(&world, method, &[("atproto-proxy", &*target)]).await;
    assert_eq!((answer.status.as_u16(), &answer.body["from"]), (200, &json!("service")), "{}", answer.text);
    let own = format!("{}#bsky_appview", world.server.did());
    for header in [&*own, "nonsense"] {
        let answer = get(&world, method, &[("atproto-proxy", header)]).await;
        assert_eq!(
            (answer.status.as_u16(), answer.error()),
            (404, "FeatureDisabled"),
            "{header} {}",
            answer.text
        );
    }
    // Switched on, they go where other methods go.
    let world = Group::of(world).await.world;
    let space_host = format!("{}#atproto_space_host", world.server.did());
    let none = format!("{}#none", world.server.did());
    let query = format!("{method}?space=at://{ALICE}/space/com.example.group/x&collection=a.b.c&rkey=x");
    for (header, status, error) in [
        (&*own, 401, "AuthenticationRequired"),
        (&*space_host, 401, "AuthenticationRequired"),
        (&*none, 400, "atproto-proxy: this server has no service #none"),
        (
            "nonsense",
            400,
            "atproto-proxy must be a DID with the fragment of a service, like did:web:api.example#svc",
        ),
    ] {
        let answer = get(&world, &query, &[("atproto-proxy", header)]).await;
        assert_eq!((answer.status.as_u16(), answer.error()), (status, error), "{header} {}", answer.text);
    }
    let answer = get(&world, method, &[("atproto-proxy", &*target)]).await;
    assert_eq!((answer.status.as_u16(), &answer.body["from"]), (200, &json!("service")), "{}", answer.text);
    assert_eq!(upstream.requests().len(), 2);
}

async fn a_call_to_our_own_service_is_answered_here(world: World) {
    let world: World = world.with_notes().await;
    let own = format!("{}#bsky_appview", world.server.did());
    let answer = get(&world, LIST, &[("atproto-proxy", &*own)]).await;
    assert_eq!((answer.status.as_u16(), &answer.body), (200, &json!({ "records": [] })), "{}", answer.text);
}

async fn internal_addresses_are_out_of_reach(world: World) {
    let world: World = world;
    let did = "did:plc:internalinternalinterna";
    for address in ["http://10.0.0.1:80", "http://169.254.169.254", "https://192.168.1.1"] {
        world.plc.host(did, address);
        let target = format!("{did}#atproto_pds");
        let answer = get(&world, "com.example.unknown", &[("atproto-proxy", &*target)]).await;
        assert_eq!(answer.status, 502, "{address} {}", answer.text);
    }
    // Nor this server itself, by another DID.
    let own = "did:plc:ourselvesourselvesourse";
    world.plc.host(own, &format!("http://{}", world.server.address));
    let answer =
        get(&world, "com.example.unknown", &[("atproto-proxy", &*format!("{own}#atproto_pds"))]).await;
    assert_eq!(answer.status, 502, "{}", answer.text);
}

async fn a_call_with_a_session_goes_through_the_callers_pds(world: World) {
    let world: World = world.with_notes().await;
    let (upstream, did) = service(&world).await;
    let target = format!("{did}#svc");
    let pds = pds(&world, &[ALICE]).await;
    let scopes = format!("atproto rpc:com.example.ask?aud={target} rpc:com.example.tell?aud={target}");
    let app = App::with(
        &world.server,
        json!({ "name": "one", "client_id_url": "https://one.example/client.json",
            "client_uri": "https://one.example", "redirect_uris": [], "scopes": scopes }),
    )
    .await;
    let device = app.device(&world.server, &pds, ALICE, json!({ "scopes": scopes })).await;
    pds.respond_with("/xrpc/com.example.ask", 200, json!({ "from": "pds" }));
    pds.respond_with("/xrpc/com.example.tell", 200, json!({ "from": "pds" }));
    let proxied = [("atproto-proxy", target.as_str()), ("atproto-accept-labelers", LABELERS)];
    let answer = as_device(&world, &device, Method::GET, "com.example.ask?q=1", &proxied, None).await;
    assert_eq!((answer.status.as_u16(), &answer.body), (200, &json!({ "from": "pds" })), "{}", answer.text);
    let asked = pds.requests("/xrpc/com.example.ask").pop().unwrap();
    assert_eq!(asked.path_and_query, "/xrpc/com.example.ask?q=1");
    assert_eq!(
        (&asked.headers["atproto-proxy"], &asked.headers["atproto-accept-labelers"]),
        (&http::HeaderValue::from_str(&target).unwrap(), &http::HeaderValue::from_static(LABELERS))
    );
    assert!(asked.headers["authorization"].to_str().unwrap().starts_with("DPoP "));
    // Even a method with a lexicon here.
    world.server.upload(procedure_lexicon("com.example.tell"), Some(NOTES)).await;
    let told =
        as_device(&world, &device, Method::POST, "com.example.tell", &proxied, Some(json!({ "text": "x" })))
            .await;
    assert_eq!(told.body, json!({ "from": "pds" }), "{}", told.text);
    assert_eq!(
        serde_json::from_slice::<Value>(&pds.requests("/xrpc/com.example.tell")[0].body).unwrap(),
        json!({ "text": "x" })
    );

    // The session's scopes name the service.
    let other = format!("{did}#other");
    let beyond =
        as_device(&world, &device, Method::GET, "com.example.ask", &[("atproto-proxy", &*other)], None).await;
    assert_eq!((beyond.status.as_u16(), beyond.error()), (403, "ScopeMissingError"), "{}", beyond.text);
    assert!(beyond.body["message"].as_str().unwrap().contains(&format!("rpc:com.example.ask?aud={other}")));
    let beyond = as_device(&world, &device, Method::GET, "com.example.more", &proxied, None).await;
    assert_eq!(beyond.status, 403, "{}", beyond.text);
    assert_eq!(pds.requests("/xrpc/com.example").len(), 2, "what the scopes don't allow is not sent");
    assert!(upstream.requests().is_empty(), "the PDS calls the service");

    // A procedure needs a session.
    let token = world.plc.person(ALICE, Algorithm::Es256).token(&world.server.did(), json!({}));
    world.plc.host(ALICE, &pds.url());
    let headers = [
        ("x-client-key", world.server.client_key.as_str()),
        ("atproto-proxy", &*target),
        ("authorization", &*format!("Bearer {token}")),
    ];
    let refused =
        world.server.request(Method::POST, "/xrpc/com.example.tell", &headers, Some("{}".to_owned())).await;
    assert_eq!(refused.status, 401, "{}", refused.text);
    let rules = json!({ "mode": "disabled", "nsids": [] });
    assert_eq!(world.server.admin(Method::PUT, "/admin/settings/xrpc-proxy", Some(&rules)).await.status, 204);
    assert_eq!(as_device(&world, &device, Method::GET, "com.example.ask", &proxied, None).await.status, 403);
}

async fn what_a_pds_does_itself_stays_with_it(world: World) {
    let world: World = world.with_notes().await;
    let (upstream, did) = service(&world).await;
    let target = format!("{did}#svc");
    let pds = pds(&world, &[ALICE]).await;
    let scopes = format!("atproto repo:{NOTES}");
    let app = App::with(
        &world.server,
        json!({ "name": "one", "client_id_url": "https://one.example/client.json",
            "client_uri": "https://one.example", "redirect_uris": [], "scopes": scopes }),
    )
    .await;
    let device = app.device(&world.server, &pds, ALICE, json!({ "scopes": scopes })).await;
    // Clients name their AppView with every call.
    let proxied = [("atproto-proxy", target.as_str())];
    let body = json!({ "repo": ALICE, "collection": NOTES, "record": { "$type": NOTES, "text": "x" } });
    let path = "com.atproto.repo.createRecord";
    let written = as_device(&world, &device, Method::POST, path, &proxied, Some(body)).await;
    assert_eq!(written.status, 200, "{}", written.text);
    assert_eq!(world.server.records().await, 1);
    let sent = pds.requests("/xrpc/com.atproto.repo.createRecord").pop().unwrap();
    assert!(!sent.headers.contains_key("atproto-proxy"));
    // A read may concern another server: the PDS decides.
    pds.respond_with("/xrpc/com.atproto.label.queryLabels", 200, json!({ "labels": [] }));
    let read = as_device(&world, &device, Method::GET, "com.atproto.label.queryLabels", &proxied, None).await;
    assert_eq!(read.status, 200, "{}", read.text);
    assert_eq!(pds.requests("/xrpc/com.atproto.label.queryLabels")[0].headers["atproto-proxy"], target);
    assert!(upstream.requests().is_empty());
}
