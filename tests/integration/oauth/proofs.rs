//! DPoP on `/xrpc`: each check fails alone.

use crate::fixtures::World;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use belvedere_base::random::Random;
use belvedere_protocol::crypto::{Algorithm, PrivateKey, jwk, jws};
use http::Method;
use serde_json::{Value, json};

use super::device::{App, Device, pds};
use crate::fixtures::{ALICE, LIST};
use crate::support::instance::Instance;

fn path() -> String {
    format!("/xrpc/{LIST}?limit=5")
}

/// A proof with changed header and claims, signed by the device's key.
fn changed(server: &Instance, device: &Device, header: Value, claims: Value) -> String {
    let (mut h, mut c) = device.proof_parts(server, &Method::GET, &path());
    h.as_object_mut().unwrap().extend(header.as_object().unwrap().clone());
    c.as_object_mut().unwrap().extend(claims.as_object().unwrap().clone());
    for part in [&mut h, &mut c] {
        part.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    }
    jws::sign_with(&device.key, &h, &c)
}

/// A proof with header and claims as raw text, signed by the device's key.
fn signed(device: &Device, header: &str, claims: &str) -> String {
    let input = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims));
    let signature = URL_SAFE_NO_PAD.encode(device.key.sign(input.as_bytes()));
    format!("{input}.{signature}")
}

crate::in_both_worlds!(
    every_check_is_enforced,
    a_proof_is_bound_to_its_client_and_token,
    a_used_proof_stays_used_after_a_kill,
    of_concurrent_uses_of_a_proof_one_succeeds
);

async fn every_check_is_enforced(world: World) {
    let world = world.with_notes().await;
    let server = &world.server;
    let pds = pds(&world, &[ALICE]).await;
    let app = App::confidential(server, "one").await;
    let device = app.device(server, &pds, ALICE, json!({})).await;
    let other = app.device(server, &pds, ALICE, json!({})).await;
    let now = belvedere_base::clock::Clock::system().now().as_seconds();
    let change = |header: Value, claims: Value| changed(server, &device, header, claims);
    let (header, claims) = device.proof_parts(server, &Method::GET, &path());
    let stranger = PrivateKey::generate(Algorithm::Es256, &Random::system());
    let jwk_of = |key: &PrivateKey| jwk::public_jwk(&key.public()).unwrap();
    let mut off_curve = jwk_of(&device.key);
    off_curve["y"] = off_curve["x"].clone();
    let url = |path: &str| format!("http://{}{path}", server.address);
    let doubled = format!("{{\"jti\":\"a\",{}", &claims.to_string()[1..]);
    let good = device.proof(server, &Method::GET, &path());
    let mut tampered = good.clone();
    tampered.pop();
    tampered.push(if good.ends_with('A') { 'Q' } else { 'A' });
    let cases = [
        ("no proof", "not a proof".to_owned(), "invalid DPoP proof"),
        ("too long", format!("{good}{}", "A".repeat(9000)), "invalid DPoP proof"),
        ("typ", change(json!({ "typ": "JWT" }), json!({})), "invalid DPoP proof: its typ"),
        (
            "alg none",
            signed(
                &device,
                &json!({ "typ": "dpop+jwt", "alg": "none", "jwk": header["jwk"] }).to_string(),
                &claims.to_string(),
            ),
            "invalid DPoP proof",
        ),
        ("other alg", change(json!({ "alg": "ES256K" }), json!({})), "invalid DPoP proof: its alg"),
        ("crit", change(json!({ "crit": ["x"] }), json!({})), "invalid DPoP proof"),
        ("no key", change(json!({ "jwk": null }), json!({})), "invalid DPoP proof: its jwk"),
        (
            "private key",
            change(json!({ "jwk": jwk::private_jwk(&device.key).unwrap() }), json!({})),
            "invalid DPoP proof: its jwk",
        ),
        ("off the curve", change(json!({ "jwk": off_curve }), json!({})), "invalid DPoP proof: its jwk"),
        ("twice a claim", signed(&device, &header.to_string(), &doubled), "invalid DPoP proof"),
        ("no jti", change(json!({}), json!({ "jti": null })), "invalid DPoP proof"),
        ("long jti", change(json!({}), json!({ "jti": "j".repeat(300) })), "DPoP proof has no usable jti"),
        ("method", change(json!({}), json!({ "htm": "POST" })), "DPoP proof is for another method"),
        (
            "path",
            change(json!({}), json!({ "htu": url("/xrpc/com.example.other") })),
            "DPoP proof is for another URL",
        ),
        (
            "host",
            change(json!({}), json!({ "htu": format!("http://evil.example/xrpc/{LIST}") })),
            "DPoP proof is for another URL",
        ),
        (
            "scheme",
            change(json!({}), json!({ "htu": url(&format!("/xrpc/{LIST}")).replace("http:", "https:") })),
            "DPoP proof is for another URL",
        ),
        (
            "user in URL",
            change(json!({}), json!({ "htu": url(&format!("/xrpc/{LIST}")).replace("//", "//me@") })),
            "DPoP proof is for another URL",
        ),
        ("future", change(json!({}), json!({ "iat": now + 60 })), "DPoP proof is from the future"),
        ("past", change(json!({}), json!({ "iat": now - 310 })), "DPoP proof is too old"),
        ("no ath", change(json!({}), json!({ "ath": null })), "DPoP proof has no ath"),
        (
            "other ath",
            change(json!({}), json!({ "ath": belvedere_protocol::crypto::dpop::token_hash("x") })),
            "DPoP proof is for another access token",
        ),
        (
            "unknown key",
            jws::sign_with(
                &stranger,
                &json!({ "typ": "dpop+jwt", "alg": "ES256", "jwk": jwk_of(&stranger) }),
                &claims,
            ),
            "no DPoP key matching proof thumbprint",
        ),
        ("not its key", jws::sign_with(&stranger, &header, &claims), "DPoP proof signature does not verify"),
        ("tampered", tampered, "DPoP proof signature does not verify"),
        (
            "other session's token",
            other.proof(server, &Method::GET, &path()),
            "DPoP proof is for another access token",
        ),
    ];
    for (what, proof, error) in cases {
        let answer = device.send(server, Method::GET, &path(), &proof, None).await;
        assert_eq!(answer.status, 401, "{what} {}", answer.text);
        assert!(answer.error().starts_with(error), "{what}: {}", answer.text);
        let challenge = answer.headers["www-authenticate"].to_str().unwrap();
        assert!(challenge.starts_with("DPoP error="), "{what} {challenge}");
    }
    // The failures did not use the proof up. A second use is refused. Query and fragment of `htu` are ignored.
    assert_eq!(device.send(server, Method::GET, &path(), &good, None).await.status, 200);
    let answer = device.send(server, Method::GET, &path(), &good, None).await;
    assert_eq!((answer.status.as_u16(), answer.error()), (401, "DPoP proof replay detected"));
    let with_query =
        change(json!({}), json!({ "htu": url(&format!("/xrpc/{LIST}?limit=5#x")), "htm": "get" }));
    assert_eq!(device.send(server, Method::GET, &path(), &with_query, None).await.status, 200);
    // PUBLIC_URL is on loopback, whose names are one. The port is not.
    let named = |host: &str| {
        change(json!({}), json!({ "htu": url(&format!("/xrpc/{LIST}")).replace("127.0.0.1", host) }))
    };
    for host in ["localhost", "[::1]"] {
        assert_eq!(device.send(server, Method::GET, &path(), &named(host), None).await.status, 200, "{host}");
    }
    let other_port = change(json!({}), json!({ "htu": format!("http://localhost:1/xrpc/{LIST}") }));
    let elsewhere = device.send(server, Method::GET, &path(), &other_port, None).await;
    assert_eq!(elsewhere.error(), "DPoP proof is for another URL");
    // Additional members of the JWK are ignored.
    let mut annotated = jwk_of(&device.key);
    annotated["kid"] = "k".into();
    annotated["key_ops"] = json!(["verify"]);
    let proof = change(json!({ "jwk": annotated }), json!({}));
    assert_eq!(device.send(server, Method::GET, &path(), &proof, None).await.status, 200);
}

async fn a_proof_is_bound_to_its_client_and_token(world: World) {
    let world = world.with_notes().await;
    let server = &world.server;
    let pds = pds(&world, &[ALICE]).await;
    let (app, other) = (App::confidential(server, "one").await, App::confidential(server, "two").await);
    let device = app.device(server, &pds, ALICE, json!({})).await;
    let send = async |key: Option<&str>, headers: &[(&str, &str)]| {
        let mut all: Vec<(&str, &str)> = key.iter().map(|key| ("x-client-key", *key)).collect();
        all.extend(headers);
        server.request(Method::GET, &path(), &all, None).await
    };
    let token = format!("DPoP {}", device.token);
    let proof = || device.proof(server, &Method::GET, &path());
    let answer = send(Some(&other.key), &[("authorization", &token), ("dpop", &proof())]).await;
    assert_eq!(answer.error(), "no DPoP key matching proof thumbprint");
    let answer = send(None, &[("authorization", &token), ("dpop", &proof())]).await;
    assert_eq!(answer.error(), "Missing client identification");
    let answer = send(Some(&app.key), &[("authorization", &token)]).await;
    assert_eq!((answer.status.as_u16(), answer.error()), (401, "DPoP auth requires DPoP header"));
    let answer =
        send(Some(&app.key), &[("authorization", &token), ("dpop", &proof()), ("dpop", &proof())]).await;
    assert_eq!(answer.error(), "more than one DPoP header");
    // A token that is valid at the PDS but was not registered.
    let newer = Device {
        token: pds.grant(ALICE).0,
        key: PrivateKey::from_bytes(Algorithm::Es256, &*device.key.to_bytes()).unwrap(),
        id: String::new(),
        provision_id: String::new(),
        client_key: app.key.clone(),
    };
    let answer = newer.request(server, Method::GET, &path(), None).await;
    assert_eq!(answer.error(), "access token is not the one the session was registered with");
    // A key without a session.
    let (_, key) = app.provision(server, &[], &json!({})).await;
    let early = Device { key, ..newer };
    assert_eq!(early.request(server, Method::GET, &path(), None).await.error(), "no matching DPoP session");
    // An expired session without a refresh token.
    let over = json!({ "refresh_token": null, "expires_at": "2020-01-01T00:00:00Z" });
    let over = app.device(server, &pds, ALICE, over).await;
    assert_eq!(over.request(server, Method::GET, &path(), None).await.error(), "token_expired");
    // The caller is the session's account.
    server.bind(LIST, "function handle() return { caller = caller_did } end").await;
    let answer = device.request(server, Method::GET, &path(), None).await;
    assert_eq!(answer.body, json!({ "caller": ALICE }), "{}", answer.text);
}

async fn a_used_proof_stays_used_after_a_kill(world: World) {
    let mut world = world.with_notes().await;
    let pds = pds(&world, &[ALICE]).await;
    let app = App::confidential(&world.server, "one").await;
    let device = app.device(&world.server, &pds, ALICE, json!({})).await;
    let proof = device.proof(&world.server, &Method::GET, &path());
    assert_eq!(device.send(&world.server, Method::GET, &path(), &proof, None).await.status, 200);
    world.server.kill();
    world.server.start_again().await;
    let answer = device.send(&world.server, Method::GET, &path(), &proof, None).await;
    assert_eq!((answer.status.as_u16(), answer.error()), (401, "DPoP proof replay detected"));
    assert_eq!(device.request(&world.server, Method::GET, &path(), None).await.status, 200);
}

async fn of_concurrent_uses_of_a_proof_one_succeeds(world: World) {
    let world = world.with_notes().await;
    let server = &world.server;
    let pds = pds(&world, &[ALICE]).await;
    let app = App::confidential(server, "one").await;
    let device = app.device(server, &pds, ALICE, json!({})).await;
    let proof = device.proof(server, &Method::GET, &path());
    let calls = (0..20)
        .map(|_| async { device.send(server, Method::GET, &path(), &proof, None).await.status.as_u16() });
    let mut statuses = futures_util::future::join_all(calls).await;
    statuses.sort_unstable();
    assert_eq!(statuses, [&[200][..], &[401; 19]].concat());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nonces_are_required_if_configured() {
    let (url, _directory) = belvedere_standins::database::sqlite_url();
    let plc = crate::support::plc::Plc::start().await;
    let more = [("PLC_URL", &*plc.url()), ("DPOP_NONCES", "required")];
    let server = Instance::start_with(&url, "none", &more).await;
    let pds = crate::support::oauth_pds::OauthPds::start().await;
    plc.host(ALICE, &pds.url());
    let app = App::confidential(&server, "one").await;
    let device = app.device(&server, &pds, ALICE, json!({})).await;
    let path = format!("/oauth/sessions/{ALICE}");
    let answer = device.request(&server, Method::GET, &path, None).await;
    assert_eq!((answer.status.as_u16(), answer.error()), (401, "use_dpop_nonce"));
    let nonce = answer.headers["dpop-nonce"].to_str().unwrap().to_owned();
    let (header, mut claims) = device.proof_parts(&server, &Method::GET, &path);
    claims["nonce"] = nonce.into();
    let proof = jws::sign_with(&device.key, &header, &claims);
    assert_eq!(device.send(&server, Method::GET, &path, &proof, None).await.status, 200);
    claims["nonce"] = "guessed".into();
    claims["jti"] = "another".into();
    let proof = jws::sign_with(&device.key, &header, &claims);
    assert_eq!(device.send(&server, Method::GET, &path, &proof, None).await.error(), "use_dpop_nonce");
}
