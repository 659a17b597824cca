//! `POST /xrpc/{nsid}`

use crate::fixtures::World;
use http::Method;
use serde_json::json;

use crate::support::instance::procedure_lexicon;

crate::in_both_worlds!(a_procedure_wants_an_identity_and_an_unknown_one_is_404);

async fn a_procedure_wants_an_identity_and_an_unknown_one_is_404(world: World) {
    let server = &world.server;
    server.upload(procedure_lexicon("com.example.create"), Some("com.example.note")).await;
    let headers = [("x-client-key", server.client_key.as_str())];
    let body = Some(json!({ "text": "hi" }).to_string());
    let known = server.request(Method::POST, "/xrpc/com.example.create", &headers, body.clone()).await;
    assert_eq!(known.status, 401, "{}", known.text);
    let unknown = server.request(Method::POST, "/xrpc/com.example.unknown", &headers, body).await;
    assert!([401, 404].contains(&unknown.status.as_u16()), "{}", unknown.text);
    let wrong_verb = server.xrpc("com.example.create").await;
    assert_eq!((wrong_verb.status.as_u16(), wrong_verb.error()), (404, "method not found"));
}
