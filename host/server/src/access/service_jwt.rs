//! Verifies service-auth tokens (service.md, Admin API authentication 2; auth-and-clients.md §6): JWTs, signed with a
//! DID's key, which prove that the DID is calling this instance.
//!
//! No claim is trusted before the signature verifies. The checks that need no key come first, then a cached key is
//! used; only then the issuer is looked up, which is charged to the sender. A method call with a token that is valid,
//! but for another server or method, is a denial that the event log records with the verified issuer.

use std::time::Duration;

use http::StatusCode;
use http::header::{HeaderValue, RETRY_AFTER};

use super::Sender;
use super::rate_limit::Exhausted;
use super::replay::ReplayCache;
use super::signing_keys::{SigningKeyError, SigningKeys};
use belvedere_base::clock::Clock;
use belvedere_instance::events::requester;
use belvedere_instance::service_identity::ServiceIdentity;
use belvedere_protocol::atproto::Did;
use belvedere_protocol::crypto::jws::{self, JwsError, ServiceClaims};
use belvedere_protocol::crypto::{HighS, PublicKey};
use belvedere_protocol::spaces::r10::token::{CLASSES, KeyId};
use belvedere_storage::store::events::Authentication;
use belvedere_web::fair_share::{Bounds, FairPool, Full};
use belvedere_web::http::Error;

/// Tokens that are valid for longer are rejected: a stolen one must expire soon.
const MAX_LIFE_SECONDS: i64 = 3600;

/// Maximum by which the issuer's clock may be ahead of ours in `nbf`. `exp` has no tolerance: the specification rejects
/// a token from that second on.
const MAX_AHEAD_SECONDS: i64 = 60;

/// Types of token that are signed with the same key for another purpose; so are the classes of tokens of spaces.
const REJECTED_TYPES: [&str; 3] = ["at+jwt", "refresh+jwt", "dpop+jwt"];

/// Look-ups of issuers, by the sender's address. Each may wait for a remote server until its timeout. The
/// [`Resolver`](belvedere_instance::identity::Resolver) bounds separately how many go to one target.
const LOOK_UPS: Bounds = Bounds {
    permits: 64,
    // An address that only names stalling servers holds an eighth of the permits.
    per_tenant: 8,
    waiting: 256,
    // A PDS that sends the first calls of many users waits a moment; a flood is rejected.
    waiting_per_tenant: 64,
    // The longest that one look-up may take.
    max_wait: Duration::from_secs(10),
};

/// The reason why a token is rejected.
#[derive(Debug, thiserror::Error)]
pub enum ServiceTokenError {
    #[error("invalid service token: {0}")]
    Malformed(#[from] JwsError),
    #[error("this type of token is not a service token")]
    Type,
    #[error("the service token has expired")]
    Expired,
    #[error("the service token is valid for too long")]
    TooLong,
    #[error("the service token is not valid yet")]
    NotYetValid,
    /// Its issuer signed it, but not for this call.
    #[error("{}", .0.reason)]
    Denied(Denial),
    #[error("the issuer of the service token is not a DID")]
    Issuer,
    #[error("the signing key of the issuer could not be found")]
    Key(String),
    #[error("the signature of the service token does not verify")]
    Signature,
    #[error("the service token was used before")]
    Replayed,
    #[error("too many issuers of service tokens are being looked up: {0}")]
    Busy(#[from] Full),
    /// The sender, or all senders that name the issuer's domain, have caused too many look-ups.
    #[error("too many issuers of service tokens were looked up")]
    LookUpLimit(Exhausted),
}

impl ServiceTokenError {
    /// Whether the token is at fault; otherwise it was not checked.
    pub fn is_failure(&self) -> bool {
        !matches!(self, Self::Busy(_) | Self::LookUpLimit(_))
    }
}

/// A token of a DID that is not valid for the call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    /// The issuer. Verified where the call names a method; elsewhere what the token says.
    pub did: Did,
    /// The part of the audience behind `#`: the service that the caller meant.
    pub fragment: Option<String>,
    pub reason: String,
}

/// The content of a verified token: its issuer, who is the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifiedToken {
    pub did: Did,
    /// Whether it is valid for the called method only (`lxm`).
    pub method_bound: bool,
}

/// Verifies tokens, and rejects those used before.
#[derive(Debug)]
pub struct ServiceTokens {
    /// Knows which audiences and methods a token may name.
    identity: ServiceIdentity,
    clock: Clock,
    replay: ReplayCache,
    look_ups: FairPool,
}

impl ServiceTokens {
    pub fn new(identity: ServiceIdentity, clock: Clock) -> Self {
        let look_ups = FairPool::new("service_tokens", LOOK_UPS);
        Self { identity, clock, replay: ReplayCache::default(), look_ups }
    }

    /// Verifies a token. `method` is the NSID being called; `None` where there is none (`/admin`): a token that is
    /// bound to a method is then rejected, because it was issued for that method only.
    ///
    /// # Errors
    /// Says which check failed.
    pub async fn verify(
        &self,
        keys: &impl SigningKeys,
        sender: &Sender<'_>,
        token: &str,
        method: Option<&str>,
    ) -> Result<VerifiedToken, ServiceTokenError> {
        let jws = jws::parse(token)?;
        if jws
            .header
            .typ
            .as_deref()
            .is_some_and(|typ| REJECTED_TYPES.iter().chain(&CLASSES).any(|t| typ.eq_ignore_ascii_case(t)))
        {
            return Err(ServiceTokenError::Type);
        }
        let claims: ServiceClaims = jws.claims()?;
        self.check_times(&claims)?;
        let issuer = Did::try_from(claims.iss.as_str()).map_err(|_| ServiceTokenError::Issuer)?;
        let denial = self.denial(&claims, &issuer, method);
        // Without a method the denial is not logged, so the signature does not matter.
        if let (Some(denial), None) = (&denial, method) {
            return Err(ServiceTokenError::Denied(denial.clone()));
        }

        let key = self.key(keys, sender, &issuer, KeyId::Atproto, false).await?;
        // Some libraries emit high-S signatures. Malleability is harmless here: replays are detected by `jti`.
        if jws.verify(&key, HighS::Accept).is_err() {
            // The key may have been rotated since its document was cached.
            let key = self.key(keys, sender, &issuer, KeyId::Atproto, true).await?;
            jws.verify(&key, HighS::Accept).map_err(|_| ServiceTokenError::Signature)?;
        }
        if let Some(denial) = denial {
            return Err(ServiceTokenError::Denied(denial));
        }
        if let Some(jti) = &claims.jti
            && !self.replay.first_use(issuer.as_str(), jti, claims.exp, self.clock.now().as_seconds())
        {
            return Err(ServiceTokenError::Replayed);
        }
        requester::authenticated(Authentication::ServiceToken, None);
        Ok(VerifiedToken { did: issuer, method_bound: claims.lxm.is_some() })
    }

    /// The permits for look-ups that the senders of tokens cause.
    pub(super) fn look_ups(&self) -> &FairPool {
        &self.look_ups
    }

    /// A key of an issuer: the cached one, or one that is looked up and charged to the sender.
    ///
    /// # Errors
    /// When there is no such key, or too many are being looked up.
    pub(super) async fn key(
        &self,
        keys: &impl SigningKeys,
        sender: &Sender<'_>,
        issuer: &Did,
        id: KeyId,
        fresh: bool,
    ) -> Result<PublicKey, ServiceTokenError> {
        let found = if let Some(known) = keys.known(issuer, id, fresh).await {
            known
        } else {
            sender.pay_look_up(issuer).map_err(ServiceTokenError::LookUpLimit)?;
            let _permit = self.look_ups.enter(sender.tenant()).await?;
            keys.look_up(issuer, id, fresh).await
        };
        found.map_err(|error| match error {
            SigningKeyError::Busy(full) => ServiceTokenError::Busy(full),
            SigningKeyError::Unknown(text) => ServiceTokenError::Key(text),
        })
    }

    fn check_times(&self, claims: &ServiceClaims) -> Result<(), ServiceTokenError> {
        let now = self.clock.now().as_seconds();
        if claims.exp <= now {
            return Err(ServiceTokenError::Expired);
        }
        if claims.exp > now + MAX_LIFE_SECONDS {
            return Err(ServiceTokenError::TooLong);
        }
        if claims.nbf.is_some_and(|nbf| nbf > now + MAX_AHEAD_SECONDS) {
            return Err(ServiceTokenError::NotYetValid);
        }
        Ok(())
    }

    /// The reason why a token is not valid for this call, whatever its signature.
    fn denial(&self, claims: &ServiceClaims, issuer: &Did, method: Option<&str>) -> Option<Denial> {
        // Compared with the instance's own DID only: the caller chooses the Host header.
        let bound_to_other = claims.lxm.as_deref().is_some_and(|lxm| method != Some(lxm));
        let other_method = || "the service token is bound to another method".to_owned();
        let refusal = self.identity.refusal(&claims.aud, method);
        let reason = refusal.or_else(|| bound_to_other.then(other_method))?;
        let fragment = claims.aud.find('#').map(|at| claims.aud[at..].to_owned());
        Some(Denial { did: issuer.clone(), fragment, reason })
    }
}

impl From<ServiceTokenError> for Error {
    fn from(refused: ServiceTokenError) -> Self {
        if let ServiceTokenError::Key(cause) = &refused {
            tracing::info!(%cause, "the signing key of a service token's issuer could not be found");
        }
        match refused {
            ServiceTokenError::LookUpLimit(exhausted) => exhausted.into(),
            ServiceTokenError::Busy(full) => busy(full),
            _ => Self::unauthorized(refused.to_string()),
        }
    }
}

/// 429 to a sender with too many look-ups in progress, 503 when there are too many in all. Either passes in seconds.
fn busy(full: Full) -> Error {
    let status = match full {
        Full::Tenant => StatusCode::TOO_MANY_REQUESTS,
        Full::Pool | Full::Timeout => StatusCode::SERVICE_UNAVAILABLE,
    };
    Error::new(status, full.to_string()).with_header(RETRY_AFTER, HeaderValue::from_static("1"))
}

#[cfg(test)]
mod tests;
