//! `/admin/service-identity`, and the DID document that follows it

use belvedere_protocol::crypto::Algorithm;
use http::Method;
use serde_json::{Value, json};

use crate::fixtures::{ALICE, LIST, World};
use crate::support::instance::{Answer, Instance};

const PATH: &str = "/admin/service-identity";

async fn put(server: &Instance, body: &Value) -> Answer {
    server.admin(Method::PUT, PATH, Some(body)).await
}

async fn document(server: &Instance) -> Answer {
    server.request(Method::GET, "/.well-known/did.json", &[], None).await
}

crate::in_both_worlds!(
    the_document_follows_the_mode,
    an_instance_that_is_not_exposed_takes_no_service_tokens,
    what_does_not_fit_is_refused,
    the_identity_survives_a_restart
);

async fn the_document_follows_the_mode(world: World) {
    let world: World = world;
    let server = &world.server;
    assert_eq!(server.admin(Method::GET, PATH, None).await.text, "null");
    let did = server.did();
    let before = document(server).await.body;
    assert_eq!(before["service"][0]["id"], "#bsky_appview");

    assert_eq!(put(server, &json!({ "mode": "did_web" })).await.status, 204);
    let identity = server.admin(Method::GET, PATH, None).await;
    assert_eq!(identity.body["mode"], "did_web");
    assert_eq!((&identity.body["did"], &identity.body["setup_complete"]), (&Value::Null, &json!(false)));
    assert!(!identity.text.contains("key"), "no keys: {}", identity.text);
    let own = document(server).await.body;
    assert_eq!(own["id"], did.as_str());
    assert_eq!(own["verificationMethod"][0]["id"], format!("{did}#atproto"));
    assert!(
        own["verificationMethod"][0]["publicKeyMultibase"].as_str().unwrap().starts_with("zDn"),
        "P-256: {own}"
    );
    assert_eq!(own["service"], before["service"], "the built-in service became an entry");
    let entries = server.admin(Method::GET, "/admin/service-entries", None).await;
    assert_eq!(entries.body[0]["fragment_id"], "#bsky_appview", "{}", entries.text);
    // The key stays the same, also after a restart.
    assert_eq!(put(server, &json!({ "mode": "did_web", "did": did })).await.status, 204);
    assert_eq!(document(server).await.body["verificationMethod"], own["verificationMethod"]);

    for mode in ["not_exposed", "did_plc"] {
        assert_eq!(put(server, &json!({ "mode": mode })).await.status, 204);
        assert_eq!(document(server).await.status, 404, "{mode}");
    }
    let events = server.admin(Method::GET, "/admin/events?category=service_identity", None).await;
    assert_eq!(events.body["events"][0]["event_type"], "service_identity.updated", "{}", events.text);
    assert_eq!(events.body["events"][0]["detail"], json!({ "mode": "did_plc" }));
}

async fn an_instance_that_is_not_exposed_takes_no_service_tokens(world: World) {
    let world: World = world.with_notes().await;
    let server = &world.server;
    let alice = world.plc.person(ALICE, Algorithm::Es256k);
    let call = async || {
        let token = format!("Bearer {}", alice.token(&server.did(), json!({})));
        let headers = [("x-client-key", server.client_key.as_str()), ("authorization", &*token)];
        server.request(Method::GET, &format!("/xrpc/{LIST}"), &headers, None).await
    };
    assert_eq!(call().await.status, 200);
    assert_eq!(put(server, &json!({ "mode": "not_exposed" })).await.status, 204);
    let refused = call().await;
    assert_eq!(refused.status, 401);
    assert_eq!(refused.error(), "this server has no public identity, so it accepts no service tokens");
    assert_eq!(put(server, &json!({ "mode": "did_web" })).await.status, 204);
    assert_eq!(call().await.status, 200);
}

async fn what_does_not_fit_is_refused(world: World) {
    let world: World = world;
    let server = &world.server;
    for (body, why) in [
        (json!({}), "mode"),
        (json!({ "mode": "other" }), "unknown variant"),
        (json!({ "mode": "did_web", "did": "did:web:other.example" }), "one of this server's domains"),
        (json!({ "mode": "did_web", "did": "nonsense" }), "not a DID"),
        (json!({ "mode": "did_plc", "did": server.did() }), "did:plc"),
        (json!({ "mode": "attach_account" }), "attached_account_did is missing"),
        (json!({ "mode": "attach_account", "attached_account_did": "did:web:a.example" }), "did:plc"),
        (
            json!({ "mode": "attach_account", "attached_account_did": ALICE, "did": "did:plc:bobbobbobbobbobbobbobbob" }),
            "did must be",
        ),
        (json!({ "mode": "did_web", "signing_key_enc": "?" }), "signing_key_enc is not base64"),
        (json!({ "mode": "did_web", "signing_key_enc": "AQID" }), "signing_key_enc can't be opened"),
        (json!({ "mode": "did_plc", "rotation_key_enc": "AQID" }), "rotation_key_enc can't be opened"),
    ] {
        let answer = put(server, &body).await;
        assert_eq!(answer.status, 400, "{body} {}", answer.text);
        assert!(answer.error().contains(why), "{body} {}", answer.text);
    }
    assert_eq!(server.admin(Method::GET, PATH, None).await.text, "null", "nothing was stored");
    let viewer = server.create_key(&["--did", "did:plc:viewerviewerviewerviewer", "--permissions", "viewer"]);
    let header = [("authorization", &*format!("Bearer {viewer}"))];
    assert_eq!(server.request(Method::GET, PATH, &header, None).await.status, 403);
}

async fn the_identity_survives_a_restart(mut world: World) {
    assert_eq!(put(&world.server, &json!({ "mode": "did_web" })).await.status, 204);
    let before = document(&world.server).await.body;
    assert_eq!(world.server.stop(), Some(0));
    world.server.start_again().await;
    assert_eq!(document(&world.server).await.body, before);
}
