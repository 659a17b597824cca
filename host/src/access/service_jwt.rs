//! Service-auth tokens (service.md, Admin API authentication 2; auth-and-clients.md §6): a DID's own key says
//! that its holder is calling this instance.
//!
//! Nothing of a token is believed before its signature verifies. What can be refused without a key is refused first,
//! and a key that is known is used; only then the issuer is looked up, which the sender pays for.

use std::time::Duration;

use http::StatusCode;
use http::header::{HeaderValue, RETRY_AFTER};

use super::Sender;
use super::rate_limit::Exhausted;
use super::replay::Replay;
use super::signing_keys::{NoKey, SigningKeys};
use crate::atproto::Did;
use crate::clock::Clock;
use crate::crypto::jws::{self, JwsError, ServiceClaims};
use crate::crypto::{HighS, PublicKey};
use crate::fair_share::{Bounds, FairPool, Full};
use crate::http::Error;

/// Tokens that live longer are refused: a stolen one must end soon.
const LONGEST_LIFE_SECONDS: i64 = 3600;

/// How far another's clock may be ahead of ours in `nbf`. `exp` has no slack: the specification refuses a token
/// at its very second.
const CLOCK_SKEW_SECONDS: i64 = 60;

/// Kinds of token that are signed with the same key and mean something else.
const OTHER_TYPES: [&str; 3] = ["at+jwt", "refresh+jwt", "dpop+jwt"];

/// Look-ups of unknown issuers, by the sender's address. Each may wait for another server until its timeout; where they
/// go is bounded by the [`Resolver`](crate::identity::Resolver) for itself.
const LOOK_UPS: Bounds = Bounds {
    places: 64,
    // An address that only names servers that stall holds an eighth of the places.
    per_tenant: 8,
    waiting: 256,
    // A PDS that sends the first calls of many users waits a moment; a flood is refused.
    waiting_per_tenant: 64,
    // As long as one look-up may take.
    patience: Duration::from_secs(10),
};

/// Why a token is refused.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    #[error("invalid service token: {0}")]
    Malformed(#[from] JwsError),
    #[error("this type of token is not a service token")]
    Type,
    #[error("the service token has expired")]
    Expired,
    #[error("the service token is valid for too long")]
    TooLong,
    #[error("the service token is not valid yet")]
    NotYet,
    #[error("the service token is meant for another audience")]
    Audience,
    #[error("the service token is bound to another method")]
    Method,
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
    /// The sender, or all who name the issuer's domain, have caused too many look-ups.
    #[error("too many issuers of service tokens were looked up")]
    Metered(Exhausted),
}

impl Refused {
    /// Whether the token is at fault; else it was not looked at.
    pub fn is_failure(&self) -> bool {
        !matches!(self, Self::Busy(_) | Self::Metered(_))
    }
}

/// Who a token speaks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spoken {
    pub did: Did,
    /// For the method that is called and no other (`lxm`).
    pub bound: bool,
}

/// Checks tokens and remembers those used.
#[derive(Debug)]
pub struct ServiceTokens {
    /// The instance's DID.
    audience: String,
    clock: Clock,
    replay: Replay,
    look_ups: FairPool,
}

impl ServiceTokens {
    pub fn new(audience: String, clock: Clock) -> Self {
        let look_ups = FairPool::new("service_tokens", LOOK_UPS);
        Self { audience, clock, replay: Replay::default(), look_ups }
    }

    /// Who signed the token. `method` is the NSID being called; `None` where there is none (`/admin`),
    /// and then a token that is bound to a method is refused: whoever got it for that method got it for no more.
    ///
    /// # Errors
    /// Says which check failed.
    pub async fn verify(
        &self,
        keys: &impl SigningKeys,
        sender: &Sender<'_>,
        token: &str,
        method: Option<&str>,
    ) -> Result<Spoken, Refused> {
        let jws = jws::parse(token)?;
        if jws
            .header
            .typ
            .as_deref()
            .is_some_and(|typ| OTHER_TYPES.iter().any(|t| typ.eq_ignore_ascii_case(t)))
        {
            return Err(Refused::Type);
        }
        let claims: ServiceClaims = jws.claims()?;
        self.check_claims(&claims, method)?;
        let issuer = Did::try_from(claims.iss.as_str()).map_err(|_| Refused::Issuer)?;

        let key = self.key(keys, sender, &issuer, false).await?;
        // Libraries in use emit high-S signatures too; malleability gains nothing here, replay goes by `jti`.
        if jws.verify(&key, HighS::Accept).is_err() {
            // The key may have been rotated since its document was cached.
            let key = self.key(keys, sender, &issuer, true).await?;
            jws.verify(&key, HighS::Accept).map_err(|_| Refused::Signature)?;
        }
        if let Some(jti) = &claims.jti
            && !self.replay.first_use(issuer.as_str(), jti, claims.exp, self.clock.now().as_seconds())
        {
            return Err(Refused::Replayed);
        }
        Ok(Spoken { did: issuer, bound: claims.lxm.is_some() })
    }

    /// The key that is known, or that a look-up finds, which the sender pays for.
    async fn key(
        &self,
        keys: &impl SigningKeys,
        sender: &Sender<'_>,
        issuer: &Did,
        fresh: bool,
    ) -> Result<PublicKey, Refused> {
        let found = if let Some(known) = keys.known(issuer, fresh).await {
            known
        } else {
            sender.pay_look_up(issuer).map_err(Refused::Metered)?;
            let _place = self.look_ups.enter(sender.tenant()).await?;
            keys.look_up(issuer, fresh).await
        };
        found.map_err(|error| match error {
            NoKey::Busy(full) => Refused::Busy(full),
            NoKey::Unknown(text) => Refused::Key(text),
        })
    }

    fn check_claims(&self, claims: &ServiceClaims, method: Option<&str>) -> Result<(), Refused> {
        let now = self.clock.now().as_seconds();
        if claims.exp <= now {
            return Err(Refused::Expired);
        }
        if claims.exp > now + LONGEST_LIFE_SECONDS {
            return Err(Refused::TooLong);
        }
        if claims.nbf.is_some_and(|nbf| nbf > now + CLOCK_SKEW_SECONDS) {
            return Err(Refused::NotYet);
        }
        // Compared with the configured DID only: the Host header is the caller's to choose. Which fragments are
        // offered, and to whom, is decided where service entries are known.
        let audience = claims.aud.split_once('#').map_or(claims.aud.as_str(), |(did, _)| did);
        if audience != self.audience {
            return Err(Refused::Audience);
        }
        if claims.lxm.as_deref().is_some_and(|lxm| method != Some(lxm)) {
            return Err(Refused::Method);
        }
        Ok(())
    }
}

impl From<Refused> for Error {
    fn from(refused: Refused) -> Self {
        if let Refused::Key(cause) = &refused {
            tracing::info!(%cause, "the signing key of a service token's issuer could not be found");
        }
        match refused {
            Refused::Metered(exhausted) => exhausted.into(),
            Refused::Busy(full) => busy(full),
            _ => Self::unauthorized(refused.to_string()),
        }
    }
}

/// 429 to a caller who has too many look-ups under way, 503 when all together have. Either is over in seconds.
fn busy(full: Full) -> Error {
    let status = match full {
        Full::Tenant => StatusCode::TOO_MANY_REQUESTS,
        Full::Pool | Full::Patience => StatusCode::SERVICE_UNAVAILABLE,
    };
    Error::new(status, full.to_string()).with_header(RETRY_AFTER, HeaderValue::from_static("1"))
}

#[cfg(test)]
mod tests;
