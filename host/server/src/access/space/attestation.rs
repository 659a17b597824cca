//! Verifies client attestations: an app proves its client id with a key of its published metadata (spaces.md §7.3).

use std::sync::Arc;

use moka::future::Cache;
use serde::Deserialize;
use serde_json::Value;
use url::Url;

use super::super::service_jwt::ServiceTokenError;
use super::super::{Access, Sender};
use super::error::SpaceTokenError;
use belvedere_base::clock::{Clock, Timestamp};
use belvedere_protocol::atproto::Did;
use belvedere_protocol::crypto::{PublicKey, jwk};
use belvedere_protocol::spaces::r10::token::{ParsedAttestation, TokenError};
use belvedere_web::http::{Error, Request};
use belvedere_web::net::{Client, Limits};

/// Time for which the keys of a client are cached: so long a key that it has withdrawn is accepted.
const CACHE_SECONDS: i64 = 60;

/// Clients whose keys are cached.
const MAX_CACHED: u64 = 10_000;

/// Keys of one client that are read.
const MAX_KEYS: usize = 20;

/// The keys that clients publish. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ClientKeySets {
    net: Client,
    clock: Clock,
    /// By client id.
    published: Cache<String, Published>,
}

/// The keys of a client, by their ids; none if they can't be read.
#[derive(Clone, Debug)]
struct Published {
    keys: Arc<[(String, PublicKey)]>,
    read_at: Timestamp,
}

impl Published {
    fn key(&self, id: &str) -> Option<PublicKey> {
        self.keys.iter().find(|(known, _)| known == id).map(|(_, key)| key.clone())
    }
}

#[derive(Deserialize)]
struct Metadata {
    client_id: String,
    jwks: Option<KeySet>,
    jwks_uri: Option<String>,
}

#[derive(Default, Deserialize)]
struct KeySet {
    keys: Vec<Value>,
}

impl ClientKeySets {
    pub fn new(net: Client, clock: Clock) -> Self {
        Self { net, clock, published: Cache::new(MAX_CACHED) }
    }

    /// A key that is cached.
    async fn cached(&self, client_id: &str, key_id: &str) -> Option<PublicKey> {
        let published = self.published.get(client_id).await.filter(|published| self.is_current(published));
        published?.key(key_id)
    }

    /// Reads the keys of a client, once for concurrent calls; `None` if it has no such key.
    async fn read(&self, client_id: &str, key_id: &str) -> Option<PublicKey> {
        let is_old = |published: &Published| !self.is_current(published) || published.key(key_id).is_none();
        let entry = self.published.entry_by_ref(client_id);
        entry.or_insert_with_if(self.fetch(client_id), is_old).await.into_value().key(key_id)
    }

    fn is_current(&self, published: &Published) -> bool {
        self.clock.now() < published.read_at.plus_seconds(CACHE_SECONDS)
    }

    async fn fetch(&self, client_id: &str) -> Published {
        let read_at = self.clock.now();
        let read = async {
            let metadata: Metadata = self.net.get_json(client_id, Limits::DOCUMENT_BYTES).await?;
            Ok(match metadata {
                Metadata { client_id: named, .. } if named != client_id => KeySet::default(),
                Metadata { jwks: Some(keys), .. } => keys,
                Metadata { jwks_uri: Some(uri), .. } => {
                    self.net.get_json(&uri, Limits::DOCUMENT_BYTES).await?
                }
                _ => KeySet::default(),
            })
        };
        let keys = read.await.unwrap_or_else(|error: belvedere_web::net::NetError| {
            tracing::info!(client_id, %error, "the keys of a client can't be read");
            KeySet::default()
        });
        Published { keys: usable(&keys), read_at }
    }
}

/// The P-256 keys of a set that have an id.
fn usable(set: &KeySet) -> Arc<[(String, PublicKey)]> {
    let key = |key: &Value| Some((key.get("kid")?.as_str()?.to_owned(), jwk::public_key(key).ok()?));
    set.keys.iter().take(MAX_KEYS).filter_map(key).collect()
}

impl Access {
    /// The client id that an attestation for the host of `authority` proves.
    ///
    /// # Errors
    /// 400 `InvalidClientAttestation`; 429 and 503 when too many clients are being looked up.
    pub async fn attested_client(
        &self,
        request: &Request,
        token: &str,
        authority: &Did,
    ) -> Result<String, Error> {
        let sender = Sender::of(self, request);
        let verified = self.verify_attestation(&sender, token, authority).await;
        Ok(sender.charge_if_failure(verified, SpaceTokenError::is_failure)?)
    }

    async fn verify_attestation(
        &self,
        sender: &Sender<'_>,
        token: &str,
        authority: &Did,
    ) -> Result<String, SpaceTokenError> {
        let parsed = ParsedAttestation::parse(token)?;
        let (client_id, key_id, sets) = (parsed.client_id(), parsed.key_id(), &self.client_key_sets);
        // The client may have a new key, so that an unknown one is looked up again.
        let key = if let Some(key) = sets.cached(client_id, key_id).await {
            Some(key)
        } else {
            let url = Url::parse(client_id).ok();
            sender
                .pay_look_up_at(url.as_ref().and_then(Url::host_str))
                .map_err(ServiceTokenError::LookUpLimit)?;
            let _permit =
                self.tokens.look_ups().enter(sender.tenant()).await.map_err(ServiceTokenError::Busy)?;
            sets.read(client_id, key_id).await
        };
        let key = key.ok_or(TokenError::Attestation("the client's metadata has no such key"))?;
        Ok(parsed.verify(&key, authority, self.core.clock.now())?)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use belvedere_base::random::Random;
    use belvedere_protocol::crypto::{Algorithm, PrivateKey};
    use belvedere_standins::upstream::{Upstream, respond};
    use belvedere_web::net::testing;
    use std::sync::Mutex;

    #[tokio::test]
    async fn keys_are_read_again_when_they_are_old_or_one_is_unknown() {
        let key = |n| PrivateKey::generate(Algorithm::Es256, &Random::seeded(n)).public();
        let set = |keys: &[(&str, PublicKey)]| -> Vec<Value> {
            let jwk = |(id, key): &(&str, PublicKey)| {
                let mut jwk = jwk::public_jwk(key).unwrap();
                jwk["kid"] = (*id).into();
                jwk
            };
            keys.iter().map(jwk).collect()
        };
        let published = Arc::new(Mutex::new(set(&[("k1", key(1))])));
        let current = Arc::clone(&published);
        let server = Upstream::start(move |request| {
            let id =
                format!("http://{}{}", request.headers["host"].to_str().unwrap(), request.path_and_query);
            let body = json!({ "client_id": id, "jwks": { "keys": *current.lock().unwrap() } });
            respond(200, "application/json", body.to_string())
        })
        .await;
        let (client, clock) = (format!("{}/client.json", server.url()), Clock::fixed(Timestamp(1)));
        let sets = ClientKeySets::new(testing::loopback(), clock.clone());
        let read = async |id| match sets.cached(&client, id).await {
            Some(key) => Some(key),
            None => sets.read(&client, id).await,
        };
        assert_eq!((read("k1").await, read("k1").await), (Some(key(1)), Some(key(1))));
        assert_eq!(server.requests().len(), 1);
        assert_eq!((read("k2").await, server.requests().len()), (None, 2));
        *published.lock().unwrap() = set(&[("k2", key(2))]);
        // The old key is accepted until a new one is asked for, or for a minute.
        assert_eq!(
            (read("k1").await, read("k2").await, read("k1").await),
            (Some(key(1)), Some(key(2)), None)
        );
        *published.lock().unwrap() = Vec::new();
        clock.set(Timestamp(1).plus_seconds(CACHE_SECONDS - 1));
        assert_eq!(read("k2").await, Some(key(2)));
        clock.set(Timestamp(1).plus_seconds(CACHE_SECONDS));
        assert_eq!(read("k2").await, None);
    }

    #[test]
    fn only_keys_with_an_id_are_usable() {
        let key = PrivateKey::generate(Algorithm::Es256, &Random::seeded(1)).public();
        let mut named = jwk::public_jwk(&key).unwrap();
        let unnamed = named.clone();
        named["kid"] = "k1".into();
        let other = json!({ "kty": "RSA", "kid": "k2" });
        let keys = usable(&KeySet { keys: vec![unnamed, other, json!(7), named.clone()] });
        assert_eq!(&*keys, &[("k1".to_owned(), key)]);
        assert_eq!(usable(&KeySet { keys: vec![named; 30] }).len(), MAX_KEYS);
    }
}
