//! Tests of clients that a user registers for an app.

use super::*;

crate::in_both_worlds!(a_child_loses_the_scopes_that_its_parent_loses, a_user_registers_child_clients);

async fn a_child_loses_the_scopes_that_its_parent_loses(world: World) {
    let world = world.with_notes().await;
    let server = &world.server;
    let pds = pds(&world, &[ALICE]).await;
    let parent = App::confidential(server, "parent").await;
    let of_parent = parent.device(server, &pds, ALICE, json!({})).await;
    let mut body = child("one");
    body["scopes"] = SCOPES.into();
    let made = post(server, &of_parent, "createApiClient", body).await;
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let own = App {
        key: text(&made.body["client"]["clientKey"]),
        secret: Some(text(&made.body["clientSecret"])),
        id: text(&made.body["client"]["id"]),
    };
    let device = own.device(server, &pds, ALICE, json!({})).await;
    for nsid in ["com.example.put", "com.example.script"] {
        server.upload(procedure_lexicon(nsid), Some(NOTES)).await;
    }
    server
        .bind_to(
            "xrpc.procedure:com.example.script",
            "function handle() local r = Record(collection, { text = 'x' }) \
        r:save() r.text = 'y' local ok, e = pcall(function() r:save() end) return { ok = ok } end",
        )
        .await;
    let uri = format!("at://{ALICE}/{NOTES}/k");
    let call = async |device: &Device, path: &str, body: Value| {
        let answer = device.request(server, Method::POST, &format!("/xrpc/{path}"), Some(&body)).await;
        (answer.status.as_u16(), answer.body)
    };
    let scopes = async |text: &str| {
        let change = json!({ "scopes": text });
        let changed =
            server.admin(Method::PUT, &format!("/admin/api-clients/{}", parent.id), Some(&change)).await;
        assert_eq!(changed.status, 204, "{}", changed.text);
    };
    let shown = async || {
        let one = device.request(server, Method::GET, &format!("/oauth/sessions/{ALICE}"), None).await;
        let all =
            device.request(server, Method::GET, &format!("/oauth/sessions/{ALICE}/devices"), None).await;
        assert_eq!(one.body["scopes"], all.body[0]["scopes"]);
        one.body["scopes"].clone()
    };
    let put = json!({ "text": "a", "uri": uri });
    assert_eq!(call(&device, "com.example.put", put.clone()).await.0, 200);
    assert_eq!(call(&device, "com.atproto.repo.uploadBlob", json!({})).await.0, 200);
    assert_eq!(call(&device, "com.example.script", json!({})).await.1["ok"], true);
    assert_eq!(shown().await, json!(SCOPES.split(' ').collect::<Vec<_>>()));

    scopes("atproto repo:com.example.note?action=create repo:com.example.other").await;
    let before = pds.requests("/xrpc/com.atproto.repo").len();
    for device in [&device, &of_parent] {
        let (status, body) = call(device, "com.example.put", put.clone()).await;
        let missing = format!("Missing required scope \"repo:{NOTES}?action=update\"");
        assert_eq!((status, body), (403, json!({ "error": "ScopeMissingError", "message": missing })));
        assert_eq!(call(device, "com.atproto.repo.uploadBlob", json!({})).await.0, 403);
    }
    assert_eq!(pds.requests("/xrpc/com.atproto.repo").len(), before, "nothing reached the PDS");
    assert_eq!(
        call(&device, "com.example.put", json!({ "text": "a" })).await.0,
        200,
        "the remaining scopes work"
    );
    assert_eq!(call(&device, "com.example.script", json!({})).await.1["ok"], false);
    assert_eq!(shown().await, json!(["atproto", "repo:com.example.note?action=create"]));
    // A new session does not get scopes that the parent lacks either.
    let (provision_id, _) = own.provision(server, &[], &json!({})).await;
    let (token, _) = pds.grant(ALICE);
    let body = json!({ "provision_id": provision_id, "did": ALICE, "access_token": token, "scopes": SCOPES });
    let refused = own.post(server, "/oauth/sessions", &[], &body).await;
    assert_eq!(
        (refused.status.as_u16(), refused.error()),
        (400, "scope 'repo:com.example.note?action=create&action=update' is not allowed for this client")
    );

    scopes("atproto transition:generic").await;
    assert_eq!(call(&device, "com.example.put", put).await.0, 200, "what comes back works again");
}

async fn a_user_registers_child_clients(world: World) {
    let server = &world.server;
    let pds = pds(&world, &[ALICE, BOB]).await;
    let app = App::confidential(server, "parent").await;
    let alice = app.device(server, &pds, ALICE, json!({})).await;
    let bob = app.device(server, &pds, BOB, json!({})).await;
    let none = get(server, &alice, "listApiClients").await;
    assert_eq!(none.body, json!({ "clients": [] }));
    assert!(none.headers.contains_key("ratelimit-remaining"));

    let made = post(server, &alice, "createApiClient", child("one")).await;
    assert_eq!(made.status, 201, "{}", made.text);
    let (client, secret) = (&made.body["client"], made.body["clientSecret"].as_str().unwrap());
    let id = client["id"].as_str().unwrap();
    assert!(client["clientKey"].as_str().unwrap().starts_with("bvc_") && secret.starts_with("bvs_"));
    assert_eq!(
        (&client["clientType"], &client["scopes"], &client["isActive"], &client["allowedOrigins"]),
        (&json!("confidential"), &json!("atproto"), &json!(true), &json!([]))
    );
    assert_eq!(get(server, &alice, &format!("getApiClient?id={id}")).await.body, json!({ "client": client }));
    assert_eq!(get(server, &alice, "listApiClients").await.body, json!({ "clients": [client] }));
    let listed = server.admin(Method::GET, &format!("/admin/api-clients?parent_id={}", app.id), None).await;
    assert_eq!((&listed.body[0]["id"], &listed.body[0]["owner_did"]), (&json!(id), &json!(ALICE)));

    // Another user does not see it.
    for device in [&bob] {
        assert_eq!(get(server, device, "listApiClients").await.body, json!({ "clients": [] }));
        let one = get(server, device, &format!("getApiClient?id={id}")).await;
        assert_eq!((one.status.as_u16(), one.error()), (404, "API client not found"));
        assert_eq!(
            post(server, device, "deleteApiClient", json!({ "id": id })).await.error(),
            "API client not found"
        );
    }
    // Invalid child clients are refused.
    let with = |change: Value| {
        let mut body = child("two");
        body.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        body
    };
    for (body, status, error) in [
        (child("one"), 409, "client_id_url already registered"),
        (with(json!({ "clientType": "robot" })), 400, "Invalid client_type"),
        (with(json!({ "redirectUris": null })), 400, "invalid request body"),
        (json!([]), 400, "invalid request body"),
        (
            with(json!({ "scopes": "atproto transition:generic" })),
            400,
            "scope 'transition:generic' is not allowed for the parent client",
        ),
        (with(json!({ "scopes": "blob:*/*" })), 400, "scopes must include atproto"),
        (with(json!({ "clientUri": "nowhere" })), 400, "client_uri must be"),
        (with(json!({ "allowedOrigins": ["https://a.example/path"] })), 400, "allowed_origins"),
    ] {
        let answer = post(server, &alice, "createApiClient", body.clone()).await;
        assert_eq!(answer.status, status, "{body} {}", answer.text);
        assert!(answer.error().starts_with(error), "{body} {}", answer.text);
    }
    let public =
        with(json!({ "clientType": "public", "allowedOrigins": ["https://two.example"], "scopes": SCOPES }));
    let public = post(server, &alice, "createApiClient", public).await;
    assert_eq!((public.status.as_u16(), public.body.get("clientSecret")), (201, None), "{}", public.text);

    // A child works but can't manage clients. It is inactive while its parent is.
    let own = App {
        key: client["clientKey"].as_str().unwrap().to_owned(),
        secret: Some(secret.to_owned()),
        id: id.to_owned(),
    };
    let device = own.device(server, &pds, ALICE, json!({ "scopes": "atproto" })).await;
    for (method, status) in [("listApiClients", 401), ("getApiClient?id=x", 401)] {
        let answer = get(server, &device, method).await;
        assert_eq!(
            (answer.status.as_u16(), answer.error()),
            (status, "child clients cannot manage API clients")
        );
    }
    assert_eq!(
        post(server, &device, "deleteApiClient", json!({ "id": id })).await.error(),
        "child clients cannot manage API clients"
    );
    let refused = post(server, &device, "createApiClient", child("three")).await;
    assert_eq!((refused.status.as_u16(), refused.error()), (403, "Child clients cannot create API clients"));

    let deleted = post(server, &alice, "deleteApiClient", json!({ "id": id })).await;
    assert_eq!((deleted.status.as_u16(), deleted.body), (200, json!({})));
    assert_eq!(get(server, &device, "listApiClients").await.error(), "Invalid client");
    let events = server.admin(Method::GET, "/admin/events?event_type=api_client.created", None).await;
    assert_eq!(events.body["events"][0]["detail"]["parent_client_id"], app.id.as_str(), "{}", events.text);
}
