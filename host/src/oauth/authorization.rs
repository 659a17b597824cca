//! A user's way to their authorization server and back: what is asked, what is remembered meanwhile, and what came of it.

use std::fmt;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use url::Url;
use zeroize::Zeroizing;

use super::flow::{self, FlowError, Tokens};
use super::own::SCOPES;
use super::{Account, Courier, Discovery, DiscoveryError, OwnClient, OwnKey};
use crate::atproto::Did;
use crate::crypto::{Algorithm, PrivateKey, SealingKey, sha256, sha256_hex};
use crate::fair_share::Tenant;
use crate::store::oauth_states::{self, Bounds, NewState};
use crate::store::{Db, StoreError};

/// How long a user may take to sign in and consent.
pub const STATE_SECONDS: i64 = 15 * 60;

/// Flows under way. Rows are made for anybody who asks, and each lives until its user comes back or [`STATE_SECONDS`]
/// are over.
const FLOWS: Bounds = Bounds {
    // A household or an office behind one address.
    of_sender: 50,
    // At the pace at which a target's flows may begin (`PublicLimit::LOGIN`) the oldest is some minutes old when it ends.
    of_target: 2_000,
    // Some ten megabytes.
    all: 10_000,
};

/// Random bytes of a state, and of a code verifier: too many to guess.
const SECRET_BYTES: usize = 32;

/// Sends users to their servers and takes them back.
pub struct Authorizations {
    db: Db,
    sealing: SealingKey,
    courier: Courier,
    discovery: Discovery,
    key: Arc<OwnKey>,
}

/// What a flow is to end in. Kept sealed with the rest.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Goal {
    /// Where the browser goes in the end.
    pub return_to: String,
    /// Hash of what the browser must bring back beside the state; none when it may be another browser.
    pub browser: Option<String>,
    /// Not a login: a linked repo is authorized.
    pub grant: Option<GrantGoal>,
}

/// Which linked repo a flow is for.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct GrantGoal {
    pub id: String,
    /// The invite (its hash) that the flow began with; none when an admin began it.
    pub invite: Option<String>,
}

#[derive(Deserialize, Serialize)]
struct Pending {
    did: Did,
    issuer: String,
    origin: String,
    scope: String,
    verifier: String,
    /// The DPoP key's scalar.
    key: String,
    goal: Goal,
}

/// A user who came back with what was asked.
#[derive(Debug)]
pub struct Completed {
    pub did: Did,
    pub account: Account,
    pub client: OwnClient,
    /// The key that client assertions must be signed with from now on.
    pub kid: Option<String>,
    pub key: PrivateKey,
    pub tokens: Tokens,
    pub goal: Goal,
}

/// Why a flow can't begin or end.
#[derive(Debug, thiserror::Error)]
pub enum AuthorizationError {
    #[error(transparent)]
    Discovery(#[from] DiscoveryError),
    #[error(transparent)]
    Flow(#[from] FlowError),
    /// The state was never given out, was used, or is too old.
    #[error("the login has expired")]
    Expired,
    /// The user, or their server, said no.
    #[error("the authorization server answered {0}")]
    Denied(String),
    #[error("the answer is not from the account's authorization server")]
    Issuer,
    #[error("the tokens are another account's")]
    Account,
    #[error("the tokens lack the atproto scope")]
    Scope,
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the authorization endpoint is no URL")]
    Endpoint,
    #[error("too many logins of this address are under way")]
    TooMany,
}

/// What the authorization server sends the browser back with.
#[derive(Clone, Copy, Debug)]
pub struct Callback<'a> {
    pub state: &'a str,
    pub code: Option<&'a str>,
    pub iss: Option<&'a str>,
    pub error: Option<&'a str>,
}

impl Authorizations {
    pub fn new(
        db: Db,
        sealing: SealingKey,
        courier: Courier,
        discovery: Discovery,
        key: Arc<OwnKey>,
    ) -> Self {
        Self { db, sealing, courier, discovery, key }
    }

    pub fn key(&self) -> &OwnKey {
        &self.key
    }

    fn purpose(id: &str) -> String {
        format!("oauth_states.{id}")
    }

    /// Begins a flow for an account, at an origin of ours; where the browser is to go. `sender` is the network of the
    /// caller who asks for it.
    ///
    /// # Errors
    /// When the account's server can't be found, or does not want us, or the sender has too many flows under way.
    pub async fn begin(
        &self,
        did: &Did,
        origin: &str,
        scope: &str,
        goal: Goal,
        sender: &Tenant,
    ) -> Result<Url, AuthorizationError> {
        let (random, now) = (self.courier.random(), self.courier.clock().now());
        let sender = sender.to_string();
        // Before other servers are asked; counted again when the row is written.
        if oauth_states::count_of_sender(&self.db, &sender, now).await? >= FLOWS.of_sender {
            return Err(AuthorizationError::TooMany);
        }
        let account = self.discovery.account(did).await?;
        let (state, verifier) = (random.hex(SECRET_BYTES), random.hex(SECRET_BYTES));
        let key = PrivateKey::generate(Algorithm::Es256, random);
        let client = OwnClient::of(origin, declared(scope));
        let challenge = URL_SAFE_NO_PAD.encode(sha256(verifier.as_bytes()));
        let request = [
            ("response_type", "code"),
            ("redirect_uri", &client.redirect_uri),
            ("scope", scope),
            ("state", &state),
            ("code_challenge", &challenge),
            ("code_challenge_method", "S256"),
            ("login_hint", did.as_str()),
        ];
        let identity = client.identity(&self.key);
        let request_uri = flow::push(&self.courier, &account.server, &identity, &key, &request).await?;
        let pending = Pending {
            did: did.clone(),
            issuer: account.server.issuer.clone(),
            origin: origin.to_owned(),
            scope: scope.to_owned(),
            verifier,
            key: hex::encode(*key.to_bytes()),
            goal,
        };
        let id = sha256_hex(state.as_bytes());
        // Strings always serialize.
        let text = Zeroizing::new(serde_json::to_vec(&pending).unwrap_or_default());
        let sealed = self.sealing.seal(random, &Self::purpose(&id), &text);
        let issuer = Url::parse(&account.server.issuer).map_err(|_| AuthorizationError::Endpoint)?;
        let target = Tenant::of_host(issuer.host_str().unwrap_or_default()).to_string();
        let (sealed, expires_at) = (&sealed[..], now.plus_seconds(STATE_SECONDS));
        let state = NewState { id: &id, sealed, expires_at, sender: &sender, target: &target };
        if !oauth_states::put(&self.db, &state, &FLOWS, now).await? {
            return Err(AuthorizationError::TooMany);
        }
        let mut url =
            Url::parse(&account.server.authorization_endpoint).map_err(|_| AuthorizationError::Endpoint)?;
        url.query_pairs_mut()
            .append_pair("client_id", &client.client_id)
            .append_pair("request_uri", &request_uri);
        Ok(url)
    }

    /// Ends a flow with what the browser brought back. Its state is used up, whatever comes of it.
    ///
    /// # Errors
    /// When it is not the answer to what was asked, with what the flow was to end in as far as it is known.
    pub async fn complete(
        &self,
        callback: &Callback<'_>,
    ) -> Result<Completed, (AuthorizationError, Option<Goal>)> {
        let pending = self.take(callback.state).await.map_err(|error| (error, None))?;
        let goal = pending.goal.clone();
        self.exchange(callback, pending).await.map_err(|error| (error, Some(goal)))
    }

    async fn take(&self, state: &str) -> Result<Pending, AuthorizationError> {
        let id = sha256_hex(state.as_bytes());
        let sealed = oauth_states::take(&self.db, &id, self.courier.clock().now()).await?;
        let sealed = sealed.ok_or(AuthorizationError::Expired)?;
        let text =
            self.sealing.open(&Self::purpose(&id), &sealed).map_err(|_| AuthorizationError::Expired)?;
        serde_json::from_slice(&text).map_err(|_| AuthorizationError::Expired)
    }

    async fn exchange(
        &self,
        callback: &Callback<'_>,
        pending: Pending,
    ) -> Result<Completed, AuthorizationError> {
        // RFC 9207: an answer that another server mixed in is none.
        if callback.iss != Some(pending.issuer.as_str()) {
            return Err(AuthorizationError::Issuer);
        }
        if let Some(error) = callback.error {
            return Err(AuthorizationError::Denied(error.chars().take(64).collect()));
        }
        let code = callback.code.ok_or(AuthorizationError::Issuer)?;
        // The account may have moved since: whose tokens they are is its server's to say, and only its own.
        let account = self.discovery.account(&pending.did).await?;
        if account.server.issuer != pending.issuer {
            return Err(AuthorizationError::Issuer);
        }
        let scalar = Zeroizing::new(hex::decode(&pending.key).unwrap_or_default());
        let key =
            PrivateKey::from_bytes(Algorithm::Es256, &scalar).map_err(|_| AuthorizationError::Expired)?;
        let client = OwnClient::of(&pending.origin, declared(&pending.scope));
        let identity = client.identity(&self.key);
        let redirect = client.redirect_uri.clone();
        let answer = (code, pending.verifier.as_str(), redirect.as_str());
        let tokens = flow::exchange(&self.courier, &account.server, &identity, &key, answer).await?;
        if tokens.sub.as_deref() != Some(pending.did.as_str()) {
            return Err(AuthorizationError::Account);
        }
        if !tokens.scope.split_ascii_whitespace().any(|scope| scope == "atproto") {
            return Err(AuthorizationError::Scope);
        }
        let kid = client.confidential.then(|| self.key.kid());
        Ok(Completed { did: pending.did, account, client, kid, key, tokens, goal: pending.goal })
    }
}

/// What a loopback client's name says that it may ask for: what logins do, or else exactly what it asks for.
fn declared(scope: &str) -> &str {
    let asked = |one: &str| SCOPES.split(' ').any(|known| known == one);
    if scope.split(' ').all(asked) { SCOPES } else { scope }
}

impl fmt::Debug for Authorizations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Authorizations")
    }
}
