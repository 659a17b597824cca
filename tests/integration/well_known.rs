//! `/.well-known/did.json`

use crate::fixtures::World;
use belvedere_protocol::crypto::{Algorithm, PrivateKey};
use belvedere_standins::database::sqlite_url;
use http::Method;
use serde_json::json;

use crate::support::instance::{Answer, Instance};

const PATH: &str = "/.well-known/did.json";

/// The answer of a server with these environment variables to a request for this host.
async fn document(more: &[(&'static str, &str)], host: &str) -> Answer {
    let (url, _directory) = sqlite_url();
    let server = Instance::start_unclaimed(&url, "none", more).await;
    server.request(Method::GET, PATH, &[("host", host)], None).await
}

crate::in_both_worlds!(the_default_did_has_a_document);

async fn the_default_did_has_a_document(world: World) {
    let (server, did) = (&world.server, world.server.did());
    let answer = server.request(Method::GET, PATH, &[], None).await;
    assert_eq!((answer.status.as_u16(), &answer.body["id"]), (200, &json!(did)), "{}", answer.text);
    let method = &answer.body["verificationMethod"][0];
    assert_eq!((&method["id"], &method["controller"]), (&json!(format!("{did}#attestation")), &json!(did)));
    assert!(method["publicKeyMultibase"].as_str().unwrap().starts_with('z'));
    let other_host = server.request(Method::GET, PATH, &[("host", "evil.example")], None).await;
    assert_eq!(other_host.body, answer.body, "the Host header is the caller's choice");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_public_server_names_its_url_and_its_key() {
    let secret = "01".repeat(32);
    let more = [("PUBLIC_URL", "https://index.example"), ("ATTESTATION_PRIVATE_KEY", &*secret)];
    let answer = document(&more, "index.example").await;
    let key = PrivateKey::from_bytes(Algorithm::Es256k, &[1; 32]).unwrap().public().to_multikey();
    assert_eq!(
        answer.body,
        json!({
            "@context": ["https://www.w3.org/ns/did/v1", "https://w3id.org/security/multikey/v1"],
            "id": "did:web:index.example",
            "verificationMethod": [{ "id": "did:web:index.example#attestation", "type": "Multikey",
                "controller": "did:web:index.example", "publicKeyMultibase": key }],
            "service": [{ "id": "#bsky_appview", "type": "BskyAppView", "serviceEndpoint": "https://index.example" }],
        }),
        "{}",
        answer.text
    );
    // A key that belongs to another DID's document.
    let more = [("PUBLIC_URL", "https://index.example"), ("ATTESTATION_KEY_ID", "did:web:keys.example#one")];
    let answer = document(&more, "index.example").await;
    assert_eq!(
        (answer.status.as_u16(), &answer.body["verificationMethod"]),
        (200, &json!([])),
        "{}",
        answer.text
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_document_of_another_did_is_not_served() {
    for did in ["did:plc:ewvi7nxzyoun6zhxrhs64oiz", "did:web:other.example", "did:web:index.example%3A8443"] {
        let more = [("PUBLIC_URL", "https://index.example"), ("SERVICE_DID", did)];
        let answer = document(&more, "index.example").await;
        assert_eq!(answer.status, 404, "{did} {}", answer.text);
        assert_eq!(answer.error(), format!("this server's DID is {did}, whose document is not served here"));
    }
}
