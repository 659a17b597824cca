//! Stored sessions: sealing, opening and ending them; `renewal` renews their tokens.

mod registration;
mod renewal;

pub use registration::Registration;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use moka::sync::Cache;
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;
use tokio_util::task::TaskTracker;
use url::Url;
use zeroize::Zeroizing;

use crate::atproto::Did;
use crate::clock::{Clock, Timestamp};
use crate::config::Secret;
use crate::crypto::{Algorithm, PrivateKey, SealingKey};
use crate::fair_share::{Bounds, FairPool, Full, Tenant};
use crate::oauth::{ClientIdentity, Courier, Discovery, DiscoveryError, FlowError, OwnKey, flow};
use crate::pds::{BoundSession, Ceilings, Credential, Session};
use crate::random::Random;
use crate::store::oauth_sessions::{self, SessionRow};
use crate::store::{Db, StoreError, api_client_keys};

/// Locks kept of sessions that were refreshed: one is needed while it is held, which is seconds.
const LOCKS: u64 = 100_000;

/// Revocations at authorization servers. Nobody waits for them, and a server that is slow delays those of its own domain.
const REVOCATIONS: Bounds = Bounds {
    places: 16,
    per_tenant: 4,
    // What a sweep ends, several times over. What finds no room runs out by itself.
    waiting: 1024,
    waiting_per_tenant: 512,
    patience: Duration::from_mins(5),
};

/// Deleted clients whose keys are still published; each is there for as long as its sessions are being revoked.
const DEPARTING: u64 = 1_000;
const DEPARTING_TIME: Duration = Duration::from_mins(2);

/// Opens and renews sessions. Cheap to clone.
#[derive(Clone)]
pub struct Vault(Arc<Parts>);

struct Parts {
    db: Db,
    sealing: SealingKey,
    courier: Courier,
    discovery: Discovery,
    own_key: Arc<OwnKey>,
    /// Renewals are finished, whoever waits for them: an answer that nobody stored is a session lost.
    tasks: TaskTracker,
    /// Sessions that are being revoked at their servers, by the server's domain.
    revocations: FairPool,
    /// Renewals of this process, by session.
    locks: Cache<String, Arc<Mutex<()>>>,
    /// Public keys of clients that are deleted, for as long as their sessions are being revoked.
    departing: Cache<String, Vec<String>>,
    ceilings: Ceilings,
}

/// The tokens of a session, of one version.
#[derive(Debug)]
pub(super) struct Held {
    pub access: Secret<String>,
    pub expires_at: Option<Timestamp>,
    pub refreshable: bool,
    pub(super) version: i64,
}

/// Why there are no newer tokens.
#[derive(Debug, thiserror::Error)]
pub enum RenewError {
    /// The user or the server has ended it, or it can't be refreshed any more.
    #[error("the session has ended")]
    Ended,
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
    /// Too many sessions of its server are being revoked.
    #[error(transparent)]
    Full(#[from] Full),
}

/// What is sealed of a session.
#[derive(Deserialize, Serialize)]
struct SealedTokens<'a> {
    #[serde(borrow)]
    access_token: Cow<'a, str>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    refresh_token: Option<Cow<'a, str>>,
}

/// What the tokens and the key of a session are sealed for: the key's id, which a session keeps for life.
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
        courier: Courier,
        discovery: Discovery,
        own_key: Arc<OwnKey>,
        tasks: TaskTracker,
    ) -> Self {
        let locks = Cache::builder().max_capacity(LOCKS).build();
        let revocations = FairPool::new("revocations", REVOCATIONS);
        let departing = Cache::builder().max_capacity(DEPARTING).time_to_live(DEPARTING_TIME).build();
        let ceilings = Ceilings::new(db.clone());
        Self(Arc::new(Parts {
            db,
            sealing,
            courier,
            discovery,
            own_key,
            tasks,
            revocations,
            locks,
            departing,
            ceilings,
        }))
    }

    pub(super) fn db(&self) -> &Db {
        &self.0.db
    }

    /// What is left of sessions' scopes.
    pub fn ceilings(&self) -> &Ceilings {
        &self.0.ceilings
    }

    pub(super) fn tasks(&self) -> &TaskTracker {
        &self.0.tasks
    }

    pub(super) fn departing(&self) -> &Cache<String, Vec<String>> {
        &self.0.departing
    }

    pub(super) fn courier(&self) -> &Courier {
        &self.0.courier
    }

    fn clock(&self) -> &Clock {
        self.0.courier.clock()
    }

    fn random(&self) -> &Random {
        self.0.courier.random()
    }

    /// Seals the tokens of the session that the key of this id has.
    fn seal_tokens(&self, key_id: &str, access_token: &str, refresh_token: Option<&str>) -> Vec<u8> {
        let tokens =
            SealedTokens { access_token: access_token.into(), refresh_token: refresh_token.map(Cow::from) };
        // Two strings always serialize.
        let text = Zeroizing::new(serde_json::to_vec(&tokens).unwrap_or_default());
        self.0.sealing.seal(self.random(), &tokens_purpose(key_id), &text)
    }

    pub fn seal_key(&self, key_id: &str, key: &PrivateKey) -> Vec<u8> {
        self.0.sealing.seal(self.random(), &key_purpose(key_id), &*key.to_bytes())
    }

    /// # Errors
    /// When it was sealed under another key.
    pub fn open_key(&self, key_id: &str, sealed: &[u8]) -> Result<PrivateKey, RenewError> {
        let scalar = self.0.sealing.open(&key_purpose(key_id), sealed).map_err(|_| RenewError::Sealed)?;
        PrivateKey::from_bytes(Algorithm::Es256, &scalar).map_err(|_| RenewError::Sealed)
    }

    /// The session with an id.
    ///
    /// # Errors
    /// When the store can't be read, or what it holds can't be decrypted.
    pub async fn by_id(&self, id: &str) -> Result<Option<Session>, StoreError> {
        self.opened(oauth_sessions::get(&self.0.db, id).await?).await
    }

    /// The newest session of an account under an API client (by id), or of the instance's own logins.
    ///
    /// # Errors
    /// As [`Self::by_id`].
    pub async fn newest(&self, did: &Did, client: Option<&str>) -> Result<Option<Session>, StoreError> {
        self.opened(oauth_sessions::newest(&self.0.db, did.as_str(), client).await?).await
    }

    async fn opened(&self, row: Option<SessionRow>) -> Result<Option<Session>, StoreError> {
        let Some(row) = row else { return Ok(None) };
        let damaged = |what| StoreError::Corrupt(format!("oauth_sessions {}: {what}", row.id));
        let did = Did::try_from(row.did.as_str()).map_err(|_| damaged("its DID is none"))?;
        let unreadable = |_| damaged("sealed under another TOKEN_ENCRYPTION_KEY, or damaged");
        let key = self.open_key(&row.key_id, &row.sealed_key).map_err(unreadable)?;
        let held = self.held(&row).map_err(unreadable)?;
        let bound = BoundSession::new(self.clone(), row.id.clone(), key, held);
        let permits = match &row.client_scopes {
            None => None,
            Some(client) => {
                let ceilings: Vec<&str> =
                    [client].into_iter().chain(&row.parent_scopes).map(String::as_str).collect();
                Some(self.0.ceilings.permits(&row.scopes, &ceilings).await?)
            }
        };
        let credential = Credential::Dpop(Arc::new(bound));
        Ok(Some(Session { did, endpoint: row.pds, credential, permits }))
    }

    fn held(&self, row: &SessionRow) -> Result<Held, RenewError> {
        let text = self.tokens_text(row)?;
        let tokens: SealedTokens<'_> = serde_json::from_slice(&text).map_err(|_| RenewError::Sealed)?;
        Ok(Held {
            access: Secret::new(tokens.access_token.into_owned()),
            expires_at: row.expires_at,
            refreshable: row.refreshable,
            version: row.version,
        })
    }

    fn tokens_text(&self, row: &SessionRow) -> Result<Zeroizing<Vec<u8>>, RenewError> {
        self.0.sealing.open(&tokens_purpose(&row.key_id), &row.sealed).map_err(|_| RenewError::Sealed)
    }

    /// Ends a session at its authorization server, as far as that lets us, and forgets it.
    ///
    /// # Errors
    /// When the store can't be used. A server that does not answer is no error: its session runs out.
    pub async fn end(&self, id: &str) -> Result<bool, StoreError> {
        let Some(row) = oauth_sessions::get(&self.0.db, id).await? else { return Ok(false) };
        if !oauth_sessions::delete(&self.0.db, id).await? {
            // Another caller or host ends it.
            return Ok(false);
        }
        let vault = self.clone();
        self.0.tasks.spawn(async move {
            if let Err(error) = vault.revoke(&row).await {
                tracing::info!(session = row.id, %error, "a session could not be revoked at its server");
            }
        });
        Ok(true)
    }

    async fn revoke(&self, row: &SessionRow) -> Result<(), RenewError> {
        self.revoke_as(row, &self.identity(row).await?).await
    }

    /// Ends a session at its authorization server, in the name of its client.
    pub(super) async fn revoke_as(
        &self,
        row: &SessionRow,
        client: &ClientIdentity,
    ) -> Result<(), RenewError> {
        let issuer = Url::parse(&row.issuer).ok();
        let host = issuer.as_ref().and_then(Url::host_str).unwrap_or_default();
        let _place = self.0.revocations.enter(&Tenant::of_host(host)).await?;
        let text = self.tokens_text(row)?;
        let tokens: SealedTokens<'_> = serde_json::from_slice(&text).map_err(|_| RenewError::Sealed)?;
        let key = self.open_key(&row.key_id, &row.sealed_key)?;
        let server = self.0.discovery.server(&row.issuer).await?;
        let token = tokens.refresh_token.unwrap_or(tokens.access_token);
        Ok(flow::revoke(&self.0.courier, &server, client, &key, &token).await?)
    }

    /// Who the session's client is to its authorization server.
    async fn identity(&self, row: &SessionRow) -> Result<ClientIdentity, RenewError> {
        let key = match (&row.client_id, &row.assertion_kid) {
            (Some(client), Some(kid)) => {
                let key = api_client_keys::get(&self.0.db, client, kid).await?;
                let key = key.ok_or(RenewError::NoClientKey)?;
                Some((kid.clone(), self.open_client_key(kid, &key.sealed)?))
            }
            // A login of the instance's own.
            (None, Some(kid)) if *kid == self.0.own_key.kid() => {
                self.0.own_key.key().map(|key| (kid.clone(), key))
            }
            (None, Some(_)) => return Err(RenewError::NoClientKey),
            (_, None) => None,
        };
        Ok(ClientIdentity { client_id: row.oauth_client_id.clone(), key })
    }

    /// Seals the key by which an API client authenticates.
    pub fn seal_client_key(&self, kid: &str, key: &PrivateKey) -> Vec<u8> {
        self.0.sealing.seal(self.random(), &format!("api_client_keys.{kid}"), &*key.to_bytes())
    }

    /// # Errors
    /// When it was sealed under another key.
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
