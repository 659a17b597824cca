//! `POST /oauth/dpop-keys`

use crate::fixtures::World;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use belvedere_protocol::crypto::{jwk, sha256};
use http::Method;
use serde_json::json;

use super::device::App;

const PATH: &str = "/oauth/dpop-keys";

crate::in_both_worlds!(a_client_gets_a_new_key, a_client_must_authenticate, key_creation_is_rate_limited);

async fn a_client_gets_a_new_key(world: World) {
    let server = &world.server;
    let app = App::confidential(server, "keys").await;
    let answer = app.post(server, PATH, &[], &json!({})).await;
    assert_eq!(answer.status, 201, "{}", answer.text);
    let key = &answer.body["dpop_key"];
    assert_eq!((&key["kty"], &key["crv"]), (&json!("EC"), &json!("P-256")));
    assert!(answer.body["provision_id"].as_str().unwrap().starts_with("bvp_"));
    let mut public = key.clone();
    public.as_object_mut().unwrap().remove("d");
    let thumbprint = jwk::thumbprint(&jwk::public_key(&public).unwrap()).unwrap();
    let again = app.post(server, PATH, &[], &json!({})).await;
    assert_ne!(again.body["dpop_key"]["d"], key["d"]);
    let events = server.admin(Method::GET, "/admin/events?event_type=dpop_key.provisioned", None).await;
    assert_eq!(events.body["events"][1]["detail"]["thumbprint"], thumbprint.as_str(), "{}", events.text);
    assert!(!events.text.contains(key["d"].as_str().unwrap()));
}

async fn a_client_must_authenticate(world: World) {
    let server = &world.server;
    let (app, other) = (App::confidential(server, "one").await, App::confidential(server, "two").await);
    let public = App::public(server, "page").await;
    let secret = app.secret.as_deref().unwrap();
    let challenge = URL_SAFE_NO_PAD.encode(sha256(b"verifier"));
    let good = json!({ "pkce_challenge": challenge }).to_string();
    let origin = ("origin", "https://page.example");
    for (headers, body, status, error) in [
        (vec![], "{}", 401, "X-Client-Key header required"),
        (
            vec![("x-client-key", "bvc_unknown"), ("x-client-secret", secret)],
            "{}",
            401,
            "invalid client credentials",
        ),
        (vec![("x-client-key", &*app.key)], "{}", 401, "invalid client credentials"),
        (
            vec![("x-client-key", &*other.key), ("x-client-secret", secret)],
            "{}",
            401,
            "invalid client credentials",
        ),
        (vec![("x-client-key", &*app.key), ("x-client-secret", secret)], "[]", 400, "invalid request body: "),
        (
            vec![("x-client-key", &*public.key), origin],
            "{}",
            400,
            "public clients must provide pkce_challenge",
        ),
        (
            vec![("x-client-key", &*public.key), origin],
            r#"{"pkce_challenge":"short"}"#,
            400,
            "pkce_challenge must be",
        ),
        (vec![("x-client-key", &*public.key)], &good, 401, "Origin header required for public clients"),
        (
            vec![("x-client-key", &*public.key), ("origin", "https://evil.example")],
            &good,
            401,
            "origin not allowed for this client",
        ),
        (
            vec![("x-client-key", &*public.key), origin, ("x-client-secret", secret)],
            &good,
            401,
            "invalid client credentials",
        ),
        (vec![("x-client-key", &*public.key), origin], &good, 201, ""),
    ] {
        let answer = server.request(Method::POST, PATH, &headers, Some(body.to_owned())).await;
        assert_eq!(answer.status, status, "{headers:?} {}", answer.text);
        assert!(answer.error().starts_with(error), "{headers:?} {}", answer.text);
    }
    // A deactivated client is refused.
    let off = json!({ "is_active": false });
    server.admin(Method::PUT, &format!("/admin/api-clients/{}", app.id), Some(&off)).await;
    assert_eq!(app.post(server, PATH, &[], &json!({})).await.error(), "invalid client credentials");
}

async fn key_creation_is_rate_limited(world: World) {
    let server = &world.server;
    let app = App::with(
        server,
        json!({ "name": "slow", "client_id_url": "https://slow.example/client.json",
            "client_uri": "https://slow.example", "redirect_uris": [], "rate_limit_capacity": 2,
            "rate_limit_refill_rate": 0.001 }),
    )
    .await;
    for status in [201, 201, 429] {
        let answer = app.post(server, PATH, &[], &json!({})).await;
        assert_eq!(answer.status, status, "{}", answer.text);
        assert_eq!(answer.headers.contains_key("retry-after"), status == 429);
    }
}
