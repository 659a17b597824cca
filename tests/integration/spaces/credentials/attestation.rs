//! Client attestations: an app proves its client id in the exchange, with a key of its published metadata.

use std::sync::{Arc, Mutex};

use belvedere_base::clock::Clock;
use belvedere_base::random::Random;
use belvedere_protocol::atproto::Did;
use belvedere_protocol::crypto::{Algorithm, PrivateKey, PublicKey, jwk};
use belvedere_protocol::spaces::r10::token::attest;
use belvedere_standins::tls::https;
use serde_json::{Value, json};

use super::{Holder, changed, delegation};
use crate::fixtures::{ALICE, BOB, World};
use crate::spaces::{CAROL, Group, error};
use crate::support::instance::Answer;

crate::in_both_worlds!(an_attested_app_gets_a_credential, each_check_of_an_attestation_refuses);

/// The origin of apps: one has its keys in its metadata, one beside it, and one claims to be another. The keys may be changed.
fn apps(keys: &Arc<Mutex<Value>>) -> String {
    let (origin, keys) = (Arc::new(Mutex::new(String::new())), Arc::clone(keys));
    let own = Arc::clone(&origin);
    let address = https(move |path| {
        let (origin, keys) = (own.lock().unwrap(), keys.lock().unwrap());
        let client_id = format!("{origin}{path}");
        Some(match path {
            "/inline.json" => json!({ "client_id": client_id, "jwks": { "keys": *keys } }).to_string(),
            "/linked.json" => {
                json!({ "client_id": client_id, "jwks_uri": format!("{origin}/jwks.json") }).to_string()
            }
            "/false.json" => {
                json!({ "client_id": format!("{origin}/inline.json"), "jwks": { "keys": *keys } }).to_string()
            }
            "/jwks.json" => json!({ "keys": *keys }).to_string(),
            _ => return None,
        })
    });
    *origin.lock().unwrap() = format!("https://{address}");
    format!("https://{address}")
}

fn published(id: &str, key: &PublicKey) -> Value {
    let mut jwk = jwk::public_jwk(key).unwrap();
    jwk["kid"] = id.into();
    jwk
}

fn new_key() -> PrivateKey {
    PrivateKey::generate(Algorithm::Es256, &Random::system())
}

struct Stage {
    group: Group,
    space: String,
    origin: String,
    keys: Arc<Mutex<Value>>,
    key: PrivateKey,
}

impl Stage {
    /// Bob reads Alice's space, which allows some of the apps.
    async fn of(world: World) -> Self {
        let (group, key) = (Group::of(world).await, new_key());
        let keys = Arc::new(Mutex::new(json!([published("k1", &key.public())])));
        let origin = apps(&keys);
        let allowed = ["inline", "linked", "false", "absent"].map(|name| format!("{origin}/{name}.json"));
        let list = json!({ "$type": "com.atproto.simplespace.defs#allowList", "allowed": allowed });
        let space = group.space("main", json!({ "appAccess": list })).await;
        group.join(&space, BOB, true, false).await;
        Self { group, space, origin, keys, key }
    }

    fn attestation(&self, name: &str) -> String {
        let (client, alice) = (format!("{}/{name}.json", self.origin), Did::try_from(ALICE).unwrap());
        attest(&self.key, "k1", &client, &alice, "1", Clock::system().now()).unwrap()
    }

    async fn exchange(&self, attestation: &str) -> Answer {
        let token = delegation(&self.group.bob, &self.space);
        let body = json!({ "space": self.space, "clientAttestation": attestation });
        Holder::new().exchange(&self.group, &token, body).await
    }
}

async fn an_attested_app_gets_a_credential(world: World) {
    let stage = Stage::of(world).await;
    let holder = Holder::new();
    for name in ["inline", "linked"] {
        let body = json!({ "space": stage.space, "clientAttestation": stage.attestation(name) });
        let token = delegation(&stage.group.bob, &stage.space);
        let answer = holder.exchange(&stage.group, &token, body).await;
        assert_eq!(answer.status, 200, "{name} {}", answer.text);
        let credential = answer.body["credential"].as_str().unwrap();
        let query = format!("space.listRecords?space={}", stage.space);
        assert_eq!(holder.get(&stage.group, credential, ALICE, &query).await.status, 200);
    }
    // The app has a new key, and is not asked for the old one in every call.
    let old = stage.attestation("inline");
    let new = new_key();
    *stage.keys.lock().unwrap() = json!([published("k2", &new.public())]);
    assert_eq!(stage.exchange(&old).await.status, 200);
    let rotated = changed(&old, &new, &json!({ "kid": "k2" }), &json!({}));
    assert_eq!(stage.exchange(&rotated).await.status, 200);
    assert_eq!(error(&stage.exchange(&old).await), (400, "InvalidClientAttestation"), "the old one is gone");
    // An app that is not on the list, which proves its own id.
    let list = json!({ "$type": "com.atproto.simplespace.defs#allowList", "allowed": ["https://app.example/c.json"] });
    let update = json!({ "space": stage.space, "appAccess": list });
    assert_eq!(stage.group.post(&stage.group.alice, "simplespace.updateSpace", update).await.status, 200);
    assert_eq!(error(&stage.exchange(&rotated).await), (400, "AppNotAuthorized"));
}

async fn each_check_of_an_attestation_refuses(world: World) {
    let stage = Stage::of(world).await;
    let good = stage.attestation("inline");
    assert_eq!(stage.exchange(&good).await.status, 200);
    let now = Clock::system().now().as_seconds();
    let (other, none) = (new_key(), || json!({}));
    let secp = PrivateKey::generate(Algorithm::Es256k, &Random::system());
    let change = |key: &PrivateKey, header: Value, claims: Value| changed(&good, key, &header, &claims);
    let client = |name: &str| format!("{}/{name}.json", stage.origin);
    for (attestation, why) in [
        (change(&stage.key, json!({ "kid": "k2" }), none()), "the client's metadata has no such key"),
        (change(&stage.key, json!({ "kid": null }), none()), "it has no kid"),
        (change(&other, none(), none()), "its signature does not verify"),
        (change(&secp, json!({ "alg": "ES256K" }), none()), "its algorithm is not ES256"),
        (change(&stage.key, json!({ "typ": "JWT" }), none()), "it is a token of another class"),
        (change(&stage.key, none(), json!({ "exp": now - 10 })), "it has expired"),
        (change(&stage.key, none(), json!({ "exp": now + 4_000 })), "it is valid for too long"),
        (change(&stage.key, none(), json!({ "aud": ALICE })), "it is for another service"),
        (
            change(&stage.key, none(), json!({ "aud": format!("{CAROL}#atproto_space_host") })),
            "it is for another service",
        ),
        (change(&stage.key, none(), json!({ "sub": client("linked") })), "its issuer is not its subject"),
        (stage.attestation("false"), "the client's metadata has no such key"),
        (stage.attestation("absent"), "the client's metadata has no such key"),
    ] {
        let answer = stage.exchange(&attestation).await;
        assert_eq!(error(&answer), (400, "InvalidClientAttestation"), "{why} {}", answer.text);
        let message = answer.body["message"].as_str().unwrap();
        assert!(message.contains(why), "{why}: {message}");
    }
    // A key of the client for another purpose has no id.
    let mut unnamed = published("k1", &stage.key.public());
    unnamed.as_object_mut().unwrap().remove("kid");
    *stage.keys.lock().unwrap() = json!([unnamed, 7, { "kty": "RSA", "kid": "k1" }]);
    let answer = stage.exchange(&stage.attestation("linked")).await;
    assert_eq!(error(&answer), (400, "InvalidClientAttestation"));
}
