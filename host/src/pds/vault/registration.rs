//! Taking a session in: one that an application brings, or one of the instance's own users.

use super::Vault;
use crate::atproto::Did;
use crate::clock::Timestamp;
use crate::crypto::sha256_hex;
use crate::store::StoreError;
use crate::store::oauth_sessions::{self, NewSession};

/// A session with a PDS, as whoever got its tokens has it.
#[derive(Debug)]
pub struct Registration<'a> {
    /// The DPoP key that the tokens are bound to; it is stored already.
    pub key_id: &'a str,
    /// The API client that the session belongs to; `None` for the instance's own users.
    pub client_id: Option<&'a str>,
    pub did: &'a Did,
    /// Origin of the account's PDS.
    pub pds: &'a str,
    /// Its authorization server.
    pub issuer: &'a str,
    pub scopes: &'a str,
    pub access_token: &'a str,
    pub refresh_token: Option<&'a str>,
    pub expires_at: Option<Timestamp>,
    /// Who the authorization server takes the client for.
    pub oauth_client_id: &'a str,
    /// The key that confidential clients prove to be themselves with.
    pub assertion_kid: Option<&'a str>,
}

impl Vault {
    /// Seals the tokens and stores the session; its id. `None` when the key is another account's by now, or gone.
    ///
    /// # Errors
    /// When the store can't be used.
    pub async fn register(&self, registration: &Registration<'_>) -> Result<Option<String>, StoreError> {
        let Registration { key_id, access_token, refresh_token, .. } = *registration;
        let session = NewSession {
            id: &self.random().uuid(),
            key_id,
            client_id: registration.client_id,
            did: registration.did.as_str(),
            scopes: registration.scopes,
            token_hash: &sha256_hex(access_token.as_bytes()),
            pds: registration.pds,
            issuer: registration.issuer,
            oauth_client_id: registration.oauth_client_id,
            assertion_kid: registration.assertion_kid,
            sealed: &self.seal_tokens(key_id, access_token, refresh_token),
            refreshable: refresh_token.is_some(),
            expires_at: registration.expires_at,
        };
        oauth_sessions::register(self.db(), &session, self.clock().now()).await
    }
}
