//! Credentials that this instance holds: for its users in spaces of other hosts, and for itself, to read the repos that other hosts
//! have in its own spaces (spaces.md §7).

use std::sync::Arc;
use std::time::Duration;

use moka::future::Cache;
use serde::Deserialize;
use serde_json::json;
use url::form_urlencoded;

use super::super::Spaces;
use super::super::author_token::token_in;
use super::super::held_credential::HeldCredential;
use super::super::services::{Proof, ServiceCall, ServiceError, accepted};
use super::ANSWER;
use belvedere_base::clock::Timestamp;
use belvedere_protocol::atproto::Did;
use belvedere_protocol::crypto::{Algorithm, PrivateKey};
use belvedere_protocol::spaces::SpaceUri;
use belvedere_protocol::spaces::r10::token::{Binding, Credential, KeyId, ParsedCredential, host_of};
use belvedere_storage::store::StoreError;

const DELEGATE: &str = "com.atproto.space.getDelegationToken";
const EXCHANGE: &str = "com.atproto.space.getSpaceCredential";

/// The errors with which the host of a space refuses an account (spaces-delta.md §2), or says that the space is deleted. Any other
/// answer, such as the 404 of a proxy in front of it, says nothing about the account.
const REFUSALS: [&str; 10] = [
    "SpaceNotFound",
    "SpaceDeleted",
    "UserNotAuthorized",
    "AppNotAuthorized",
    "NotAuthorized",
    "InsufficientScope",
    "RepoNotFound",
    "RepoTakendown",
    "RepoSuspended",
    "RepoDeactivated",
];

/// Credentials that are held. Each is requested again when it is needed.
const MAX_HELD: u64 = 10_000;

/// The longest time for which a credential lasts.
const MAX_TIME: Duration = Duration::from_hours(1);

/// The end of a credential's life in which it is not used any more: it has to last for a call.
const UNUSED_SECONDS: i64 = 30;

/// Time for which a refusal counts.
const REFUSED_SECONDS: i64 = 10;

/// Time for which a failure counts, so that not every call waits for a host that does not answer.
const FAILED_SECONDS: i64 = 3;

/// The reason why there is no credential.
#[derive(Clone, Debug, thiserror::Error)]
pub(in super::super) enum NoCredential {
    /// The account has no session here with which its PDS signs a token for the host.
    #[error("no session of the account gets a token from its PDS")]
    NoSession,
    /// The host does not give one. `name`: the name of its error.
    #[error("the host of the space gives no credential: {name}")]
    Refused { name: Arc<str> },
    #[error("the host of the space can't be asked: {0}")]
    Failed(Arc<str>),
}

impl NoCredential {
    /// Whether the host says that the space is deleted. Any other refusal is about the account.
    pub(super) fn is_of_deleted_space(&self) -> bool {
        matches!(self, Self::Refused { name } if &**name == "SpaceDeleted")
    }
}

impl From<StoreError> for NoCredential {
    fn from(error: StoreError) -> Self {
        Self::Failed(error.to_string().into())
    }
}

impl From<ServiceError> for NoCredential {
    fn from(error: ServiceError) -> Self {
        match error {
            ServiceError::Refused { name, .. } if REFUSALS.contains(&&*name) => {
                Self::Refused { name: name.into() }
            }
            error => Self::Failed(error.to_string().into()),
        }
    }
}

/// The space, and the account; `None` for this instance.
type Holder = (Arc<str>, Option<Arc<str>>);

#[derive(Clone, Debug)]
struct Answer {
    outcome: Result<Arc<HeldCredential>, NoCredential>,
    until: Timestamp,
}

/// The credentials that this host holds.
#[derive(Debug)]
pub(in super::super) struct HeldCredentials(Cache<Holder, Answer>);

impl Default for HeldCredentials {
    fn default() -> Self {
        Self(Cache::builder().max_capacity(MAX_HELD).time_to_live(MAX_TIME).build())
    }
}

#[derive(Deserialize)]
struct Issued {
    credential: String,
}

impl Spaces {
    /// A credential with which an account of this instance reads a space of another host; without an account, one of this instance
    /// for a space that it hosts.
    pub(in super::super) async fn credential(
        &self,
        uri: &SpaceUri,
        account: Option<&Did>,
    ) -> Result<Arc<HeldCredential>, NoCredential> {
        let clock = &self.core().clock;
        let obtain = async {
            let outcome = self.obtain(uri, account).await.map(Arc::new);
            let until = match &outcome {
                Ok(held) => held.expires_at.plus_seconds(-UNUSED_SECONDS),
                Err(NoCredential::Failed(_)) => clock.now().plus_seconds(FAILED_SECONDS),
                Err(_) => clock.now().plus_seconds(REFUSED_SECONDS),
            };
            Answer { outcome, until }
        };
        let now = clock.now();
        let entry = self.0.held.0.entry(holder(uri, account));
        // The future is large: a call of a PDS is in it.
        entry.or_insert_with_if(Box::pin(obtain), |held| held.until <= now).await.into_value().outcome
    }

    /// Forgets a credential that was revoked.
    pub(super) async fn forget_credential(&self, uri: &SpaceUri, account: &Did) {
        self.0.held.0.invalidate(&holder(uri, Some(account))).await;
    }

    async fn obtain(&self, uri: &SpaceUri, account: Option<&Did>) -> Result<HeldCredential, NoCredential> {
        let core = self.core();
        let key = PrivateKey::generate(Algorithm::Es256, &core.random);
        let token = if let Some(account) = account {
            self.exchange_elsewhere(uri, account, &key).await?
        } else {
            let (jti, binding) = (core.random.hex(16), Binding::Key(key.public()));
            Credential::issue(self.key().await?, KeyId::AtprotoSpace, uri, &binding, &jti, core.clock.now()).0
        };
        let parsed = ParsedCredential::parse(&token);
        let claims = parsed.map_err(|error| NoCredential::Failed(error.to_string().into()))?.claims().clone();
        if claims.space != *uri || claims.binding != Binding::Key(key.public()) {
            return Err(NoCredential::Failed("it answers with a credential for something else".into()));
        }
        let expires_at = claims.times.accepted_until();
        Ok(HeldCredential { token, key, jti: claims.jti, expires_at })
    }

    /// Exchanges a delegation token of an account at the host of a space.
    async fn exchange_elsewhere(
        &self,
        uri: &SpaceUri,
        account: &Did,
        key: &PrivateKey,
    ) -> Result<String, NoCredential> {
        let (services, host) = (&self.0.services, host_of(&uri.did));
        let endpoint = services.space_host(&uri.did).await?;
        let delegation = self.delegation(uri, account, &host, &endpoint).await?;
        let call = ServiceCall { service: &host, endpoint: &endpoint, method: EXCHANGE, limits: ANSWER };
        let proof = Proof::Delegation(&delegation, key);
        let answer = services.post(call, proof, &json!({ "space": uri.to_string() })).await?;
        let issued = serde_json::from_slice(&answer.body).map_err(|_| ServiceError::Malformed)?;
        let Issued { credential } = issued;
        Ok(credential)
    }

    /// A delegation token of an account: from its PDS, or from the host of the space if the PDS knows no spaces.
    async fn delegation(
        &self,
        uri: &SpaceUri,
        account: &Did,
        host: &str,
        endpoint: &str,
    ) -> Result<String, NoCredential> {
        let query =
            form_urlencoded::Serializer::new(String::new()).append_pair("space", &uri.to_string()).finish();
        if let Some(token) = self.token_of_pds(account, &format!("{DELEGATE}?{query}")).await? {
            return Ok(token);
        }
        let token = self.author_token(account, &uri.did, DELEGATE).await?.ok_or(NoCredential::NoSession)?;
        let call = ServiceCall { service: host, endpoint, method: DELEGATE, limits: ANSWER };
        let answer = self.0.services.get(call, Proof::Token(&token), &query).await?;
        Ok(token_in(&accepted(answer)?.body).ok_or(ServiceError::Malformed)?)
    }
}

fn holder(uri: &SpaceUri, account: Option<&Did>) -> Holder {
    (uri.to_string().into(), account.map(|account| account.as_str().into()))
}
