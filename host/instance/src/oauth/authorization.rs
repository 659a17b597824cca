//! Runs authorization flows: sends a user to their authorization server, stores the pending flow, and exchanges the
//! code of the callback for tokens.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use url::Url;
use zeroize::Zeroizing;

use super::flow::{self, FlowError, Tokens};
use super::own::SCOPES;
use super::{Account, Discovery, DiscoveryError, DpopClient, OwnClient, OwnKeys};
use belvedere_protocol::atproto::Did;
use belvedere_protocol::crypto::{Algorithm, PrivateKey, SealingKey, sha256, sha256_hex};
use belvedere_storage::store::oauth_states::{self, Bounds, NewState};
use belvedere_storage::store::{Db, StoreError};
use belvedere_web::fair_share::Tenant;

/// Time for which a pending flow is kept, in seconds: the time that a user has to sign in and consent.
pub const STATE_SECONDS: i64 = 15 * 60;

/// Bounds of pending flows. Any client can create a row, which stays until the user comes back or [`STATE_SECONDS`]
/// have passed.
const MAX_PENDING: Bounds = Bounds {
    // A household or an office behind one address.
    of_sender: 50,
    // At the rate limit of logins (`PublicLimit::LOGIN`) the oldest flow is minutes old when this bound is reached.
    of_target: 2_000,
    // About ten megabytes.
    all: 10_000,
};

/// Random bytes of a state, and of a code verifier.
const SECRET_BYTES: usize = 32;

/// Begins and completes authorization flows.
pub struct Authorizations {
    db: Db,
    sealing: SealingKey,
    dpop_client: DpopClient,
    discovery: Discovery,
    keys: OwnKeys,
}

/// The server's actions after a flow. Sealed together with the pending flow.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct FlowGoal {
    /// The URL to which the browser is redirected after the flow.
    pub return_to: String,
    /// Hash of the cookie that the browser must send with the callback; `None` when another browser may complete the
    /// flow.
    pub browser: Option<String>,
    /// Set when the flow authorizes a linked repo instead of a login.
    pub grant: Option<LinkedRepoGoal>,
}

/// The linked repo that a flow is for.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct LinkedRepoGoal {
    pub id: String,
    /// Hash of the invite that began the flow; `None` when an admin began it.
    pub invite: Option<String>,
}

/// A pending flow, as it is sealed in the store.
#[derive(Deserialize, Serialize)]
struct PendingFlow {
    did: Did,
    issuer: String,
    origin: String,
    scope: String,
    /// Id of the key that the client authenticated with, which has to be the same until the flow ends. `None` for a
    /// public client.
    #[serde(default)]
    kid: Option<String>,
    verifier: String,
    /// The DPoP key's scalar, in hex.
    key: String,
    goal: FlowGoal,
}

/// A completed flow: the user's tokens and what they belong to.
#[derive(Debug)]
pub struct CompletedFlow {
    pub did: Did,
    pub account: Account,
    pub client: OwnClient,
    /// Id of the key that signs the client assertions of this session; `None` for a public client.
    pub kid: Option<String>,
    pub key: PrivateKey,
    pub tokens: Tokens,
    pub goal: FlowGoal,
}

/// The reason why a flow can't begin or can't be completed.
#[derive(Debug, thiserror::Error)]
pub enum AuthorizationError {
    #[error(transparent)]
    Discovery(#[from] DiscoveryError),
    #[error(transparent)]
    Flow(#[from] FlowError),
    /// The state is unknown, already used, or too old.
    #[error("the login has expired")]
    Expired,
    /// The user or the authorization server denied the request.
    #[error("the authorization server answered {0}")]
    Denied(String),
    #[error("the answer is not from the account's authorization server")]
    Issuer,
    #[error("the tokens belong to another account")]
    Account,
    #[error("the tokens lack the atproto scope")]
    Scope,
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the authorization endpoint is not a URL")]
    Endpoint,
    #[error("too many logins from this address are in progress")]
    TooMany,
}

/// The query parameters of the callback.
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
        dpop_client: DpopClient,
        discovery: Discovery,
        keys: OwnKeys,
    ) -> Self {
        Self { db, sealing, dpop_client, discovery, keys }
    }

    pub fn keys(&self) -> &OwnKeys {
        &self.keys
    }

    fn purpose(id: &str) -> String {
        format!("oauth_states.{id}")
    }

    /// Begins a flow for an account. Returns the URL to which the browser is redirected. `origin` is the instance's
    /// origin for the callback, `sender` the network of the client that begins the flow.
    ///
    /// # Errors
    /// When the account's server can't be found or refuses the request, or too many flows are pending.
    pub async fn begin(
        &self,
        did: &Did,
        origin: &str,
        scope: &str,
        goal: FlowGoal,
        sender: &Tenant,
    ) -> Result<Url, AuthorizationError> {
        let (random, now) = (self.dpop_client.random(), self.dpop_client.clock().now());
        let sender = sender.to_string();
        // Checked before other servers are called; counted again when the row is written.
        if oauth_states::count_of_sender(&self.db, &sender, now).await? >= MAX_PENDING.of_sender {
            return Err(AuthorizationError::TooMany);
        }
        let account = self.discovery.account(did).await?;
        let (state, verifier) = (random.hex(SECRET_BYTES), random.hex(SECRET_BYTES));
        let key = PrivateKey::generate(Algorithm::Es256, random);
        let client = OwnClient::of(origin, declared_scopes(scope));
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
        let credentials = client.credentials(&self.keys).await?;
        let request_uri =
            flow::push_request(&self.dpop_client, &account.server, &credentials, &key, &request).await?;
        let pending = PendingFlow {
            did: did.clone(),
            issuer: account.server.issuer.clone(),
            origin: origin.to_owned(),
            scope: scope.to_owned(),
            kid: credentials.key.map(|(kid, _)| kid),
            verifier,
            key: hex::encode(*key.to_bytes()),
            goal,
        };
        let id = sha256_hex(state.as_bytes());
        // Cannot fail: strings always serialize.
        let text = Zeroizing::new(serde_json::to_vec(&pending).unwrap_or_default());
        let sealed = self.sealing.seal(random, &Self::purpose(&id), &text);
        let issuer = Url::parse(&account.server.issuer).map_err(|_| AuthorizationError::Endpoint)?;
        let target = Tenant::of_host(issuer.host_str().unwrap_or_default()).to_string();
        let (sealed, expires_at) = (&sealed[..], now.plus_seconds(STATE_SECONDS));
        let state = NewState { id: &id, sealed, expires_at, sender: &sender, target: &target };
        if !oauth_states::put(&self.db, &state, &MAX_PENDING, now).await? {
            return Err(AuthorizationError::TooMany);
        }
        let mut url =
            Url::parse(&account.server.authorization_endpoint).map_err(|_| AuthorizationError::Endpoint)?;
        url.query_pairs_mut()
            .append_pair("client_id", &client.client_id)
            .append_pair("request_uri", &request_uri);
        Ok(url)
    }

    /// Completes a flow with the parameters of the callback. Its state is used up even when this fails.
    ///
    /// # Errors
    /// When the callback belongs to no pending flow, or its tokens are not those of the account and scope that were
    /// requested; with the flow's goal if the flow was found.
    pub async fn complete(
        &self,
        callback: &Callback<'_>,
    ) -> Result<CompletedFlow, (AuthorizationError, Option<FlowGoal>)> {
        let pending = self.take_pending(callback.state).await.map_err(|error| (error, None))?;
        let goal = pending.goal.clone();
        self.exchange(callback, pending).await.map_err(|error| (error, Some(goal)))
    }

    async fn take_pending(&self, state: &str) -> Result<PendingFlow, AuthorizationError> {
        let id = sha256_hex(state.as_bytes());
        let sealed = oauth_states::take(&self.db, &id, self.dpop_client.clock().now()).await?;
        let sealed = sealed.ok_or(AuthorizationError::Expired)?;
        let text =
            self.sealing.open(&Self::purpose(&id), &sealed).map_err(|_| AuthorizationError::Expired)?;
        serde_json::from_slice(&text).map_err(|_| AuthorizationError::Expired)
    }

    async fn exchange(
        &self,
        callback: &Callback<'_>,
        pending: PendingFlow,
    ) -> Result<CompletedFlow, AuthorizationError> {
        // RFC 9207: refuse a response of another authorization server (mix-up attack).
        if callback.iss != Some(pending.issuer.as_str()) {
            return Err(AuthorizationError::Issuer);
        }
        if let Some(error) = callback.error {
            return Err(AuthorizationError::Denied(error.chars().take(64).collect()));
        }
        let code = callback.code.ok_or(AuthorizationError::Issuer)?;
        // The account may have moved meanwhile, and only its present server may issue tokens for it.
        let account = self.discovery.account(&pending.did).await?;
        if account.server.issuer != pending.issuer {
            return Err(AuthorizationError::Issuer);
        }
        let scalar = Zeroizing::new(hex::decode(&pending.key).unwrap_or_default());
        let key =
            PrivateKey::from_bytes(Algorithm::Es256, &scalar).map_err(|_| AuthorizationError::Expired)?;
        let client = OwnClient::of(&pending.origin, declared_scopes(&pending.scope));
        let credentials = match &pending.kid {
            // A public client, or a flow that began in a version that had one key.
            None => client.credentials(&self.keys).await?,
            Some(kid) => {
                let key = self.keys.get(kid).await?.ok_or(AuthorizationError::Expired)?;
                key.credentials(client.client_id.clone())
            }
        };
        let redirect = client.redirect_uri.clone();
        let answer = (code, pending.verifier.as_str(), redirect.as_str());
        let tokens = flow::exchange(&self.dpop_client, &account.server, &credentials, &key, answer).await?;
        if tokens.sub.as_deref() != Some(pending.did.as_str()) {
            return Err(AuthorizationError::Account);
        }
        if !tokens.scope.split_ascii_whitespace().any(|scope| scope == "atproto") {
            return Err(AuthorizationError::Scope);
        }
        let kid = credentials.key.map(|(kid, _)| kid);
        let PendingFlow { did, goal, .. } = pending;
        Ok(CompletedFlow { did, account, client, kid, key, tokens, goal })
    }
}

/// The scopes that a loopback client declares: [`SCOPES`] when they contain all of `scope`, otherwise `scope`.
fn declared_scopes(scope: &str) -> &str {
    let is_login_scope = |one: &str| SCOPES.split(' ').any(|login| login == one);
    if scope.split(' ').all(is_login_scope) { SCOPES } else { scope }
}

impl fmt::Debug for Authorizations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Authorizations")
    }
}
