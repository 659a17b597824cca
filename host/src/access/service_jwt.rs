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
    look_ups: Semaphore,
}

impl ServiceTokens {
    pub fn new(audience: String, clock: Clock) -> Self {
        Self { audience, clock, replay: Replay::default(), look_ups: Semaphore::new(LOOK_UPS) }
    }

    /// Who signed the token. `method` is the NSID being called; `None` where there is none (`/admin`),
    /// and then a token that is bound to a method is refused: whoever got it for that method got it for no more.
    ///
    /// # Errors
    /// Says which check failed.
    pub async fn verify(
        &self,
        keys: &impl SigningKeys,
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
        Ok(Spoken { did: issuer, bound: claims.lxm.is_some() })
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use serde_json::{Value, json};

    use super::*;
    use crate::clock::Timestamp;
    use crate::crypto::{Algorithm, PrivateKey};
    use crate::random::Random;

    const NOW: i64 = 1_700_000_000;
    const DID: &str = "did:web:index.example";

    /// One issuer, whose cached key may be out of date.
    struct Issuer {
        key: PrivateKey,
        cached: Option<PrivateKey>,
        look_ups: AtomicU32,
    }

    impl Issuer {
        fn new(algorithm: Algorithm) -> Self {
            let key = PrivateKey::generate(algorithm, &Random::seeded(1));
            Self { key, cached: None, look_ups: AtomicU32::new(0) }
        }

        fn token(&self, header: Value, claims: &Value) -> String {
            let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
            let input = format!("{}.{}", part(&header), part(claims));
            let signature = URL_SAFE_NO_PAD.encode(self.key.sign(input.as_bytes()));
            format!("{input}.{signature}")
        }
    }

    impl SigningKeys for Issuer {
        async fn signing_key(&self, did: &Did, fresh: bool) -> Result<PublicKey, NoKey> {
            self.look_ups.fetch_add(1, Ordering::Relaxed);
            match (&self.cached, did.as_str()) {
                (_, "did:plc:gone") => Err(NoKey("not found".to_owned())),
                (Some(old), _) if !fresh => Ok(old.public()),
                _ => Ok(self.key.public()),
            }
        }
    }

    fn claims(change: Value) -> Value {
        let mut claims = json!({ "iss": "did:plc:abc", "aud": DID, "exp": NOW + 60, "iat": NOW });
        claims.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        claims
    }

    fn tokens() -> ServiceTokens {
        ServiceTokens::new(DID.to_owned(), Clock::fixed(Timestamp(NOW * 1_000_000)))
    }

    async fn check(header: Value, change: Value, method: Option<&str>) -> (Result<Spoken, Refused>, u32) {
        let issuer = Issuer::new(Algorithm::Es256k);
        let token = issuer.token(header, &claims(change));
        let result = tokens().verify(&issuer, &token, method).await;
        (result, issuer.look_ups.load(Ordering::Relaxed))
    }

    #[tokio::test]
    async fn good_tokens_name_their_issuer() {
        for (algorithm, alg) in [(Algorithm::Es256, "ES256"), (Algorithm::Es256k, "ES256K")] {
            let issuer = Issuer::new(algorithm);
            for change in [
                json!({}),
                json!({ "aud": format!("{DID}#index") }),
                json!({ "exp": NOW + 1 }),
                json!({ "exp": NOW + 3600 }),
                json!({ "nbf": NOW }),
            ] {
                let token = issuer.token(json!({ "alg": alg, "typ": "JWT" }), &claims(change));
                let spoken = tokens().verify(&issuer, &token, None).await.unwrap();
                assert_eq!((spoken.did.as_str(), spoken.bound), ("did:plc:abc", false));
            }
        }
        let method = Some("com.example.list");
        let (bound, _) =
            check(json!({ "alg": "ES256K" }), json!({ "lxm": "com.example.list" }), method).await;
        assert!(bound.unwrap().bound);
    }

    #[tokio::test]
    async fn each_check_refuses_before_any_look_up() {
        let header = || json!({ "alg": "ES256K", "typ": "JWT" });
        let list = Some("com.example.list");
        for (header, change, method, text) in [
            (json!({ "alg": "none" }), json!({}), None, "algorithm"),
            (json!({ "alg": "HS256" }), json!({}), None, "algorithm"),
            (json!({ "alg": "ES256K", "typ": "at+jwt" }), json!({}), None, "type"),
            (json!({ "alg": "ES256K", "typ": "Refresh+JWT" }), json!({}), None, "type"),
            (json!({ "alg": "ES256K", "typ": "dpop+jwt" }), json!({}), None, "type"),
            (header(), json!({ "exp": NOW }), None, "expired"),
            (header(), json!({ "exp": NOW - 1 }), None, "expired"),
            (header(), json!({ "exp": NOW + 3601 }), None, "too long"),
            (header(), json!({ "exp": "soon" }), None, "invalid"),
            (header(), json!({ "nbf": NOW + 61 }), None, "not valid yet"),
            (header(), json!({ "aud": "did:web:other.example" }), None, "audience"),
            (header(), json!({ "aud": "did:web:index.example.evil" }), None, "audience"),
            (header(), json!({ "iss": "alice.example" }), None, "not a DID"),
            (header(), json!({ "lxm": "com.example.other" }), list, "method"),
            (header(), json!({ "lxm": "com.example.list" }), None, "method"),
        ] {
            let shown = format!("{header} {change}");
            let (result, look_ups) = check(header, change, method).await;
            let error = result.expect_err(&shown).to_string();
            assert!(error.contains(text), "{shown}: {error}");
            assert_eq!(look_ups, 0, "{shown}");
        }
    }

    #[tokio::test]
    async fn a_signature_gets_one_fresh_document() {
        let mut issuer = Issuer::new(Algorithm::Es256);
        issuer.cached = Some(PrivateKey::generate(Algorithm::Es256, &Random::seeded(2)));
        let token = issuer.token(json!({ "alg": "ES256" }), &claims(json!({})));
        assert!(tokens().verify(&issuer, &token, None).await.is_ok());
        assert_eq!(issuer.look_ups.load(Ordering::Relaxed), 2);

        // Cut off in the middle of the payload, the signature of something else, a key on another curve.
        let other = issuer.token(json!({ "alg": "ES256" }), &claims(json!({ "iat": NOW - 1 })));
        let (input, _) = token.rsplit_once('.').unwrap();
        let (_, signature) = other.rsplit_once('.').unwrap();
        let forged = format!("{input}.{signature}");
        assert!(matches!(tokens().verify(&issuer, &forged, None).await, Err(Refused::Signature)));
        let curve = issuer.token(json!({ "alg": "ES256K" }), &claims(json!({})));
        assert!(tokens().verify(&issuer, &curve, None).await.is_err());
        let gone = issuer.token(json!({ "alg": "ES256" }), &claims(json!({ "iss": "did:plc:gone" })));
        assert!(matches!(tokens().verify(&issuer, &gone, None).await, Err(Refused::Key(_))));
        for garbage in ["", "a", "a.b", "a.b.c", "....", &"x".repeat(100_000)] {
            assert!(tokens().verify(&issuer, garbage, None).await.is_err());
        }
    }

    #[tokio::test]
    async fn a_token_with_an_id_is_used_once() {
        let issuer = Issuer::new(Algorithm::Es256);
        let tokens = tokens();
        let token = issuer.token(json!({ "alg": "ES256" }), &claims(json!({ "jti": "1" })));
        assert!(tokens.verify(&issuer, &token, None).await.is_ok());
        assert!(matches!(tokens.verify(&issuer, &token, None).await, Err(Refused::Replayed)));
        let without = issuer.token(json!({ "alg": "ES256" }), &claims(json!({})));
        assert!(tokens.verify(&issuer, &without, None).await.is_ok());
        assert!(tokens.verify(&issuer, &without, None).await.is_ok());
    }
}
