//! Service-auth tokens (service.md, Admin API authentication 2; auth-and-clients.md §6): a DID's own key says
//! that its holder is calling this instance.
//!
//! Nothing of a token is believed before its signature verifies; what can be refused without a key is refused
//! first, so that a stranger's garbage costs no look-up.

use tokio::sync::Semaphore;

use super::replay::Replay;
use crate::atproto::Did;
use crate::clock::Clock;
use crate::crypto::jws::{self, JwsError, ServiceClaims};
use crate::crypto::{HighS, PublicKey};
use crate::http::Error;
use crate::identity::Resolver;

/// Tokens that live longer are refused: a stolen one must end soon.
const LONGEST_LIFE_SECONDS: i64 = 3600;

/// How far another's clock may be ahead of ours in `nbf`. `exp` has no slack: the specification refuses a token
/// at its very second.
const CLOCK_SKEW_SECONDS: i64 = 60;

/// Kinds of token that are signed with the same key and mean something else.
const OTHER_TYPES: [&str; 3] = ["at+jwt", "refresh+jwt", "dpop+jwt"];

/// Look-ups of unknown issuers at the same time. Each may wait for a stranger's server; more callers are turned
/// away rather than kept.
const LOOK_UPS: usize = 64;

/// Where the keys of issuers come from.
pub trait SigningKeys: Send + Sync {
    /// The `#atproto` key of a DID's document; `fresh` past the cache.
    fn signing_key(&self, did: &Did, fresh: bool) -> impl Future<Output = Result<PublicKey, NoKey>> + Send;
}

/// A DID document could not be had, or has no usable key. The text is for the log.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct NoKey(pub String);

impl SigningKeys for Resolver {
    async fn signing_key(&self, did: &Did, fresh: bool) -> Result<PublicKey, NoKey> {
        let document = if fresh { self.refresh(did).await } else { self.resolve(did).await };
        let document = document.map_err(|error| NoKey(error.to_string()))?;
        document
            .signing_key()
            .cloned()
            .ok_or_else(|| NoKey(format!("the document of {did} has no #atproto key")))
    }
}

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
    Key(NoKey),
    #[error("the signature of the service token does not verify")]
    Signature,
    #[error("the service token was used before")]
    Replayed,
    #[error("too many service tokens are being checked")]
    Busy,
}

/// Checks tokens and remembers those used.
#[derive(Debug)]
pub struct ServiceTokens {
    /// The instance's DID.
    audience: String,
    clock: Clock,
    replay: Replay,
    look_ups: Semaphore,
}

impl ServiceTokens {
    pub fn new(audience: String, clock: Clock) -> Self {
        Self { audience, clock, replay: Replay::default(), look_ups: Semaphore::new(LOOK_UPS) }
    }

    /// The DID that signed the token. `method` is the NSID being called; `None` where there is none (`/admin`),
    /// and then a token that is bound to a method is refused: whoever got it for that method got it for no more.
    ///
    /// # Errors
    /// Says which check failed.
    pub async fn verify(
        &self,
        keys: &impl SigningKeys,
        token: &str,
        method: Option<&str>,
    ) -> Result<Did, Refused> {
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

        let _slot = self.look_ups.try_acquire().map_err(|_| Refused::Busy)?;
        let key = keys.signing_key(&issuer, false).await.map_err(Refused::Key)?;
        // Libraries in use emit high-S signatures too; malleability gains nothing here, replay goes by `jti`.
        if jws.verify(&key, HighS::Accept).is_err() {
            // The key may have been rotated since its document was cached.
            let key = keys.signing_key(&issuer, true).await.map_err(Refused::Key)?;
            jws.verify(&key, HighS::Accept).map_err(|_| Refused::Signature)?;
        }
        if let Some(jti) = &claims.jti
            && !self.replay.first_use(issuer.as_str(), jti, claims.exp, self.clock.now().as_seconds())
        {
            return Err(Refused::Replayed);
        }
        Ok(issuer)
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
            Refused::Busy => Self::new(http::StatusCode::SERVICE_UNAVAILABLE, refused.to_string()),
            _ => Self::unauthorized(refused.to_string()),
        }
    }
}
