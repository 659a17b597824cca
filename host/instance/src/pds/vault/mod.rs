//! Stores sessions: seals and opens them. `registration` adds sessions, `renewal` renews their
//! tokens, `moves` ends those of accounts that have moved.

mod moves;
mod registration;
mod renewal;

pub use registration::Registration;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use moka::sync::Cache;
use serde::{Deserialize, Serialize};
use tokio::sync::{Mutex, Notify};
use tokio_util::task::TaskTracker;
use zeroize::Zeroizing;

use crate::config::Secret;
use crate::oauth::{ClientCredentials, Discovery, DiscoveryError, DpopClient, FlowError, OwnKeys, flow};
use crate::pds::{BoundSession, Credential, EffectiveScopesCache, Session};
use belvedere_base::clock::{Clock, Timestamp};
use belvedere_base::random::Random;
use belvedere_protocol::atproto::Did;
use belvedere_protocol::crypto::{Algorithm, PrivateKey, SealingKey};
use belvedere_storage::store::oauth_sessions::{self, SessionRow};
use belvedere_storage::store::{Db, StoreError, api_client_keys};

/// Cached renewal locks, one for each session. A lock is needed only while it is held, for seconds.
const MAX_LOCKS: u64 = 100_000;

/// The store of sealed sessions. Cheap to clone.
#[derive(Clone)]
pub struct Vault(Arc<Inner>);

struct Inner {
    db: Db,
    sealing: SealingKey,
    dpop_client: DpopClient,
    discovery: Discovery,
    own_keys: OwnKeys,
    /// Runs renewals to completion even when their callers are cancelled: a token response that is not stored would
    /// lose the session, because the refresh token is used up.
    tasks: TaskTracker,
    /// Locks of this process for renewals, by session.
    locks: Cache<String, Arc<Mutex<()>>>,
    /// Wakes the task that revokes ended sessions.
    revocation_queued: Notify,
    effective_scopes: EffectiveScopesCache,
}

/// The decrypted tokens of one version of a session.
#[derive(Debug)]
pub(super) struct SessionTokens {
    pub access: Secret<String>,
    pub expires_at: Option<Timestamp>,
    pub refreshable: bool,
    pub(super) version: i64,
}

/// The reason why a session's tokens can't be renewed, or the session can't be revoked.
#[derive(Debug, thiserror::Error)]
pub enum RenewError {
    /// The session was revoked, deleted, or has no refresh token.
    #[error("the session has ended")]
    Ended,
    /// The account's DID document names another PDS than the one at which the session was made.
    #[error("the account has moved to another PDS")]
    Moved,
    #[error(transparent)]
    Flow(#[from] FlowError),
    #[error(transparent)]
    Discovery(#[from] DiscoveryError),
    #[error("another host has been refreshing the session for too long")]
    Stuck,
    #[error("the key that the session authenticates with is gone")]
    NoClientKey,
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("a stored session can't be decrypted")]
    Sealed,
}

/// The sealed part of a session.
#[derive(Deserialize, Serialize)]
struct SealedTokens<'a> {
    #[serde(borrow)]
    access_token: Cow<'a, str>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    refresh_token: Option<Cow<'a, str>>,
}

/// The purpose under which the tokens of a session are sealed. It contains the id of the DPoP key, which never changes
/// during a session.
fn tokens_purpose(key_id: &str) -> String {
    format!("oauth_sessions.tokens.{key_id}")
}

fn key_purpose(key_id: &str) -> String {
    format!("dpop_keys.{key_id}")
}

impl Vault {
    pub fn new(
        db: Db,
        sealing: SealingKey,
        dpop_client: DpopClient,
        discovery: Discovery,
        own_keys: OwnKeys,
        tasks: TaskTracker,
    ) -> Self {
        let locks = Cache::builder().max_capacity(MAX_LOCKS).build();
        let effective_scopes = EffectiveScopesCache::new(db.clone());
        Self(Arc::new(Inner {
            db,
            sealing,
            dpop_client,
            discovery,
            own_keys,
            tasks,
            locks,
            revocation_queued: Notify::new(),
            effective_scopes,
        }))
    }

    pub(super) fn db(&self) -> &Db {
        &self.0.db
    }

    /// Computes the effective scopes of sessions.
    pub fn effective_scopes(&self) -> &EffectiveScopesCache {
        &self.0.effective_scopes
    }

    pub(super) fn revocation_queued(&self) -> &Notify {
        &self.0.revocation_queued
    }

    pub(super) fn dpop_client(&self) -> &DpopClient {
        &self.0.dpop_client
    }

    pub(super) fn clock(&self) -> &Clock {
        self.0.dpop_client.clock()
    }

    fn random(&self) -> &Random {
        self.0.dpop_client.random()
    }

    /// Seals the tokens of the session whose DPoP key has this id.
    fn seal_tokens(&self, key_id: &str, access_token: &str, refresh_token: Option<&str>) -> Vec<u8> {
        let tokens =
            SealedTokens { access_token: access_token.into(), refresh_token: refresh_token.map(Cow::from) };
        // Cannot fail: strings always serialize.
        let text = Zeroizing::new(serde_json::to_vec(&tokens).unwrap_or_default());
        self.0.sealing.seal(self.random(), &tokens_purpose(key_id), &text)
    }

    /// Seals a DPoP key.
    pub fn seal_key(&self, key_id: &str, key: &PrivateKey) -> Vec<u8> {
        self.0.sealing.seal(self.random(), &key_purpose(key_id), &*key.to_bytes())
    }

    /// Opens a sealed DPoP key.
    ///
    /// # Errors
    /// [`RenewError::Sealed`] when it was sealed under another key.
    pub fn open_key(&self, key_id: &str, sealed: &[u8]) -> Result<PrivateKey, RenewError> {
        let scalar = self.0.sealing.open(&key_purpose(key_id), sealed).map_err(|_| RenewError::Sealed)?;
        PrivateKey::from_bytes(Algorithm::Es256, &scalar).map_err(|_| RenewError::Sealed)
    }

    /// The session with an id.
    ///
    /// # Errors
    /// When the store can't be read, or the session can't be decrypted.
    pub async fn by_id(&self, id: &str) -> Result<Option<Session>, StoreError> {
        self.open_session(oauth_sessions::get(&self.0.db, id).await?).await
    }

    /// The newest session of an account at an API client (by id), or of the logins at the instance.
    ///
    /// # Errors
    /// As [`Self::by_id`].
    pub async fn newest(&self, did: &Did, client: Option<&str>) -> Result<Option<Session>, StoreError> {
        self.open_session(oauth_sessions::newest(&self.0.db, did.as_str(), client).await?).await
    }

    async fn open_session(&self, row: Option<SessionRow>) -> Result<Option<Session>, StoreError> {
        let Some(row) = row else { return Ok(None) };
        let damaged = |what| StoreError::Corrupt(format!("oauth_sessions {}: {what}", row.id));
        let did = Did::try_from(row.did.as_str()).map_err(|_| damaged("its DID is invalid"))?;
        let unreadable = |_| damaged("sealed under another TOKEN_ENCRYPTION_KEY, or damaged");
        let key = self.open_key(&row.key_id, &row.sealed_key).map_err(unreadable)?;
        let tokens = self.open_tokens(&row).map_err(unreadable)?;
        let bound = BoundSession::new(self.clone(), &row, did.clone(), key, tokens);
        let permits = match &row.client_scopes {
            None => None,
            Some(client) => {
                let effective_scopes: Vec<&str> =
                    [client].into_iter().chain(&row.parent_scopes).map(String::as_str).collect();
                Some(self.0.effective_scopes.permits(&row.scopes, &effective_scopes).await?)
            }
        };
        let credential = Credential::Dpop(Arc::new(bound));
        Ok(Some(Session { did, endpoint: row.pds, credential, permits }))
    }

    fn open_tokens(&self, row: &SessionRow) -> Result<SessionTokens, RenewError> {
        let text = self.tokens_text(row)?;
        let tokens: SealedTokens<'_> = serde_json::from_slice(&text).map_err(|_| RenewError::Sealed)?;
        Ok(SessionTokens {
            access: Secret::new(tokens.access_token.into_owned()),
            expires_at: row.expires_at,
            refreshable: row.refreshable,
            version: row.version,
        })
    }

    fn tokens_text(&self, row: &SessionRow) -> Result<Zeroizing<Vec<u8>>, RenewError> {
        self.0.sealing.open(&tokens_purpose(&row.key_id), &row.sealed).map_err(|_| RenewError::Sealed)
    }

    /// Revokes sealed tokens, bound to the DPoP key with this id, at their authorization server.
    pub(super) async fn revoke_tokens(
        &self,
        issuer: &str,
        client: &ClientCredentials,
        key_id: &str,
        sealed: &[u8],
        sealed_key: &[u8],
    ) -> Result<(), RenewError> {
        let text = self.0.sealing.open(&tokens_purpose(key_id), sealed).map_err(|_| RenewError::Sealed)?;
        let tokens: SealedTokens<'_> = serde_json::from_slice(&text).map_err(|_| RenewError::Sealed)?;
        let key = self.open_key(key_id, sealed_key)?;
        let server = self.0.discovery.server(issuer).await?;
        let token = tokens.refresh_token.unwrap_or(tokens.access_token);
        Ok(flow::revoke(&self.0.dpop_client, &server, client, &key, &token).await?)
    }

    /// The credentials of the session's client at its authorization server.
    async fn client_credentials(&self, row: &SessionRow) -> Result<ClientCredentials, RenewError> {
        let key = match (&row.client_id, &row.assertion_kid) {
            (Some(client), Some(kid)) => {
                let key = api_client_keys::get(&self.0.db, client, kid).await?;
                let key = key.ok_or(RenewError::NoClientKey)?;
                Some((kid.clone(), self.open_client_key(kid, &key.sealed)?))
            }
            // A login at the instance itself.
            (None, Some(kid)) => {
                let key = self.0.own_keys.get(kid).await?.ok_or(RenewError::NoClientKey)?;
                return Ok(key.credentials(row.oauth_client_id.clone()));
            }
            (_, None) => None,
        };
        Ok(ClientCredentials { client_id: row.oauth_client_id.clone(), key })
    }

    /// The credentials of the instance with its own key of this id, as the client `client_id`, to revoke a session.
    pub(super) async fn own_revocation_credentials(
        &self,
        kid: &str,
        client_id: String,
    ) -> Result<ClientCredentials, RenewError> {
        let key = self.0.own_keys.get_for_revocation(kid).await?.ok_or(RenewError::NoClientKey)?;
        Ok(key.credentials(client_id))
    }

    /// Seals the key with which an API client authenticates.
    pub fn seal_client_key(&self, kid: &str, key: &PrivateKey) -> Vec<u8> {
        self.0.sealing.seal(self.random(), &format!("api_client_keys.{kid}"), &*key.to_bytes())
    }

    /// Opens the sealed key of an API client.
    ///
    /// # Errors
    /// [`RenewError::Sealed`] when it was sealed under another key.
    pub fn open_client_key(&self, kid: &str, sealed: &[u8]) -> Result<PrivateKey, RenewError> {
        let purpose = format!("api_client_keys.{kid}");
        let scalar = self.0.sealing.open(&purpose, sealed).map_err(|_| RenewError::Sealed)?;
        PrivateKey::from_bytes(Algorithm::Es256, &scalar).map_err(|_| RenewError::Sealed)
    }
}

impl fmt::Debug for Vault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Vault")
    }
}
