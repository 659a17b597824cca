//! Tests of where standard methods go, and what they cost.

use super::*;

crate::in_both_worlds!(
    callers_without_a_session_are_not_forwarded_to_a_pds,
    reads_and_other_methods_follow_the_routing,
    fixed_methods_cost_what_queries_and_procedures_cost,
    the_profile_of_another_actor_is_theirs
);

async fn callers_without_a_session_are_not_forwarded_to_a_pds(world: World) {
    let server = &world.server;
    let pds = pds(&world, &[BOB]).await;
    let alice = world.plc.person(ALICE, Algorithm::Es256k);
    let method = "com.atproto.repo.createRecord";
    let token = alice.token(&server.did(), json!({ "lxm": method }));
    let body = json!({ "repo": ALICE, "collection": NOTES, "record": {} });
    let with_token = server.procedure(method, &token, &body).await;
    assert_eq!(with_token.status, 401, "{}", with_token.text);
    assert!(with_token.error().contains("DPoP"), "{}", with_token.text);
    let headers = [("x-client-key", server.client_key.as_str())];
    let anonymous =
        server.request(Method::POST, &format!("/xrpc/{method}"), &headers, Some(body.to_string())).await;
    assert_eq!((anonymous.status.as_u16(), anonymous.error()), (401, "authentication required"));
    // An ended session is said to have ended.
    let device = App::confidential(server, "one").await.device(server, &pds, BOB, json!({})).await;
    pds.revoke_all();
    let ended =
        post(&world, &device, "repo.createRecord", json!({ "repo": BOB, "collection": NOTES, "record": {} }))
            .await;
    assert_eq!(
        (ended.status.as_u16(), ended.error()),
        (401, "session expired, please re-authenticate"),
        "{}",
        ended.text
    );
}

async fn reads_and_other_methods_follow_the_routing(world: World) {
    let server = &world.server;
    let pds = pds(&world, &[ALICE]).await;
    let elsewhere = authority(&world, |_| respond(200, "application/json", r#"{"from":"authority"}"#)).await;
    let app = App::confidential(server, "one").await;
    let scopes = "atproto rpc:net.example.getThing?aud=*";
    let device = App::with(
        server,
        json!({ "name": "two", "client_id_url": "https://two.example/client.json",
            "client_uri": "https://two.example", "redirect_uris": [], "scopes": scopes }),
    )
    .await
    .device(server, &pds, ALICE, json!({ "scopes": scopes }))
    .await;
    let plain = app.device(server, &pds, ALICE, json!({})).await;
    pds.respond_with("/xrpc/com.atproto.repo.listRecords", 200, json!({ "records": [] }));
    pds.respond_with("/xrpc/net.example.getThing", 200, json!({ "from": "pds" }));
    let get = async |device: &Device, path: &str| {
        device.request(server, Method::GET, &format!("/xrpc/{path}"), None).await
    };
    let listed = get(&plain, "com.atproto.repo.listRecords?repo=x&limit=5").await;
    assert_eq!((listed.status.as_u16(), &listed.body), (200, &json!({ "records": [] })), "{}", listed.text);
    assert_eq!(
        pds.requests("/xrpc/com.atproto.repo")[0].path_and_query,
        "/xrpc/com.atproto.repo.listRecords?repo=x&limit=5"
    );
    assert_eq!(get(&device, "net.example.getThing").await.body["from"], "authority");

    let rules = json!({ "mode": "open", "nsids": [], "routing": "serviceproxy" });
    assert_eq!(server.admin(Method::PUT, "/admin/settings/xrpc-proxy", Some(&rules)).await.status, 204);
    let stored = server.admin(Method::GET, "/admin/settings/xrpc-proxy", None).await;
    assert_eq!(stored.body, rules);
    assert_eq!(get(&device, "net.example.getThing").await.body["from"], "pds");
    let unscoped = get(&plain, "net.example.getThing").await;
    assert_eq!((unscoped.status.as_u16(), unscoped.error()), (403, "ScopeMissingError"));
    assert_eq!(
        server.xrpc("net.example.getThing").await.body["from"],
        "authority",
        "callers without a session"
    );
    let rules = json!({ "mode": "disabled", "nsids": [] });
    assert_eq!(server.admin(Method::PUT, "/admin/settings/xrpc-proxy", Some(&rules)).await.status, 204);
    assert_eq!(get(&device, "net.example.getThing").await.status, 403);
    assert_eq!(
        get(&plain, "com.atproto.repo.listRecords").await.status,
        200,
        "a PDS's own methods need no rule"
    );
    assert_eq!(elsewhere.requests().len(), 2);
}

async fn fixed_methods_cost_what_queries_and_procedures_cost(world: World) {
    let server = &world.server;
    for (key, cost) in [("query", "2"), ("procedure", "3"), ("proxy", "7")] {
        let path = format!("/admin/settings/rate_limit.default_{key}_cost");
        assert!(server.admin(Method::PUT, &path, Some(&json!({ "value": cost }))).await.status.is_success());
    }
    let pds = pds(&world, &[ALICE]).await;
    let app = App::with(
        server,
        json!({ "name": "app", "client_id_url": "https://app.example/client.json",
            "client_uri": "https://app.example", "redirect_uris": [], "scopes": "atproto blob:*/*",
            "rate_limit_capacity": 1000, "rate_limit_refill_rate": 0.001 }),
    )
    .await;
    let device = app.device(server, &pds, ALICE, json!({ "scopes": "atproto blob:*/*" })).await;
    pds.respond_with("/xrpc/com.atproto.repo.getRecord", 404, json!({}));
    let remaining =
        |answer: &Answer| answer.headers["ratelimit-remaining"].to_str().unwrap().parse::<u32>().unwrap();
    let mut left = 1000;
    for (method, path, cost) in [
        (Method::GET, "app.bsky.actor.getProfile", 2),
        (Method::GET, "dev.service.listApiClients", 2),
        (Method::POST, "dev.service.deleteApiClient", 3),
        (Method::POST, "com.atproto.repo.uploadBlob", 3),
        (Method::GET, "com.atproto.repo.getRecord", 7),
    ] {
        let body = json!({});
        let body = (method == Method::POST).then_some(&body);
        let answer = device.request(server, method, &format!("/xrpc/{path}"), body).await;
        left -= cost;
        assert_eq!(remaining(&answer), left, "{path} {}", answer.text);
    }
    // A call of the management methods without a proof is charged before it is rejected.
    let headers = [("x-client-key", app.key.as_str()), ("x-client-secret", app.secret.as_deref().unwrap())];
    let rejected = server
        .request(Method::POST, "/xrpc/dev.service.createApiClient", &headers, Some("{}".to_owned()))
        .await;
    assert_eq!((rejected.status.as_u16(), rejected.error()), (401, "requires DPoP authentication"));
    assert_eq!(remaining(&rejected), left - 3);
}

async fn the_profile_of_another_actor_is_theirs(world: World) {
    let server = &world.server;
    let (pds, other) = (pds(&world, &[ALICE]).await, pds(&world, &[BOB]).await);
    other.respond_with("/xrpc/com.atproto.repo.getRecord", 200, json!({ "value": { "displayName": "Bob" } }));
    pds.respond_with("/xrpc/com.atproto.repo.getRecord", 200, json!({ "value": { "displayName": "Alice" } }));
    let device = App::confidential(server, "one").await.device(server, &pds, ALICE, json!({})).await;
    let get = async |actor: &str| {
        device.request(server, Method::GET, &format!("/xrpc/app.bsky.actor.getProfile{actor}"), None).await
    };
    let bob = get(&format!("?actor={BOB}")).await;
    assert_eq!(bob.body, json!({ "did": BOB, "handle": BOB, "displayName": "Bob" }), "{}", bob.text);
    assert_eq!(get(&format!("?actor={ALICE}")).await.body["displayName"], "Alice");
    assert_eq!(get("").await.body["displayName"], "Alice");
    for (actor, status) in
        [("nonsense", 400), ("", 400), ("did:plc:nobodynobodynobodynobody", 404), ("nobody.invalid", 404)]
    {
        let answer = get(&format!("?actor={actor}")).await;
        assert_eq!(answer.status, status, "{actor} {}", answer.text);
    }
    // A script that calls it gets the same, and pays for a query.
    server.upload(query_lexicon("com.example.who"), None).await;
    server
        .bind(
            "com.example.who",
            &format!(
                "function handle()
            local answer = xrpc.query('app.bsky.actor.getProfile', {{ actor = '{BOB}' }})
            return {{ status = answer.status, profile = json.decode(answer.body) }} end"
            ),
        )
        .await;
    let nested = device.request(server, Method::GET, "/xrpc/com.example.who", None).await;
    assert_eq!(nested.body["profile"]["displayName"], "Bob", "{}", nested.text);
}
