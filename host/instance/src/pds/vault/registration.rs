//! Stores a new session: one that an application registers, or a login at the instance.

use super::Vault;
use belvedere_base::clock::Timestamp;
use belvedere_protocol::atproto::Did;
use belvedere_protocol::crypto::sha256_hex;
use belvedere_storage::store::StoreError;
use belvedere_storage::store::oauth_sessions::{self, NewSession};

/// A session with a PDS, with its tokens not yet sealed.
#[derive(Debug)]
pub struct Registration<'a> {
    /// The id of the DPoP key that the tokens are bound to. The key is already stored.
    pub key_id: &'a str,
    /// The API client that the session belongs to; `None` for a login at the instance.
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
    /// The `client_id` at the authorization server.
    pub oauth_client_id: &'a str,
    /// The id of the key that signs client assertions; `None` for a public client.
    pub assertion_kid: Option<&'a str>,
}

impl Vault {
    /// Seals the tokens and stores the session. Returns its id, or `None` when the DPoP key is deleted or belongs to
    /// another account.
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
