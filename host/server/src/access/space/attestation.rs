//! Verifies client attestations: an app proves its client id with a key of its published metadata (spaces.md §7.3).

use std::sync::Arc;
use std::time::Duration;

use moka::future::Cache;
use serde::Deserialize;
use serde_json::Value;
use url::Url;

use super::super::service_jwt::ServiceTokenError;
use super::super::{Access, Sender};
use super::error::SpaceTokenError;
use belvedere_protocol::atproto::Did;
use belvedere_protocol::crypto::{PublicKey, jwk};
use belvedere_protocol::spaces::r10::token::{ParsedAttestation, TokenError};
use belvedere_web::http::{Error, Request};
use belvedere_web::net::{Client, Limits};

/// Time for which the keys of a client are cached: so long a key that it has withdrawn is accepted, and a new one is not.
const CACHE_TIME: Duration = Duration::from_mins(1);

/// Clients whose keys are cached.
const MAX_CACHED: u64 = 10_000;

/// Keys of one client that are read.
const MAX_KEYS: usize = 20;

type Keys = Arc<[(String, PublicKey)]>;

/// The keys that clients publish. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ClientKeySets {
    net: Client,
    /// By client id; without keys if they can't be read.
    keys: Cache<String, Keys>,
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
    pub fn new(net: Client) -> Self {
        Self { net, keys: Cache::builder().max_capacity(MAX_CACHED).time_to_live(CACHE_TIME).build() }
    }

    async fn fetch(&self, client_id: &str) -> Keys {
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
        usable(&keys)
    }
}

/// The P-256 keys of a set that have an id.
fn usable(set: &KeySet) -> Keys {
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
        let (client_id, sets) = (parsed.client_id(), &self.client_key_sets);
        let keys = if let Some(keys) = sets.keys.get(client_id).await {
            keys
        } else {
            let url = Url::parse(client_id).ok();
            sender
                .pay_look_up_at(url.as_ref().and_then(Url::host_str))
                .map_err(ServiceTokenError::LookUpLimit)?;
            let _permit =
                self.tokens.look_ups().enter(sender.tenant()).await.map_err(ServiceTokenError::Busy)?;
            sets.keys.get_with_by_ref(client_id, sets.fetch(client_id)).await
        };
        let key = keys.iter().find(|(id, _)| id == parsed.key_id());
        let (_, key) = key.ok_or(TokenError::Attestation("the client's metadata has no such key"))?;
        Ok(parsed.verify(key, authority, self.core.clock.now())?)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use belvedere_base::random::Random;
    use belvedere_protocol::crypto::{Algorithm, PrivateKey};

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
