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
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use serde_json::{Value, json};

    use super::*;
    use crate::access::Buckets;
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
        /// Look-ups of these never end.
        stalls: &'static str,
    }

    impl Issuer {
        fn new(algorithm: Algorithm) -> Self {
            let key = PrivateKey::generate(algorithm, &Random::seeded(1));
            Self { key, cached: None, look_ups: AtomicU32::new(0), stalls: "did:web:" }
        }

        fn token(&self, header: Value, claims: &Value) -> String {
            let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
            let input = format!("{}.{}", part(&header), part(claims));
            let signature = URL_SAFE_NO_PAD.encode(self.key.sign(input.as_bytes()));
            format!("{input}.{signature}")
        }
    }

    impl SigningKeys for Issuer {
        async fn known(&self, _: &Did, fresh: bool) -> Option<Result<PublicKey, NoKey>> {
            self.cached.as_ref().filter(|_| !fresh).map(|old| Ok(old.public()))
        }

        async fn look_up(&self, did: &Did, _: bool) -> Result<PublicKey, NoKey> {
            self.look_ups.fetch_add(1, Ordering::Relaxed);
            match did.as_str() {
                "did:plc:gone" => Err(NoKey::Unknown("not found".to_owned())),
                stalled if stalled.starts_with(self.stalls) => std::future::pending().await,
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

    async fn verify(
        tokens: &ServiceTokens,
        issuer: &Issuer,
        token: &str,
        method: Option<&str>,
    ) -> Result<Spoken, Refused> {
        let buckets = Buckets::default();
        let sender = Sender::new(&buckets, [203, 0, 113, 1].into(), Timestamp(NOW * 1_000_000));
        tokens.verify(issuer, &sender, token, method).await
    }

    async fn check(header: Value, change: Value, method: Option<&str>) -> (Result<Spoken, Refused>, u32) {
        let issuer = Issuer::new(Algorithm::Es256k);
        let token = issuer.token(header, &claims(change));
        let result = verify(&tokens(), &issuer, &token, method).await;
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
                let spoken = verify(&tokens(), &issuer, &token, None).await.unwrap();
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
        assert!(verify(&tokens(), &issuer, &token, None).await.is_ok());
        assert_eq!(issuer.look_ups.load(Ordering::Relaxed), 1);

        // Cut off in the middle of the payload, the signature of something else, a key on another curve.
        let other = issuer.token(json!({ "alg": "ES256" }), &claims(json!({ "iat": NOW - 1 })));
        let (input, _) = token.rsplit_once('.').unwrap();
        let (_, signature) = other.rsplit_once('.').unwrap();
        let forged = format!("{input}.{signature}");
        assert!(matches!(verify(&tokens(), &issuer, &forged, None).await, Err(Refused::Signature)));
        let curve = issuer.token(json!({ "alg": "ES256K" }), &claims(json!({})));
        assert!(verify(&tokens(), &issuer, &curve, None).await.is_err());
        let gone = issuer.token(json!({ "alg": "ES256" }), &claims(json!({ "iss": "did:plc:gone" })));
        assert!(matches!(verify(&tokens(), &issuer, &gone, None).await, Err(Refused::Key(_))));
        for garbage in ["", "a", "a.b", "a.b.c", "....", &"x".repeat(100_000)] {
            assert!(verify(&tokens(), &issuer, garbage, None).await.is_err());
        }
    }

    #[tokio::test]
    async fn a_token_with_an_id_is_used_once() {
        let issuer = Issuer::new(Algorithm::Es256);
        let tokens = tokens();
        let token = issuer.token(json!({ "alg": "ES256" }), &claims(json!({ "jti": "1" })));
        assert!(verify(&tokens, &issuer, &token, None).await.is_ok());
        assert!(matches!(verify(&tokens, &issuer, &token, None).await, Err(Refused::Replayed)));
        let without = issuer.token(json!({ "alg": "ES256" }), &claims(json!({})));
        assert!(verify(&tokens, &issuer, &without, None).await.is_ok());
        assert!(verify(&tokens, &issuer, &without, None).await.is_ok());
    }

    /// One address names one stalling server after the other; those of others are looked up at once, and those that
    /// are known need no look-up at all.
    #[tokio::test(start_paused = true)]
    async fn a_flood_of_tokens_whose_issuers_stall_delays_no_other_sender() {
        let mut issuer = Issuer::new(Algorithm::Es256);
        let (tokens, buckets) = (tokens(), Buckets::default());
        let sender = |last| Sender::new(&buckets, [203, 0, 113, last].into(), Timestamp(NOW * 1_000_000));
        let token = |issuer: &Issuer, change: Value| issuer.token(json!({ "alg": "ES256" }), &claims(change));
        let (flooder, other) = (sender(1), sender(2));
        let garbage: Vec<String> =
            (0..200).map(|n| token(&issuer, json!({ "iss": format!("did:web:{n}.evil.example") }))).collect();
        let mut flood = Vec::new();
        let mut refused = 0;
        for token in &garbage {
            let mut call = Box::pin(tokens.verify(&issuer, &flooder, token, None));
            match futures_util::poll!(&mut call) {
                std::task::Poll::Pending => flood.push(call),
                std::task::Poll::Ready(outcome) => {
                    assert!(matches!(outcome, Err(Refused::Busy(Full::Tenant) | Refused::Metered(_))));
                    refused += 1;
                }
            }
        }
        let bounds = tokens.look_ups.bounds();
        assert_eq!(flood.len(), bounds.per_tenant + bounds.waiting_per_tenant);
        assert_eq!(issuer.look_ups.load(Ordering::Relaxed) as usize, bounds.per_tenant);
        assert_eq!(refused, 200 - flood.len());

        let good = token(&issuer, json!({}));
        let mut call = Box::pin(tokens.verify(&issuer, &other, &good, None));
        assert!(matches!(futures_util::poll!(&mut call), std::task::Poll::Ready(Ok(_))));
        drop((call, flood));
        // The same address, for an issuer that is known.
        issuer.cached = Some(PrivateKey::generate(Algorithm::Es256, &Random::seeded(1)));
        let looked_up = issuer.look_ups.load(Ordering::Relaxed);
        assert!(tokens.verify(&issuer, &flooder, &token(&issuer, json!({})), None).await.is_ok());
        assert_eq!(issuer.look_ups.load(Ordering::Relaxed), looked_up);
    }
}
