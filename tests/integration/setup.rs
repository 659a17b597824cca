//! `/api/setup/*`, and `/admin/service-entries/sync-plc*`

use belvedere_protocol::crypto::jws::{self, ServiceClaims};
use belvedere_protocol::crypto::{Algorithm, HighS, PrivateKey, PublicKey};
use http::Method;
use serde_json::{Value, json};

use crate::auth::{Browser, location};
use crate::fixtures::{ALICE, BOB, LIST, World};
use crate::support::instance::{Answer, Instance, OPERATOR};
use crate::support::oauth_pds::OauthPds;

async fn post(server: &Instance, path: &str, body: Value) -> Answer {
    server.admin(Method::POST, path, Some(&body)).await
}

async fn step(server: &Instance, path: &str, body: Value, status: u16) -> Answer {
    let answer = post(server, &format!("/api/setup/{path}"), body).await;
    assert_eq!(answer.status, status, "{path} {}", answer.text);
    answer
}

async fn status(server: &Instance) -> Value {
    server.admin(Method::GET, "/api/setup/status", None).await.body
}

/// Registers a did:plc for the instance.
async fn registered(world: &World) -> String {
    step(&world.server, "identity", json!({ "mode": "did_plc" }), 204).await;
    let answer = step(&world.server, "plc/register", json!({}), 200).await;
    answer.body["did"].as_str().unwrap().to_owned()
}

const SYNC: &str = "/admin/service-entries/sync-plc";

crate::in_both_worlds!(
    a_did_plc_is_registered_and_used,
    services_and_keys_are_synced_to_the_directory,
    scripts_call_other_servers_under_the_instances_did,
    the_keys_are_secret,
    an_accounts_document_is_changed_through_its_pds,
    accounts_are_found
);

async fn a_did_plc_is_registered_and_used(world: World) {
    let world: World = world.with_notes().await;
    let server = &world.server;
    assert_eq!(
        status(server).await,
        json!({ "identity_mode": null, "identity_configured": false,
            "plc_verified": null, "setup_complete": false })
    );
    for (path, body) in [
        ("plc/register", json!({})),
        ("complete", json!({})),
        ("plc/request", json!({})),
        ("plc/submit", json!({ "token": "x" })),
    ] {
        step(server, path, body, 400).await;
    }
    step(server, "identity", json!({ "mode": "did_plc" }), 204).await;
    assert_eq!(status(server).await["identity_configured"], false);
    // Until the DID is registered, the one of before works.
    let alice = world.plc.person(ALICE, Algorithm::Es256k);
    let call = async |audience: &str| {
        let token = format!("Bearer {}", alice.token(audience, json!({})));
        let headers = [("x-client-key", server.client_key.as_str()), ("authorization", &*token)];
        server.request(Method::GET, &format!("/xrpc/{LIST}"), &headers, None).await.status.as_u16()
    };
    assert_eq!(call(&server.did()).await, 200);
    let key = server.admin(Method::GET, "/api/setup/rotation-key", None).await;
    assert_eq!(key.headers["content-disposition"], "attachment; filename=\"rotation-key.bin\"");
    assert_eq!(key.headers["content-type"], "application/octet-stream");

    let made = step(server, "plc/register", json!({}), 200).await;
    let did = made.body["did"].as_str().unwrap();
    let operations = world.plc.operations().of(did);
    let [genesis] = &operations[..] else { panic!("{operations:?}") };
    assert_eq!(
        genesis["services"],
        json!({ "bsky_appview": { "type": "BskyAppView",
            "endpoint": format!("http://{}", server.address) } })
    );
    assert!(genesis["verificationMethods"]["atproto"].is_string());
    step(server, "plc/register", json!({}), 409).await;
    assert_eq!(
        status(server).await,
        json!({ "identity_mode": "did_plc", "identity_configured": true,
            "plc_verified": true, "setup_complete": false })
    );
    assert_eq!(
        (call(did).await, call(&format!("{did}#bsky_appview")).await, call(&server.did()).await),
        (200, 200, 401)
    );
    let described = server.request(Method::GET, "/xrpc/com.atproto.server.describeServer", &[], None).await;
    assert_eq!(described.body["did"], did);
    // To choose the same mode again loses nothing.
    step(server, "identity", json!({ "mode": "did_plc" }), 204).await;
    assert_eq!(server.admin(Method::GET, "/admin/service-identity", None).await.body["did"], did);

    step(server, "complete", json!({}), 204).await;
    for (path, body) in [
        ("identity", json!({ "mode": "did_web" })),
        ("plc/register", json!({})),
        ("complete", json!({})),
        ("plc/request", json!({})),
        ("plc/submit", json!({ "token": "x" })),
    ] {
        step(server, path, body, 403).await;
    }
    assert_eq!(server.admin(Method::GET, "/api/setup/rotation-key", None).await.status, 403);
    assert_eq!(status(server).await["setup_complete"], true);
    let events = server.admin(Method::GET, "/admin/events?event_type=setup.completed", None).await;
    assert_eq!(events.body["events"].as_array().unwrap().len(), 1, "{}", events.text);
    let exported = server
        .admin(Method::GET, "/admin/events?event_type=service_identity.rotation_key_exported", None)
        .await;
    assert_eq!(exported.body["events"][0]["severity"], "warn", "{}", exported.text);
}

async fn services_and_keys_are_synced_to_the_directory(world: World) {
    let world: World = world;
    let server = &world.server;
    assert_eq!(post(server, SYNC, json!({})).await.status, 400, "no identity");
    assert_eq!(
        server
            .admin(Method::PUT, "/admin/service-identity", Some(&json!({ "mode": "did_plc" })))
            .await
            .status,
        204
    );
    assert_eq!(post(server, SYNC, json!({})).await.status, 400, "no DID");
    let did = registered(&world).await;
    let last = || world.plc.operations().of(&did).last().cloned().unwrap();
    let count = || world.plc.operations().of(&did).len();
    assert_eq!(post(server, SYNC, json!({})).await.status, 204);
    assert_eq!(count(), 1, "nothing had changed");

    let made =
        post(server, "/admin/service-entries", json!({ "fragment_id": "#svc", "service_type": "Svc" })).await;
    let method = post(server, "/admin/verification-methods", json!({ "fragment_id": "#extra" })).await;
    assert_eq!(status(server).await["plc_verified"], false);
    // The directory asks to come back later.
    world.plc.operations().limit(1, 1);
    assert_eq!(post(server, SYNC, json!({})).await.status, 204);
    assert_eq!(world.plc.operations().refused(), 1);
    let key = format!("did:key:{}", method.body["public_key_multibase"].as_str().unwrap());
    assert_eq!(last()["services"]["svc"]["type"], "Svc");
    assert_eq!(last()["verificationMethods"]["extra"], key);
    assert_eq!(status(server).await["plc_verified"], true);
    // In minutes: no request stays open that long.
    world.plc.operations().limit(1, 600);
    let later = post(server, SYNC, json!({})).await;
    assert_eq!(
        (later.status.as_u16(), &later.headers["retry-after"]),
        (503, &http::HeaderValue::from(120)),
        "{}",
        later.text
    );

    // Entries that others added stay; those that were deleted here go.
    let id = made.body["id"].as_i64().unwrap();
    assert_eq!(server.admin(Method::DELETE, &format!("/admin/service-entries/{id}"), None).await.status, 204);
    assert_eq!(server.admin(Method::DELETE, "/admin/verification-methods/extra", None).await.status, 204);
    let mut foreign = last();
    foreign["services"]["other"] = json!({ "type": "Other", "endpoint": "https://other.example" });
    foreign["alsoKnownAs"] = json!(["at://index.example"]);
    foreign["unknown"] = json!({ "a": [1] });
    world.plc.operations().append(&did, foreign);
    // The answer gets lost: the directory has the operation all the same.
    world.plc.operations().lose_next_answer();
    assert_eq!(post(server, SYNC, json!({})).await.status, 204);
    let after = last();
    assert!(
        after["services"].get("svc").is_none() && after["verificationMethods"].get("extra").is_none(),
        "{after}"
    );
    assert_eq!(after["services"]["other"]["endpoint"], "https://other.example");
    assert_eq!(
        (&after["alsoKnownAs"], &after["unknown"]),
        (&json!(["at://index.example"]), &json!({ "a": [1] }))
    );
    let before = count();
    assert_eq!(post(server, SYNC, json!({})).await.status, 204);
    assert_eq!(count(), before);
    // A DID whose rotation key is another one now.
    let mut taken = last();
    taken["rotationKeys"] =
        json!([PrivateKey::from_bytes(Algorithm::Es256, &[1; 32]).unwrap().public().to_did_key()]);
    world.plc.operations().append(&did, taken);
    post(server, "/admin/service-entries", json!({ "fragment_id": "#late", "service_type": "Svc" })).await;
    let refused = post(server, SYNC, json!({})).await;
    assert_eq!(refused.status, 502, "{}", refused.text);
    assert!(refused.error().contains("Invalid signature"), "{}", refused.text);
    for path in ["/request", "/submit"] {
        let wrong = post(server, &format!("{SYNC}{path}"), json!({ "token": "x" })).await;
        assert_eq!(wrong.status, 400, "{}", wrong.text);
    }
    let events = server.admin(Method::GET, "/admin/events?event_type=service_entry.plc_synced", None).await;
    assert_eq!(events.body["events"][0]["detail"], json!({ "mode": "did_plc" }), "{}", events.text);
}

async fn scripts_call_other_servers_under_the_instances_did(world: World) {
    let world: World = world.with_notes().await;
    let server = &world.server;
    server
        .bind(
            LIST,
            "function handle() \
        local ok, token = pcall(atproto.service_token, params.aud, params.lxm) \
        if ok then return { token = token } end return { error = tostring(token) } end",
        )
        .await;
    let sign = async |aud: &str, lxm: &str| {
        server.xrpc(&format!("{LIST}?aud={}&lxm={lxm}", aud.replace('#', "%23"))).await.body
    };
    let none = sign("did:web:other.example", "com.example.get").await;
    assert!(none["error"].as_str().unwrap().contains("no identity with a key"), "{none}");
    let did = registered(&world).await;
    let audience = "did:web:other.example#svc";
    let token = sign(audience, "com.example.get").await;
    let token = jws::parse(token["token"].as_str().unwrap()).unwrap();
    let claims: ServiceClaims = token.claims().unwrap();
    assert_eq!(
        (claims.iss.as_str(), claims.aud.as_str(), claims.lxm.as_deref()),
        (&*did, audience, Some("com.example.get"))
    );
    assert!(claims.exp - claims.iat.unwrap() == 60 && claims.jti.is_some());
    // The key is the one in the DID document.
    let key =
        world.plc.operations().of(&did)[0]["verificationMethods"]["atproto"].as_str().unwrap().to_owned();
    let key = PublicKey::from_did_key(&key).unwrap();
    assert!(token.verify(&key, HighS::Refuse).is_ok());
    for (aud, lxm) in
        [("nonsense", "com.example.get"), ("did:web:other.example#", "com.example.get"), (audience, "nope")]
    {
        assert!(sign(aud, lxm).await["error"].is_string(), "{aud} {lxm}");
    }
    let attach = json!({ "mode": "attach_account", "attached_account_did": ALICE });
    assert_eq!(server.admin(Method::PUT, "/admin/service-identity", Some(&attach)).await.status, 204);
    assert!(sign(audience, "com.example.get").await["error"].as_str().unwrap().contains("at its PDS"));
}

async fn the_keys_are_secret(world: World) {
    let world: World = world;
    let server = &world.server;
    let did = registered(&world).await;
    let key = server.request(Method::GET, "/api/setup/rotation-key", &[], None).await;
    assert_eq!(key.status, 401, "{}", key.text);
    let viewer = server.create_key(&["--did", "did:plc:viewerviewerviewerviewer", "--permissions", "viewer"]);
    let header = [("authorization", &*format!("Bearer {viewer}"))];
    assert_eq!(server.request(Method::GET, "/api/setup/rotation-key", &header, None).await.status, 403);
    // Every authenticated caller may see the status; others may not.
    assert_eq!(server.request(Method::GET, "/api/setup/status", &header, None).await.status, 200);
    assert_eq!(server.request(Method::GET, "/api/setup/status", &[], None).await.status, 401);
    let stranger = world.plc.person(ALICE, Algorithm::Es256);
    for (path, status) in [("status", 200), ("rotation-key", 403), ("resolve?q=x", 403)] {
        let token = format!("Bearer {}", stranger.token(&did, json!({})));
        let path = format!("/api/setup/{path}");
        let answer = server.request(Method::GET, &path, &[("authorization", &*token)], None).await;
        assert_eq!(answer.status, status, "{path} {}", answer.text);
    }
}

async fn an_accounts_document_is_changed_through_its_pds(world: World) {
    let world: World = world;
    let server = &world.server;
    let pds = OauthPds::start().await;
    for did in [ALICE, BOB, OPERATOR] {
        world.plc.host(did, &pds.url());
    }
    let last = json!({ "type": "plc_operation", "rotationKeys": ["did:key:zR"], "prev": null, "sig": "x",
        "verificationMethods": { "atproto": "did:key:zA" }, "alsoKnownAs": ["at://alice.example"],
        "services": { "atproto_pds": { "type": "AtprotoPersonalDataServer", "endpoint": pds.url() } } });
    world.plc.operations().append(ALICE, last.clone());
    post(server, "/admin/service-entries", json!({ "fragment_id": "#svc", "service_type": "Svc" })).await;

    let mut browser = Browser::default();
    browser.login(server, &pds, OPERATOR).await;
    // Its owner could not log in here before, and other users may not ask for that scope.
    let login = format!("/auth/login?handle={ALICE}&scope=atproto+identity:*");
    assert_eq!(browser.get(server, &login).await.status, 400);
    let chosen = browser
        .post(
            server,
            "/api/setup/identity",
            &json!({ "mode": "attach_account", "attached_account_did": ALICE }),
        )
        .await;
    assert_eq!(chosen.status, 204, "{}", chosen.text);
    assert_eq!(status(server).await["identity_configured"], false);
    let metadata = server.request(Method::GET, "/oauth-client-metadata.json", &[], None).await;
    assert!(metadata.body["scope"].as_str().unwrap().ends_with(" identity:*"), "{}", metadata.text);
    let early = step(server, "plc/request", json!({}), 401).await;
    assert!(early.error().contains(ALICE), "{}", early.text);

    // In another browser the account's owner is no user.
    let mut elsewhere = Browser::default();
    let back = elsewhere.login_with(server, &pds, ALICE, "atproto identity:*").await;
    assert_eq!(location(&back), "/login?error=not_authorized");
    // Without the scope the login is of no use.
    browser.login(server, &pds, ALICE).await;
    let confirm = async |browser: &mut Browser, did: &str| {
        browser.post(server, "/api/setup/attach-auth/confirm", &json!({ "original_did": did })).await
    };
    assert_eq!(confirm(&mut browser, OPERATOR).await.status, 400);
    let back = browser.login_with(server, &pds, ALICE, "atproto identity:*").await;
    assert_eq!(location(&back), "/page", "{}", back.text);
    let me = browser.get(server, "/auth/me").await.body;
    assert_eq!((&me["did"], &me["is_admin"], &me["permissions"]), (&json!(ALICE), &json!(false), &json!([])));
    assert_eq!(browser.get(server, "/admin/stats").await.status, 403, "the account is no user");
    assert_eq!(confirm(&mut Browser::default(), OPERATOR).await.status, 401);
    for other in [BOB, ALICE, "nonsense"] {
        assert_eq!(confirm(&mut browser, other).await.status, 400, "{other}");
    }
    let confirmed = confirm(&mut browser, OPERATOR).await;
    assert_eq!(confirmed.status, 204, "{}", confirmed.text);
    let me = browser.get(server, "/auth/me").await.body;
    assert_eq!((&me["did"], &me["is_admin"]), (&json!(OPERATOR), &json!(true)));
    assert_eq!(confirm(&mut browser, OPERATOR).await.status, 401, "once");

    let identity = |method: &str| format!("/xrpc/com.atproto.identity.{method}");
    pds.respond_with(&identity("requestPlcOperationSignature"), 200, json!({}));
    step(server, "plc/request", json!({}), 204).await;
    let asked = pds.requests(&identity("requestPlcOperationSignature"));
    assert!(asked[0].headers["authorization"].to_str().unwrap().ends_with(ALICE) && asked[0].body.is_empty());
    pds.respond_with(
        &identity("signPlcOperation"),
        400,
        json!({ "error": "InvalidToken", "message": "Token is invalid" }),
    );
    let wrong = step(server, "plc/submit", json!({ "token": "WRONG" }), 400).await;
    assert_eq!(
        (wrong.error(), &wrong.body["message"]),
        ("the account's PDS refused: InvalidToken", &json!("Token is invalid"))
    );
    let signed = json!({ "signed": "operation" });
    pds.respond_with(&identity("signPlcOperation"), 200, json!({ "operation": signed }));
    pds.respond_with(&identity("submitPlcOperation"), 200, json!({}));
    step(server, "plc/submit", json!({ "token": " CODE " }), 204).await;
    let body = |request: &belvedere_standins::upstream::ReceivedRequest| -> Value {
        serde_json::from_slice(&request.body).unwrap()
    };
    let own = format!("http://{}", server.address);
    let asked = body(pds.requests(&identity("signPlcOperation")).last().unwrap());
    assert_eq!(
        asked,
        json!({ "token": "CODE", "verificationMethods": last["verificationMethods"], "services": {
            "atproto_pds": last["services"]["atproto_pds"], "svc": { "type": "Svc", "endpoint": own } } })
    );
    assert_eq!(body(&pds.requests(&identity("submitPlcOperation"))[0]), json!({ "operation": signed }));
    assert_eq!(server.admin(Method::GET, "/admin/service-identity", None).await.body["did"], ALICE);
    step(server, "complete", json!({}), 204).await;

    // Later changes.
    assert_eq!(post(server, SYNC, json!({})).await.status, 400);
    assert_eq!(post(server, &format!("{SYNC}/request"), json!({})).await.status, 204);
    assert_eq!(post(server, &format!("{SYNC}/submit"), json!({ "token": "CODE" })).await.status, 204);
    pds.revoke_all();
    pds.respond_normally(&identity("requestPlcOperationSignature"));
    let ended = post(server, &format!("{SYNC}/request"), json!({})).await;
    assert_eq!(ended.status, 401, "{}", ended.text);
}

async fn accounts_are_found(world: World) {
    let world: World = world;
    let server = &world.server;
    let pds = OauthPds::start().await;
    world.plc.host(ALICE, &pds.url());
    pds.respond_with(
        "/xrpc/com.atproto.repo.getRecord",
        200,
        json!({ "value": { "displayName": "Alice",
            "avatar": { "ref": { "$link": "bafkreia" } } } }),
    );
    let found =
        async |query: &str| server.admin(Method::GET, &format!("/api/setup/resolve?q={query}"), None).await;
    let one = found(ALICE).await;
    assert_eq!(
        (&one.body[0]["did"], &one.body[0]["display_name"], &one.body[0]["handle"]),
        (&json!(ALICE), &json!("Alice"), &Value::Null),
        "{}",
        one.text
    );
    assert!(one.body[0]["avatar"].as_str().unwrap().contains("bafkreia"));
    assert_eq!(found("did:plc:nobodynobodynobodynobody").await.body, json!([]));
    assert_eq!(found("not+a+handle").await.status, 200);
    assert_eq!(found("").await.status, 400);
}
