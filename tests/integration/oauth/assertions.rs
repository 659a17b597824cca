//! API clients that authenticate to authorization servers with a key that this server keeps (private_key_jwt).

use crate::fixtures::World;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use belvedere_protocol::crypto::{HighS, jwk, jws, sha256};
use http::Method;
use serde_json::{Value, json};

use super::device::{App, SCOPES, pds};
use crate::fixtures::{ALICE, NOTES};
use crate::support::instance::procedure_lexicon;

const PATH: &str = "/oauth/client-assertion";
const ISSUER: &str = "https://as.example";

crate::in_both_worlds!(
    an_assertion_is_signed_by_the_published_key,
    a_public_client_gets_assertions_for_its_key,
    a_deleted_client_still_authenticates_to_revoke_its_sessions,
    a_session_is_refreshed_with_the_key_of_its_registration
);

async fn an_assertion_is_signed_by_the_published_key(world: World) {
    let server = &world.server;
    let app = App::confidential(server, "one").await;
    let none = app.post(server, PATH, &[], &json!({ "issuer": ISSUER })).await;
    assert_eq!((none.status.as_u16(), none.error()), (400, "the client has no key"));
    let path = format!("/admin/api-clients/{}/auth-key", app.id);
    let made = server.admin(Method::POST, &path, None).await;
    assert_eq!(made.status, 201, "{}", made.text);
    let again = server.admin(Method::POST, &path, None).await;
    assert_eq!((again.status.as_u16(), &again.body["kid"]), (200, &made.body["kid"]));
    let uri = format!("http://{}", server.address);
    let jwks = format!("/oauth/clients/{}/jwks.json", app.id);
    assert_eq!(made.body["jwks_uri"], format!("{uri}{jwks}"));
    let public = server.request(Method::GET, &jwks, &[], None).await.body;
    assert!(!public.to_string().contains("\"d\""), "{public}");

    let minted = app.post(server, PATH, &[], &json!({ "issuer": ISSUER })).await;
    assert_eq!((minted.status.as_u16(), &minted.body["expires_in"]), (200, &json!(60)), "{}", minted.text);
    let token = minted.body["client_assertion"].as_str().unwrap();
    let read = jws::parse(token).unwrap();
    read.verify(&jwk::public_key(&public["keys"][0]).unwrap(), HighS::Refuse).unwrap();
    let claims: Value = read.claims().unwrap();
    let id = "https://one.example/client.json";
    assert_eq!((&claims["iss"], &claims["sub"], &claims["aud"]), (&json!(id), &json!(id), &json!(ISSUER)));
    assert_eq!(read.header.kid.as_deref(), public["keys"][0]["kid"].as_str());

    for (body, status, error) in [
        (json!({}), 400, "invalid request body"),
        (json!({ "issuer": "https://as.example/path" }), 400, "issuer must be an origin"),
        (json!({ "issuer": ISSUER, "kid": "unknown" }), 400, "the client has no key with this kid"),
        (
            json!({ "issuer": ISSUER, "provision_id": "x" }),
            400,
            "provision_id and pkce_verifier must be sent together",
        ),
    ] {
        let answer = app.post(server, PATH, &[], &body).await;
        assert_eq!(answer.status, status, "{body} {}", answer.text);
        assert!(answer.error().starts_with(error), "{body} {}", answer.text);
    }
    let nobody = server
        .request(
            Method::POST,
            PATH,
            &[("x-client-key", &app.key)],
            Some("{\"issuer\":\"https://as.example\"}".to_owned()),
        )
        .await;
    assert_eq!(nobody.error(), "invalid client credentials");
    let unknown = server.request(Method::GET, "/oauth/clients/unknown/jwks.json", &[], None).await;
    assert_eq!((unknown.status.as_u16(), unknown.body), (200, json!({ "keys": [] })));
}

async fn a_public_client_gets_assertions_for_its_key(world: World) {
    let server = &world.server;
    let app = App::public(server, "page").await;
    server.admin(Method::POST, &format!("/admin/api-clients/{}/auth-key", app.id), None).await;
    let origin = [("origin", "https://page.example")];
    let challenge = URL_SAFE_NO_PAD.encode(sha256(b"verifier"));
    let (provision_id, _) = app.provision(server, &origin, &json!({ "pkce_challenge": challenge })).await;
    for (more, status) in [
        (json!({}), 401),
        (json!({ "provision_id": provision_id, "pkce_verifier": "other" }), 401),
        (json!({ "provision_id": "bvp_x", "pkce_verifier": "verifier" }), 404),
        (json!({ "provision_id": provision_id, "pkce_verifier": "verifier" }), 200),
    ] {
        let mut body = json!({ "issuer": ISSUER });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let answer = app.post(server, PATH, &origin, &body).await;
        assert_eq!(answer.status, status, "{body} {}", answer.text);
    }
    assert_eq!(
        app.post(server, PATH, &[], &json!({ "issuer": ISSUER })).await.error(),
        "Origin header required for public clients"
    );
}

async fn a_deleted_client_still_authenticates_to_revoke_its_sessions(world: World) {
    let server = &world.server;
    let pds = pds(&world, &[ALICE]).await;
    // The test decides when the revocation endpoint responds.
    let revocation = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let origin = pds.url();
    pds.respond_with(
        "/.well-known/oauth-authorization-server",
        200,
        json!({
            "issuer": origin, "authorization_endpoint": format!("{origin}/oauth/authorize"),
            "token_endpoint": format!("{origin}/oauth/token"),
            "pushed_authorization_request_endpoint": format!("{origin}/oauth/par"),
            "revocation_endpoint": format!("http://{}/", revocation.local_addr().unwrap()) }),
    );
    let app = App::with(
        server,
        json!({ "name": "one", "client_id_url": format!("{origin}/client.json"),
            "client_uri": "https://one.example", "redirect_uris": [], "scopes": SCOPES }),
    )
    .await;
    let path = format!("/admin/api-clients/{}/auth-key", app.id);
    let made = server.admin(Method::POST, &path, None).await;
    pds.respond_with(
        "/client.json",
        200,
        json!({ "token_endpoint_auth_method": "private_key_jwt", "jwks_uri": made.body["jwks_uri"] }),
    );
    assert_eq!(server.admin(Method::POST, &format!("{path}/recheck"), None).await.body["confidential"], true);
    app.device(server, &pds, ALICE, json!({})).await;
    let keys = format!("/oauth/clients/{}/jwks.json", app.id);
    let published = async || server.request(Method::GET, &keys, &[], None).await.body["keys"].clone();

    assert_eq!(
        server.admin(Method::DELETE, &format!("/admin/api-clients/{}", app.id), None).await.status,
        204
    );
    let (mut connection, _) = revocation.accept().await.unwrap();
    let mut request = String::new();
    while !request.contains("client_assertion=") {
        let mut part = [0; 4096];
        let read = tokio::io::AsyncReadExt::read(&mut connection, &mut part).await.unwrap();
        assert!(read > 0, "{request}");
        request.push_str(&String::from_utf8_lossy(&part[..read]));
    }
    assert_eq!(published().await[0]["kid"], made.body["kid"], "the server can check the assertion");
    tokio::io::AsyncWriteExt::write_all(&mut connection, b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
        .await
        .unwrap();
    server.eventually("the key is gone", async |_| published().await == json!([])).await;
}

async fn a_session_is_refreshed_with_the_key_of_its_registration(world: World) {
    let world = world.with_notes().await;
    let server = &world.server;
    server.upload(procedure_lexicon("com.example.put"), Some(NOTES)).await;
    let pds = pds(&world, &[ALICE]).await;
    let id_url = format!("{}/client.json", pds.url());
    let app = App::with(
        server,
        json!({ "name": "one", "client_id_url": id_url, "client_uri": "https://one.example",
            "redirect_uris": [], "scopes": SCOPES }),
    )
    .await;
    let path = format!("/admin/api-clients/{}/auth-key", app.id);
    let made = server.admin(Method::POST, &path, None).await;
    assert_eq!(made.body["confidential"], json!(null), "its metadata is not there yet: {}", made.text);
    pds.respond_with(
        "/client.json",
        200,
        json!({ "token_endpoint_auth_method": "private_key_jwt", "jwks_uri": made.body["jwks_uri"] }),
    );
    let checked = server.admin(Method::POST, &format!("{path}/recheck"), None).await;
    assert_eq!(checked.body["confidential"], true, "{}", checked.text);
    let device = app.device(server, &pds, ALICE, json!({})).await;
    let rotated = server.admin(Method::POST, &format!("{path}/rotate"), None).await;
    assert_ne!(rotated.body["kid"], made.body["kid"]);
    let keys = server.admin(Method::GET, &format!("{path}s"), None).await;
    let listed: Vec<_> = keys.body["keys"]
        .as_array()
        .unwrap()
        .iter()
        .map(|key| (key["kid"].clone(), key["status"].clone(), key["session_count"].clone()))
        .collect();
    assert_eq!(
        listed,
        [
            (rotated.body["kid"].clone(), json!("current"), json!(0)),
            (made.body["kid"].clone(), json!("retiring"), json!(1))
        ]
    );

    pds.expire_all();
    let put = async || {
        device.request(server, Method::POST, "/xrpc/com.example.put", Some(&json!({ "text": "a" }))).await
    };
    assert_eq!(put().await.status, 200);
    let form: std::collections::HashMap<_, _> =
        url::form_urlencoded::parse(&pds.requests("/oauth/token")[0].body).into_owned().collect();
    let assertion = jws::parse(&form["client_assertion"]).unwrap();
    assert_eq!(assertion.header.kid.as_deref(), made.body["kid"].as_str());
    // A device gets an assertion with its session's key without naming the key.
    let minted = device.request(server, Method::POST, PATH, Some(&json!({ "issuer": pds.url() }))).await;
    assert_eq!(minted.body["kid"], made.body["kid"], "{}", minted.text);
    // Deleting a key, which may have leaked, ends the sessions that use it.
    let gone =
        server.admin(Method::DELETE, &format!("{path}/{}", made.body["kid"].as_str().unwrap()), None).await;
    assert_eq!(gone.body, json!({ "revoked": 1, "sessions_destroyed": 1 }), "{}", gone.text);
    assert_eq!(put().await.status, 401);
    server.eventually("it is revoked", async |_| pds.requests("/oauth/revoke").len() == 1).await;
    let form: std::collections::HashMap<_, _> =
        url::form_urlencoded::parse(&pds.requests("/oauth/revoke")[0].body).into_owned().collect();
    assert!(form["token"].starts_with("refresh-"), "{form:?}");
    let assertion = jws::parse(&form["client_assertion"]).unwrap();
    assert_eq!(
        assertion.header.kid.as_deref(),
        made.body["kid"].as_str(),
        "authorization servers accept no other key"
    );
    server
        .eventually("the key is no longer published", async |server| {
            let keys = server
                .request(Method::GET, &format!("/oauth/clients/{}/jwks.json", app.id), &[], None)
                .await
                .body;
            keys["keys"]
                .as_array()
                .is_some_and(|keys| keys.len() == 1 && keys[0]["kid"] == rotated.body["kid"])
        })
        .await;
    let all = server.admin(Method::DELETE, &format!("{path}s"), None).await;
    assert_eq!(all.body, json!({ "revoked": 1, "sessions_destroyed": 0 }));
    assert_eq!(server.admin(Method::GET, &path, None).await.status, 404);
}
