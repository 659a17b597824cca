//! Spaces of an instance with an identity of its own: it is their authority, and publishes a key and a service for them.

use http::Method;
use serde_json::{Value, json};

use super::credentials::{Holder, delegation};
use super::{Group, KIND, error};
use crate::fixtures::{BOB, LIST, World};
use belvedere_protocol::crypto::PublicKey;
use belvedere_protocol::spaces::r10::token::{KeyId, ParsedCredential};

crate::in_both_worlds!(the_instance_is_the_authority_and_publishes_its_key);

async fn the_instance_is_the_authority_and_publishes_its_key(world: World) {
    let document = async |world: &World| {
        world.server.request(Method::GET, "/.well-known/did.json", &[], None).await.body
    };
    let ids = |list: &Value| -> Vec<String> {
        list.as_array().unwrap().iter().map(|entry| entry["id"].as_str().unwrap().to_owned()).collect()
    };
    let before = document(&world).await.to_string();
    assert!(!before.contains("atproto_space"), "spaces are off: {before}");
    let mode = json!({ "mode": "did_web" });
    let set = world.server.admin(Method::POST, "/api/setup/identity", Some(&mode)).await;
    assert_eq!(set.status, 204, "{}", set.text);
    let group = Group::of(world.with_notes().await).await;
    let (server, did) = (&group.world.server, group.world.server.did());
    let space = group.space("main", json!({})).await;
    assert_eq!(space, format!("at://{did}/space/{KIND}/main"));

    let document = document(&group.world).await;
    let (keys, services) = (ids(&document["verificationMethod"]), ids(&document["service"]));
    assert!(keys.contains(&format!("{did}#atproto_space")), "{document}");
    assert!(services.contains(&"#atproto_space_host".to_owned()), "{document}");

    // The DID contains a percent sign.
    let list = format!("space.listRecords?space={}", space.replace('%', "%25"));
    group.join(&space, BOB, true, true).await;
    let holder = Holder::new();
    let token = holder.credential(&group, &group.bob, &space).await;
    let read = holder.get(&group, &token, &did, &list).await;
    assert_eq!(read.status, 200, "{}", read.text);
    let parsed = ParsedCredential::parse(&token).unwrap();
    assert_eq!((parsed.key_id(), parsed.space().did.as_str()), (KeyId::AtprotoSpace, &*did));
    let at = keys.iter().position(|id| id.ends_with("#atproto_space")).unwrap();
    let key = document["verificationMethod"][at]["publicKeyMultibase"].as_str().unwrap();
    let key = PublicKey::from_multikey(key).unwrap();
    assert!(parsed.verify(&key, belvedere_base::clock::Clock::system().now()).is_ok());

    // Service tokens for the host of spaces are for their methods only, and delegation tokens are no service tokens.
    let call = async |token: String, path: &str| {
        let bearer = format!("Bearer {token}");
        server.request(Method::GET, &format!("/xrpc/{path}"), &[("authorization", &*bearer)], None).await
    };
    let host = format!("{did}#atproto_space_host");
    let records = format!("com.atproto.{list}");
    let of_host = || group.bob.token(&host, json!({}));
    assert_eq!(call(of_host(), &records).await.status, 200);
    assert_eq!(call(of_host(), LIST).await.status, 401);
    for path in [&records, LIST] {
        assert_eq!(call(delegation(&group.bob, &space), path).await.status, 401, "{path}");
    }
    // Off again.
    let off = json!({ "value": "false" });
    let set = server.admin(Method::PUT, "/admin/settings/feature.spaces_enabled", Some(&off)).await;
    assert_eq!(set.status, 204);
    let exchanged = holder.exchange(&group, &delegation(&group.bob, &space), json!({ "space": space })).await;
    assert_eq!(error(&exchanged), (404, "FeatureDisabled"));
}
