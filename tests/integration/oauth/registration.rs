//! `POST /oauth/sessions`

use crate::fixtures::World;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use belvedere_protocol::crypto::sha256;
use serde_json::{Value, json};

use super::device::{App, SCOPES, pds};
use crate::fixtures::{ALICE, BOB};
use crate::support::oauth_pds::OauthPds;

const PATH: &str = "/oauth/sessions";

/// A forged response of a PDS.
type Mischief = Box<dyn Fn(&OauthPds)>;

crate::in_both_worlds!(
    invalid_registrations_are_refused_with_the_reason,
    a_permission_set_grants_its_permissions,
    a_public_client_must_send_its_pkce_verifier,
    an_unused_key_expires,
    inconsistent_metadata_is_refused,
    the_nonce_of_the_pds_is_used
);

async fn invalid_registrations_are_refused_with_the_reason(world: World) {
    let server = &world.server;
    let pds = pds(&world, &[ALICE, BOB]).await;
    let (app, other) = (App::confidential(server, "one").await, App::confidential(server, "two").await);
    let (provision_id, _) = app.provision(server, &[], &json!({})).await;
    let (foreign, _) = other.provision(server, &[], &json!({})).await;
    let (token, refresh) = pds.grant(ALICE);
    let good = json!({ "provision_id": provision_id, "did": ALICE, "access_token": token,
        "refresh_token": refresh, "scopes": SCOPES });
    let bobs = pds.grant(BOB).0;
    let with = |change: Value| {
        let mut body = good.clone();
        body.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        body
    };
    for (change, status, error) in [
        (json!({ "provision_id": "bvp_unknown" }), 404, "DPoP key not found"),
        (json!({ "provision_id": foreign }), 401, "provision_id does not belong to this client"),
        (json!({ "provision_id": 7 }), 400, "invalid request body: "),
        (json!({ "did": "alice" }), 400, "did is not a DID"),
        (json!({ "expires_at": "soon" }), 400, "expires_at is not"),
        (json!({ "scopes": "repo:com.example.note" }), 400, "token must include the 'atproto' scope"),
        (
            json!({ "scopes": "atproto transition:generic" }),
            400,
            "scope 'transition:generic' is not allowed for this client",
        ),
        (
            json!({ "scopes": "atproto repo:com.example.note" }),
            400,
            "scope 'repo:com.example.note' is not allowed",
        ),
        (json!({ "scopes": "atproto repo:" }), 400, "the scope repo: is not valid"),
        (json!({ "did": "did:plc:nobodynobodynobodynobody" }), 400, "the DID could not be resolved"),
        (json!({ "access_token": bobs }), 401, "access token does not belong to the claimed DID"),
        (json!({ "access_token": "made up" }), 401, "access token verification failed (401)"),
        (json!({ "pds_url": "https://pds.evil.example" }), 400, "pds_url is not the account's PDS"),
        (
            json!({ "issuer": "https://evil.example" }),
            400,
            "issuer is not the account's authorization server",
        ),
    ] {
        let answer = app.post(server, PATH, &[], &with(change.clone())).await;
        assert_eq!(answer.status, status, "{change} {}", answer.text);
        assert!(answer.error().starts_with(error), "{change} {}", answer.text);
    }
    // Correct `pds_url` and `issuer`, and fewer scopes than allowed.
    let right = with(json!({ "pds_url": format!("{}/", pds.url()), "issuer": pds.url(),
        "scopes": "atproto repo:com.example.note?action=create" }));
    let answer = app.post(server, PATH, &[], &right).await;
    assert_eq!(answer.status, 201, "{}", answer.text);
    let id = answer.body["session_id"].clone();
    // The key now belongs to this account. Registering it again keeps the session.
    let bob = with(json!({ "did": BOB, "access_token": bobs }));
    let answer = app.post(server, PATH, &[], &bob).await;
    assert_eq!((answer.status.as_u16(), answer.error()), (401, "provision_id is in use for another account"));
    let answer = app.post(server, PATH, &[], &good).await;
    assert_eq!((answer.status.as_u16(), &answer.body["session_id"]), (201, &id), "{}", answer.text);
    assert_eq!(answer.body["scopes"], json!(SCOPES.split(' ').collect::<Vec<_>>()));
}

async fn a_permission_set_grants_its_permissions(world: World) {
    let server = &world.server;
    let pds = pds(&world, &[ALICE]).await;
    let app = App::confidential(server, "one").await;
    let set = |collection: &str| {
        json!({ "lexicon": 1, "id": "com.example.basic", "defs": { "main": { "type": "permission-set",
            "permissions": [{ "type": "permission", "resource": "repo", "collection": [collection], "action": ["create"] }] } } })
    };
    let ask = async || {
        let (provision_id, _) = app.provision(server, &[], &json!({})).await;
        let body = json!({ "provision_id": provision_id, "did": ALICE, "access_token": pds.grant(ALICE).0,
            "scopes": "atproto include:com.example.basic" });
        app.post(server, PATH, &[], &body).await
    };
    assert_eq!(ask().await.error(), "scope 'include:com.example.basic' is not allowed for this client");
    server.upload(set("com.example.note"), None).await;
    assert_eq!(ask().await.status, 201);
    server.upload(set("com.example.other"), None).await;
    assert_eq!(ask().await.status, 400);
}

async fn a_public_client_must_send_its_pkce_verifier(world: World) {
    let server = &world.server;
    let pds = pds(&world, &[ALICE]).await;
    let app = App::public(server, "page").await;
    let origin = [("origin", "https://page.example")];
    let challenge = URL_SAFE_NO_PAD.encode(sha256(b"the verifier"));
    let (provision_id, _) = app.provision(server, &origin, &json!({ "pkce_challenge": challenge })).await;
    let (token, _) = pds.grant(ALICE);
    for (verifier, status, error) in [
        (json!(null), 400, "public clients must provide pkce_verifier"),
        (json!("another"), 401, "PKCE verification failed"),
        (json!(challenge), 401, "PKCE verification failed"),
        (json!("the verifier"), 201, ""),
    ] {
        let body = json!({ "provision_id": provision_id, "did": ALICE, "access_token": token,
            "scopes": SCOPES, "pkce_verifier": verifier });
        let answer = app.post(server, PATH, &origin, &body).await;
        assert_eq!((answer.status.as_u16(), answer.error()), (status, error), "{verifier}");
    }
    let events = server.admin(http::Method::GET, "/admin/events?event_type=dpop_session.created", None).await;
    // Without a refresh token the session can't be renewed.
    assert_eq!(events.body["events"][0]["severity"], "warn", "{}", events.text);
}

async fn an_unused_key_expires(world: World) {
    let server = &world.server;
    let pds = pds(&world, &[ALICE]).await;
    let app = App::confidential(server, "late").await;
    let (provision_id, _) = app.provision(server, &[], &json!({})).await;
    world.execute("UPDATE dpop_keys SET created_at = 0").await;
    let body = json!({ "provision_id": provision_id, "did": ALICE, "access_token": pds.grant(ALICE).0,
        "scopes": SCOPES });
    let answer = app.post(server, PATH, &[], &body).await;
    assert_eq!(answer.status, 404, "{}", answer.text);
    assert!(answer.error().starts_with("DPoP key has expired"), "{}", answer.text);
}

async fn inconsistent_metadata_is_refused(world: World) {
    let server = &world.server;
    let app = App::confidential(server, "one").await;
    let resource = "/.well-known/oauth-protected-resource";
    let metadata = "/.well-known/oauth-authorization-server";
    let endless = "x".repeat(2 << 20);
    let cases: Vec<(Mischief, &str)> = vec![
        (
            Box::new(|pds| {
                pds.respond_with(
                    resource,
                    200,
                    json!({ "resource": "https://other.example",
                        "authorization_servers": [pds.url()] }),
                );
            }),
            "its resource is another server",
        ),
        (
            Box::new(|pds| {
                pds.respond_with(
                    resource,
                    200,
                    json!({ "resource": pds.url(),
                        "authorization_servers": [] }),
                );
            }),
            "does not name one authorization server",
        ),
        (
            Box::new(|pds| {
                pds.respond_with(
                    resource,
                    200,
                    json!({ "resource": pds.url(),
                        "authorization_servers": ["http://10.0.0.1"] }),
                );
            }),
            "refused to connect",
        ),
        (
            Box::new(|pds| {
                pds.respond_with(
                    resource,
                    200,
                    json!({ "resource": pds.url(),
                        "authorization_servers": ["http://169.254.169.254"] }),
                );
            }),
            "refused to connect",
        ),
        (
            Box::new(|pds| {
                pds.respond_with(
                    resource,
                    200,
                    json!({ "resource": pds.url(),
                        "authorization_servers": [format!("{}/path", pds.url())] }),
                );
            }),
            "its issuer is not an origin",
        ),
        (Box::new(move |pds| pds.respond_with(resource, 200, json!(endless))), "larger than"),
        (Box::new(|pds| pds.respond_with(resource, 200, json!("text"))), "unexpected response"),
        (Box::new(|pds| pds.respond_with(resource, 404, json!({}))), "404"),
        (Box::new(|pds| pds.redirect(resource, "https://evil.example/")), "302"),
        (
            Box::new(|pds| {
                pds.respond_with(
                    metadata,
                    200,
                    json!({ "issuer": "https://evil.example",
                        "authorization_endpoint": pds.url(), "token_endpoint": pds.url(),
                        "pushed_authorization_request_endpoint": pds.url() }),
                );
            }),
            "its issuer is another server",
        ),
        (
            Box::new(|pds| {
                pds.respond_with(
                    metadata,
                    200,
                    json!({ "issuer": pds.url(),
                        "authorization_endpoint": pds.url(), "token_endpoint": "file:///etc/passwd",
                        "pushed_authorization_request_endpoint": pds.url() }),
                );
            }),
            "an endpoint is not an https URL",
        ),
        (
            Box::new(|pds| pds.respond_with("/xrpc/com.atproto.server.getSession", 200, json!({}))),
            "access token verification failed",
        ),
    ];
    for (n, (mischief, expected)) in cases.into_iter().enumerate() {
        let did = format!("did:plc:mischief{n:016}");
        let pds = pds(&world, &[&did]).await;
        mischief(&pds);
        let (provision_id, _) = app.provision(server, &[], &json!({})).await;
        let body = json!({ "provision_id": provision_id, "did": did, "access_token": pds.grant(&did).0,
            "scopes": SCOPES });
        let answer = app.post(server, PATH, &[], &body).await;
        assert!([400, 401, 502].contains(&answer.status.as_u16()), "{n} {}", answer.text);
        assert!(answer.error().contains(expected), "{n} {expected}: {}", answer.text);
    }
}

async fn the_nonce_of_the_pds_is_used(world: World) {
    let server = &world.server;
    let pds = pds(&world, &[ALICE]).await;
    pds.demand_nonce("first");
    let app = App::confidential(server, "one").await;
    app.device(server, &pds, ALICE, json!({})).await;
    // The first request is sent without and then with the nonce, the next one with the nonce at once.
    assert_eq!(pds.requests("/xrpc/com.atproto.server.getSession").len(), 2);
    app.device(server, &pds, ALICE, json!({})).await;
    assert_eq!(pds.requests("/xrpc/com.atproto.server.getSession").len(), 3);
}
