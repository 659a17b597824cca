//! `/admin/api-clients`

use crate::fixtures::World;
use http::Method;
use serde_json::{Value, json};

use crate::fixtures::{ALICE, BOB, LIST};
use crate::oauth::device::{App, pds};
use crate::support::instance::query_lexicon;

fn client(n: u32) -> Value {
    json!({
        "name": format!("App {n}"),
        "client_id_url": format!("https://app{n}.example/client.json"),
        "client_uri": format!("https://app{n}.example"),
        "redirect_uris": [format!("https://app{n}.example/callback")],
    })
}

crate::in_both_worlds!(
    the_sessions_of_a_deleted_client_are_revoked,
    a_client_is_created_changed_and_deleted,
    clients_are_listed_newest_first_and_are_unique,
    calls_are_counted_by_method_and_the_bucket_is_shown,
    public_clients_have_no_secret,
    bad_fields_are_400,
    scopes_are_separated_by_any_white_space,
    the_metadata_of_the_instance_is_no_clients,
    a_client_of_another_one_is_registered_with_its_parent
);

async fn calls_are_counted_by_method_and_the_bucket_is_shown(world: World) {
    let server = &world.server;
    server.upload(query_lexicon(LIST), None).await;
    server.bind(LIST, "function handle() return 1 end").await;
    let mut body = client(1);
    body["rate_limit_capacity"] = json!(3);
    body["rate_limit_refill_rate"] = json!(0.001);
    let created = server.admin(Method::POST, "/admin/api-clients", Some(&body)).await.body;
    let headers = [("x-client-key", created["client_key"].as_str().unwrap())];
    let path = format!("/admin/api-clients/{}", created["id"].as_str().unwrap());
    let unused = server.admin(Method::GET, &format!("{path}/usage"), None).await.body;
    let bucket = |tokens: u32| json!({ "tokens": tokens, "capacity": 3.0, "refill_rate": 0.001 });
    assert_eq!(
        unused,
        json!({ "last_used_at": null, "bucket": bucket(3), "parent_bucket": null, "hours": 24, "methods": [] })
    );
    for (method, status) in
        [(LIST, 200), (LIST, 200), (LIST, 200), (LIST, 429), ("com.example.invented", 429)]
    {
        let answer = server.request(Method::GET, &format!("/xrpc/{method}"), &headers, None).await;
        assert_eq!(answer.status, status, "{}", answer.text);
    }
    let used = server.admin(Method::GET, &format!("{path}/usage"), None).await.body;
    let methods = json!([
        { "method": LIST, "calls": 3, "rate_limited": 1 },
        { "method": "(unknown)", "calls": 0, "rate_limited": 1 },
    ]);
    assert_eq!((&used["methods"], &used["bucket"]), (&methods, &bucket(0)));
    server
        .eventually("the use is noted", async |server| {
            let one = server.admin(Method::GET, &path, None).await.body;
            assert_eq!((&one["tokens"], &one["rate_limited"]), (&json!(0), &json!(2)), "{one}");
            one["last_used_at"].is_string()
        })
        .await;
    // An inactive client has no bucket, and keeps its counts.
    assert_eq!(server.admin(Method::PUT, &path, Some(&json!({ "is_active": false }))).await.status, 204);
    let inactive = server.admin(Method::GET, &format!("{path}/usage"), None).await.body;
    assert_eq!((&inactive["methods"], &inactive["bucket"]), (&methods, &json!(null)));
    assert_eq!(server.admin(Method::GET, "/admin/api-clients/none/usage", None).await.status, 404);
}

async fn the_sessions_of_a_deleted_client_are_revoked(world: World) {
    let server = &world.server;
    let pds = pds(&world, &[ALICE, BOB]).await;
    let (app, other) = (App::confidential(server, "one").await, App::confidential(server, "two").await);
    let alice = app.device(server, &pds, ALICE, json!({})).await;
    app.device(server, &pds, BOB, json!({})).await;
    let stays = other.device(server, &pds, ALICE, json!({})).await;
    let body = json!({ "name": "child", "clientIdUrl": "https://child.example/client.json",
        "clientUri": "https://child.example", "redirectUris": [] });
    let create = "/xrpc/dev.service.createApiClient";
    let child = alice.request(server, Method::POST, create, Some(&body)).await.body;
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let child = App {
        key: text(&child["client"]["clientKey"]),
        secret: Some(text(&child["clientSecret"])),
        id: text(&child["client"]["id"]),
    };
    child.device(server, &pds, ALICE, json!({ "scopes": "atproto" })).await;

    assert_eq!(
        server.admin(Method::DELETE, &format!("/admin/api-clients/{}", app.id), None).await.status,
        204
    );
    server.eventually("three sessions are revoked", async |_| pds.requests("/oauth/revoke").len() == 3).await;
    let form = |n: usize| String::from_utf8_lossy(&pds.requests("/oauth/revoke")[n].body).into_owned();
    let mut tokens: Vec<String> = (0..3)
        .map(|n| {
            let form: std::collections::HashMap<_, _> =
                url::form_urlencoded::parse(form(n).as_bytes()).into_owned().collect();
            form["token"].clone()
        })
        .collect();
    tokens.sort();
    tokens.dedup();
    assert!(tokens.len() == 3 && tokens.iter().all(|token| token.starts_with("refresh-")), "{tokens:?}");
    assert_eq!(
        stays.request(server, Method::GET, &format!("/oauth/sessions/{ALICE}"), None).await.status,
        200
    );

    // The same when its owner deletes a child client.
    let own = stays.request(server, Method::POST, create, Some(&body)).await.body;
    let child = App {
        key: text(&own["client"]["clientKey"]),
        secret: Some(text(&own["clientSecret"])),
        id: text(&own["client"]["id"]),
    };
    child.device(server, &pds, ALICE, json!({ "scopes": "atproto" })).await;
    let path = "/xrpc/dev.service.deleteApiClient";
    let deleted = stays.request(server, Method::POST, path, Some(&json!({ "id": child.id }))).await;
    assert_eq!(deleted.status, 200, "{}", deleted.text);
    server.eventually("one more is revoked", async |_| pds.requests("/oauth/revoke").len() == 4).await;
}

async fn a_client_is_created_changed_and_deleted(world: World) {
    let server = &world.server;
    let made = server.admin(Method::POST, "/admin/api-clients", Some(&client(1))).await;
    assert_eq!(made.status, 201);
    let key = made.body["client_key"].as_str().unwrap();
    let secret = made.body["client_secret"].as_str().unwrap();
    assert!(key.starts_with("bvc_") && secret.starts_with("bvs_"));
    let call = async || {
        let headers = [("x-client-key", key)];
        server.request(Method::GET, "/xrpc/com.example.unknown", &headers, None).await
    };
    assert_eq!(call().await.status, 404, "the key is known");

    let path = format!("/admin/api-clients/{}", made.body["id"].as_str().unwrap());
    let shown = server.admin(Method::GET, &path, None).await;
    assert_eq!(shown.body["scopes"], "atproto");
    assert_eq!(shown.body["client_type"], "confidential");
    assert_eq!(shown.body["is_active"], true);
    assert_eq!(shown.body["rate_limit_capacity"], Value::Null);
    assert!(!shown.text.contains(secret), "the secret is never shown again");

    let change = json!({ "name": "Renamed", "rate_limit_capacity": 7, "rate_limit_refill_rate": 0.5 });
    assert_eq!(server.admin(Method::PUT, &path, Some(&change)).await.status, 204);
    let shown = server.admin(Method::GET, &path, None).await;
    assert_eq!(shown.body["name"], "Renamed");
    assert_eq!(shown.body["client_uri"], "https://app1.example", "what is not sent stays");
    assert_eq!(
        (&shown.body["rate_limit_capacity"], &shown.body["rate_limit_refill_rate"]),
        (&json!(7), &json!(0.5))
    );
    assert_eq!(call().await.headers["ratelimit-limit"], "7");

    server.admin(Method::PUT, &path, Some(&json!({ "rate_limit_capacity": null }))).await;
    let shown = server.admin(Method::GET, &path, None).await;
    assert_eq!(
        (&shown.body["rate_limit_capacity"], &shown.body["rate_limit_refill_rate"]),
        (&Value::Null, &json!(0.5))
    );

    server.admin(Method::PUT, &path, Some(&json!({ "is_active": false }))).await;
    let refused = call().await;
    assert_eq!((refused.status.as_u16(), refused.error()), (401, "Invalid client"));
    server.admin(Method::PUT, &path, Some(&json!({ "is_active": true }))).await;
    assert_eq!(call().await.status, 404);

    assert_eq!(server.admin(Method::DELETE, &path, None).await.status, 204);
    assert_eq!(call().await.status, 401);
    for method in [Method::GET, Method::DELETE] {
        assert_eq!(server.admin(method, &path, None).await.status, 404);
    }
    assert_eq!(server.admin(Method::PUT, &path, Some(&json!({}))).await.status, 404);
}

async fn clients_are_listed_newest_first_and_are_unique(world: World) {
    let server = &world.server;
    for n in 1..=3 {
        server.admin(Method::POST, "/admin/api-clients", Some(&client(n))).await;
    }
    let again = server.admin(Method::POST, "/admin/api-clients", Some(&client(2))).await;
    assert_eq!((again.status.as_u16(), again.error()), (409, "client_id_url already registered"));
    let list = server.admin(Method::GET, "/admin/api-clients", None).await;
    let names: Vec<&str> =
        list.body.as_array().unwrap().iter().map(|c| c["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["App 3", "App 2", "App 1", "tests"]);
    let children = server.admin(Method::GET, "/admin/api-clients?parent_id=none", None).await;
    assert_eq!(children.body, json!([]));
}

async fn public_clients_have_no_secret(world: World) {
    let mut body = client(1);
    body["client_type"] = json!("public");
    body["allowed_origins"] = json!(["https://app1.example"]);
    let made = world.server.admin(Method::POST, "/admin/api-clients", Some(&body)).await;
    assert_eq!(made.status, 201);
    assert!(made.body.get("client_secret").is_none());
    assert_eq!(made.body["client_type"], "public");
}

async fn bad_fields_are_400(world: World) {
    for (field, value) in [
        ("name", json!("")),
        ("name", json!(null)),
        ("client_id_url", json!("nope")),
        ("client_uri", json!("ftp://app.example")),
        ("redirect_uris", json!("https://app.example")),
        ("redirect_uris", json!(["nope"])),
        ("scopes", json!("transition:generic")),
        ("scopes", json!("atproto repo:not an nsid")),
        ("scopes", json!("atproto rpc:*?aud=*")),
        ("scopes", json!("atproto \"x\"")),
        ("client_type", json!("secret")),
        ("allowed_origins", json!(["https://app.example/path"])),
        ("rate_limit_capacity", json!(0)),
        ("rate_limit_refill_rate", json!(-1)),
    ] {
        let mut body = client(1);
        body[field] = value;
        let answer = world.server.admin(Method::POST, "/admin/api-clients", Some(&body)).await;
        assert_eq!(answer.status, 400, "{field}: {}", answer.text);
    }
    let made = world.server.admin(Method::POST, "/admin/api-clients", Some(&client(1))).await;
    let path = format!("/admin/api-clients/{}", made.body["id"].as_str().unwrap());
    let bad = json!({ "scopes": "atproto blob:nothing" });
    let answer = world.server.admin(Method::PUT, &path, Some(&bad)).await;
    assert!(answer.status == 400 && answer.error().contains("blob:nothing"), "{}", answer.text);
}

async fn scopes_are_separated_by_any_white_space(world: World) {
    let server = &world.server;
    let mut body = client(1);
    body["scopes"] = json!("atproto\trepo:com.example.note\n  blob:*/*");
    body["client_type"] = Value::Null;
    let app = App::with(server, body).await;
    let path = format!("/admin/api-clients/{}", app.id);
    let shown = async || server.admin(Method::GET, &path, None).await.body;
    assert_eq!(shown().await["scopes"], "atproto repo:com.example.note blob:*/*");
    assert_eq!(shown().await["client_type"], "confidential", "null is the default");
    // And those of a session.
    let pds = pds(&world, &[ALICE]).await;
    let device = app.device(server, &pds, ALICE, json!({ "scopes": " atproto\n\tblob:*/*" })).await;
    let session = device.request(server, Method::GET, &format!("/oauth/sessions/{ALICE}"), None).await;
    assert_eq!(session.body["scopes"], json!(["atproto", "blob:*/*"]), "{}", session.text);
    let update = json!({ "scopes": "blob:*/*\r\natproto" });
    assert_eq!(server.admin(Method::PUT, &path, Some(&update)).await.status, 204);
    assert_eq!(shown().await["scopes"], "blob:*/* atproto");
}

async fn the_metadata_of_the_instance_is_no_clients(world: World) {
    let server = &world.server;
    let domain = json!({ "url": "https://second.example" });
    assert_eq!(server.admin(Method::POST, "/admin/domains", Some(&domain)).await.status, 201);
    let own = format!("http://{}", server.address);
    for origin in [&own, "https://second.example", "https://SECOND.example:443"] {
        let mut body = client(1);
        body["client_id_url"] = format!("{origin}/oauth-client-metadata.json").into();
        let answer = server.admin(Method::POST, "/admin/api-clients", Some(&body)).await;
        assert_eq!(
            (answer.status.as_u16(), answer.error()),
            (409, "client_id_url is that of this server itself"),
            "{origin}"
        );
    }
    // The same for the clients of third parties.
    let pds = pds(&world, &[ALICE]).await;
    let device = App::confidential(server, "app").await.device(server, &pds, ALICE, json!({})).await;
    let body = json!({ "name": "child", "clientIdUrl": "https://second.example/oauth-client-metadata.json",
        "clientUri": "https://child.example", "redirectUris": [] });
    let create = "/xrpc/dev.service.createApiClient";
    let answer = device.request(server, Method::POST, create, Some(&body)).await;
    assert_eq!(answer.status, 409, "{}", answer.text);
}

async fn a_client_of_another_one_is_registered_with_its_parent(world: World) {
    let server = &world.server;
    let parent = server.admin(Method::POST, "/admin/api-clients", Some(&client(1))).await.body;
    let child = |key: &Value, owner: &str| {
        let mut body = client(2);
        body["parent"] = json!({ "client_key": key, "owner_did": owner });
        body
    };
    let wrong = [
        (child(&parent["client_key"], "alice"), "parent: owner_did is not a DID"),
        (
            child(&json!("bvc_none"), ALICE),
            "parent: client_key must be that of an application without a parent",
        ),
    ];
    for (body, message) in wrong {
        let answer = server.admin(Method::POST, "/admin/api-clients", Some(&body)).await;
        assert_eq!((answer.status.as_u16(), answer.error()), (400, message));
    }
    let body = child(&parent["client_key"], ALICE);
    let made = server.admin(Method::POST, "/admin/api-clients", Some(&body)).await.body;
    let path = format!("/admin/api-clients?parent_id={}", parent["id"].as_str().unwrap());
    let children = server.admin(Method::GET, &path, None).await.body;
    assert_eq!((children.as_array().unwrap().len(), &children[0]["id"]), (1, &made["id"]), "{children}");
    assert_eq!(children[0]["owner_did"], ALICE);
    let grandchild = child(&made["client_key"], ALICE);
    assert_eq!(server.admin(Method::POST, "/admin/api-clients", Some(&grandchild)).await.status, 400);
}
