//! `/admin/verification-methods`

use http::Method;
use serde_json::{Value, json};

use crate::fixtures::World;

const PATH: &str = "/admin/verification-methods";

crate::in_both_worlds!(methods_are_added_and_removed);

async fn methods_are_added_and_removed(world: World) {
    let world: World = world;
    let server = &world.server;
    let create = async |fragment: &str| {
        server.admin(Method::POST, PATH, Some(&json!({ "fragment_id": fragment }))).await
    };
    assert_eq!(server.admin(Method::GET, PATH, None).await.body, json!([]));
    let made = create("#atproto_label").await;
    assert_eq!(made.status, 201, "{}", made.text);
    assert_eq!(
        (&made.body["fragment_id"], &made.body["key_type"]),
        (&json!("#atproto_label"), &json!("Multikey"))
    );
    let key = made.body["public_key_multibase"].as_str().unwrap();
    assert!(key.starts_with("zDn"), "P-256: {key}");
    assert_eq!(create("#atproto_label").await.status, 409);
    for bad in ["", "#", "label", "#a-b", "#a b", "#atproto"] {
        assert_eq!(create(bad).await.status, 400, "{bad}");
    }
    assert_eq!(create("#second").await.status, 201);
    let list = server.admin(Method::GET, PATH, None).await;
    assert_eq!(list.body[0], made.body, "{}", list.text);
    assert!(!list.text.contains("sealed"));
    let document = server.request(Method::GET, "/.well-known/did.json", &[], None).await.body;
    let methods: Vec<&Value> =
        document["verificationMethod"].as_array().unwrap().iter().map(|m| &m["publicKeyMultibase"]).collect();
    assert!(methods.contains(&&json!(key)), "{document}");
    let is_labeler = |document: &Value| {
        document["service"].as_array().unwrap().iter().any(|service| service["type"] == "AtprotoLabeler")
    };
    assert!(is_labeler(&document), "the key makes the instance a labeler: {document}");

    // With or without the #.
    let delete = async |name: &str| {
        server.admin(Method::DELETE, &format!("{PATH}/{name}"), None).await.status.as_u16()
    };
    assert_eq!((delete("%23second").await, delete("second").await), (204, 404));
    assert_eq!((delete("atproto_label").await, delete("atproto_label").await), (204, 404));
    assert_eq!(server.admin(Method::GET, PATH, None).await.body, json!([]));
    let document = server.request(Method::GET, "/.well-known/did.json", &[], None).await.body;
    assert!(!is_labeler(&document), "{document}");
    // The fragment is free again, for another key.
    let again = create("#atproto_label").await;
    assert_ne!(again.body["public_key_multibase"], key, "{}", again.text);
    for n in 0..8 {
        assert_eq!(create(&format!("#more{n}")).await.status, 201);
    }
    assert_eq!(create("#too_many").await.error(), "at most 9 verification methods");
    let events = server.admin(Method::GET, "/admin/events?category=verification_method", None).await;
    let kinds = events.body["events"].as_array().unwrap();
    assert!(
        kinds.iter().any(|event| event["event_type"] == "verification_method.deleted"),
        "{}",
        events.text
    );
}
