//! The keys with which API clients authenticate to authorization servers (`private_key_jwt`). The instance holds them,
//! so that it can refresh a client's sessions as well as the client can (auth-and-clients.md §4.4).

use std::time::Duration;

use moka::future::Cache;
use serde::Deserialize;

use super::{Access, ApiClient};
use belvedere_protocol::crypto::{Algorithm, PrivateKey, jwk};
use belvedere_storage::store::StoreError;
use belvedere_storage::store::api_client_keys::{self, ClientKeyRow};
use belvedere_web::net::{Client, Limits};

/// Time for which the result for a client's metadata is cached: short, because an operator who has just changed it
/// checks whether it worked.
const CACHE_TIME: Duration = Duration::from_mins(1);

/// Clients whose result is cached.
const MAX_CACHED: u64 = 10_000;

/// Reads from clients' published metadata whether it declares the keys held here, and caches the results.
#[derive(Clone, Debug)]
pub struct ClientKeys {
    net: Client,
    /// By metadata URL: whether the client is confidential with our keys; `None` when the metadata could not be read.
    confidential: Cache<String, Option<bool>>,
}

#[derive(Deserialize)]
struct Metadata {
    token_endpoint_auth_method: Option<String>,
    jwks_uri: Option<String>,
}

/// The URL of an API client's public keys.
pub fn jwks_uri(access: &Access, client_id: &str) -> String {
    format!("{}/oauth/clients/{client_id}/jwks.json", access.origin)
}

/// A new key of a client. Its `kid` is its thumbprint.
///
/// # Panics
/// Never: the key is of P-256.
pub fn generate(access: &Access, client_id: &str) -> ClientKeyRow {
    let key = PrivateKey::generate(Algorithm::Es256, &access.core.random);
    let kid = jwk::thumbprint(&key.public()).expect("a key of P-256 has a thumbprint");
    let mut public = jwk::public_jwk(&key.public()).expect("a key of P-256 has a JWK");
    public["kid"] = kid.as_str().into();
    public["alg"] = "ES256".into();
    public["use"] = "sig".into();
    ClientKeyRow {
        sealed: access.vault.seal_client_key(&kid, &key),
        kid,
        client_id: client_id.to_owned(),
        public_jwk: public.to_string(),
        status: "current".to_owned(),
        created_at: access.core.clock.now(),
    }
}

impl ClientKeys {
    pub fn new(net: Client) -> Self {
        let confidential = Cache::builder().max_capacity(MAX_CACHED).time_to_live(CACHE_TIME).build();
        Self { net, confidential }
    }

    /// Removes the cached result for a client's metadata.
    pub async fn forget(&self, client_id_url: &str) {
        self.confidential.invalidate(client_id_url).await;
    }

    /// Whether a client's metadata makes it confidential with our keys; `None` when it can't be read.
    pub async fn is_confidential(&self, access: &Access, id: &str, client_id_url: &str) -> Option<bool> {
        let expected = jwks_uri(access, id);
        self.confidential
            .get_with_by_ref(client_id_url, async {
                let metadata: Metadata = match self.net.get_json(client_id_url, Limits::DOCUMENT_BYTES).await
                {
                    Ok(metadata) => metadata,
                    Err(error) => {
                        tracing::info!(client_id_url, %error, "a client's metadata can't be read");
                        return None;
                    }
                };
                let method = metadata.token_endpoint_auth_method.as_deref();
                Some(method == Some("private_key_jwt") && metadata.jwks_uri.as_deref() == Some(&expected))
            })
            .await
    }

    /// The `kid` of the key that a new session is pinned to. A client that has a key counts as confidential unless its
    /// metadata can be read and says otherwise.
    ///
    /// # Errors
    /// When the store can't be read.
    pub async fn kid_for_new_session(
        &self,
        access: &Access,
        client: &ApiClient,
    ) -> Result<Option<String>, StoreError> {
        let Some(key) = api_client_keys::current(&access.core.db, &client.id).await? else { return Ok(None) };
        let confidential = self.is_confidential(access, &client.id, &client.client_id_url).await;
        Ok((confidential != Some(false)).then_some(key.kid))
    }
}
