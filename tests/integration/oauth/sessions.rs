//! `/oauth/sessions/{did}` and its devices.

use crate::fixtures::World;
use http::Method;
use serde_json::json;

use super::device::{App, SCOPES, pds};
use crate::fixtures::{ALICE, BOB};

crate::in_both_worlds!(
    a_client_sees_all_devices_of_a_user_and_a_device_those_of_its_own_user,
    a_did_web_with_a_port_works_in_paths
);

async fn a_client_sees_all_devices_of_a_user_and_a_device_those_of_its_own_user(world: World) {
    let server = &world.server;
    let pds = pds(&world, &[ALICE, BOB]).await;
    let (app, other) = (App::confidential(server, "one").await, App::confidential(server, "two").await);
    let phone = app.device(server, &pds, ALICE, json!({})).await;
    let laptop = app.device(server, &pds, ALICE, json!({})).await;
    let bob = app.device(server, &pds, BOB, json!({})).await;
    let foreign = other.device(server, &pds, ALICE, json!({})).await;
    let by_secret = async |app: &App, method: Method, path: &str| {
        let headers = [("x-client-key", &*app.key), ("x-client-secret", app.secret.as_deref().unwrap())];
        server.request(method, path, &headers, None).await
    };
    let session = format!("/oauth/sessions/{ALICE}");
    let devices = format!("{session}/devices");

    let known = json!({ "did": ALICE, "scopes": SCOPES.split(' ').collect::<Vec<_>>() });
    assert_eq!(by_secret(&app, Method::GET, &session).await.body, known);
    assert_eq!(phone.request(server, Method::GET, &session, None).await.body, known);
    let listed = by_secret(&app, Method::GET, &devices).await;
    let ids: Vec<_> = listed.body.as_array().unwrap().iter().map(|d| d["id"].clone()).collect();
    assert_eq!(ids, [phone.id.as_str(), laptop.id.as_str()], "{}", listed.text);
    assert_eq!(listed.body[0]["dpop_key_id"], phone.provision_id.as_str());
    assert_eq!(phone.request(server, Method::GET, &devices, None).await.body, listed.body);
    assert_eq!(by_secret(&app, Method::GET, "/oauth/sessions/did:plc:nobody/devices").await.body, json!([]));

    // Another user, another client and a caller without a proof are refused.
    for method in [Method::GET, Method::DELETE] {
        let answer = bob.request(server, method, &session, None).await;
        assert_eq!(
            (answer.status.as_u16(), answer.error()),
            (401, "the DPoP session belongs to another account")
        );
    }
    let theirs = format!("{devices}/{}", phone.id);
    assert_eq!(bob.request(server, Method::DELETE, &theirs, None).await.status, 401);
    assert_eq!(foreign.request(server, Method::DELETE, &theirs, None).await.status, 404);
    assert_eq!(by_secret(&other, Method::DELETE, &theirs).await.error(), "DPoP session not found");
    assert_eq!(app.post(server, &devices, &[], &json!({})).await.status, 405);
    let bare = server.request(Method::GET, &session, &[("x-client-key", &app.key)], None).await;
    assert_eq!(
        (bare.status.as_u16(), bare.error()),
        (401, "X-Client-Secret or DPoP authentication required")
    );
    let wrong = [("x-client-key", &*app.key), ("x-client-secret", "bvs_wrong")];
    assert_eq!(
        server.request(Method::GET, &session, &wrong, None).await.error(),
        "invalid client credentials"
    );
    assert_eq!(
        by_secret(&app, Method::GET, "/oauth/sessions/alice").await.error(),
        "the path does not name a DID"
    );

    // A device is logged out, then the client logs the user out everywhere. Both sessions are revoked at the PDS.
    assert_eq!(laptop.request(server, Method::DELETE, &theirs, None).await.status, 204);
    assert_eq!(laptop.request(server, Method::DELETE, &theirs, None).await.status, 404);
    for _ in 0..2 {
        assert_eq!(by_secret(&app, Method::DELETE, &session).await.status, 204);
    }
    assert_eq!(by_secret(&app, Method::GET, &session).await.status, 404);
    assert_eq!(laptop.request(server, Method::GET, &session, None).await.status, 401);
    assert_eq!(laptop.request(server, Method::DELETE, &session, None).await.status, 404);
    assert_eq!(foreign.request(server, Method::GET, &session, None).await.status, 200);
    server.eventually("both sessions are revoked", async |_| pds.requests("/oauth/revoke").len() == 2).await;
    let events = server.admin(Method::GET, "/admin/events?category=dpop_session", None).await;
    let kinds: Vec<_> =
        events.body["events"].as_array().unwrap().iter().map(|e| e["event_type"].clone()).collect();
    assert_eq!(kinds[..2], ["dpop_session.deleted", "dpop_session.device_deleted"], "{}", events.text);
}

async fn a_did_web_with_a_port_works_in_paths(world: World) {
    let server = &world.server;
    let pds = pds(&world, &[]).await;
    let address = pds.url().replace("http://127.0.0.1:", "");
    let did = format!("did:web:127.0.0.1%3A{address}");
    let document = json!({ "id": did, "service": [{ "id": "#atproto_pds", "type": "AtprotoPersonalDataServer",
        "serviceEndpoint": pds.url() }] });
    pds.respond_with("/.well-known/did.json", 200, document);
    let app = App::confidential(server, "one").await;
    let device = app.device(server, &pds, &did, json!({})).await;
    let answer = device.request(server, Method::GET, &format!("/oauth/sessions/{did}"), None).await;
    assert_eq!((answer.status.as_u16(), &answer.body["did"]), (200, &json!(did)), "{}", answer.text);
    let encoded = did.replace('%', "%25");
    let answer = device.request(server, Method::DELETE, &format!("/oauth/sessions/{encoded}"), None).await;
    assert_eq!(answer.status, 204, "{}", answer.text);
}
