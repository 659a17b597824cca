use std::sync::atomic::{AtomicU32, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use super::*;
use crate::access::Buckets;
use belvedere_base::clock::Timestamp;
use belvedere_base::random::Random;
use belvedere_protocol::crypto::{Algorithm, PrivateKey};

const NOW: i64 = 1_700_000_000;
const DID: &str = "did:web:index.example";

/// One issuer, whose cached key may be out of date.
struct Issuer {
    key: PrivateKey,
    cached: Option<PrivateKey>,
    look_ups: AtomicU32,
    /// Look-ups of DIDs with this prefix never end.
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
    async fn known(&self, _: &Did, _: KeyId, fresh: bool) -> Option<Result<PublicKey, SigningKeyError>> {
        self.cached.as_ref().filter(|_| !fresh).map(|old| Ok(old.public()))
    }

    async fn look_up(&self, did: &Did, _: KeyId, _: bool) -> Result<PublicKey, SigningKeyError> {
        self.look_ups.fetch_add(1, Ordering::Relaxed);
        match did.as_str() {
            "did:plc:gone" => Err(SigningKeyError::Unknown("not found".to_owned())),
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
    ServiceTokens::new(
        ServiceIdentity::new(Did::try_from(DID).unwrap()),
        Clock::fixed(Timestamp(NOW * 1_000_000)),
    )
}

async fn verify(
    tokens: &ServiceTokens,
    issuer: &Issuer,
    token: &str,
    method: Option<&str>,
) -> Result<VerifiedToken, ServiceTokenError> {
    let buckets = Buckets::default();
    let sender = Sender::new(&buckets, [203, 0, 113, 1].into(), Timestamp(NOW * 1_000_000));
    tokens.verify(issuer, &sender, token, method).await
}

async fn check(
    header: Value,
    change: Value,
    method: Option<&str>,
) -> (Result<VerifiedToken, ServiceTokenError>, u32) {
    let issuer = Issuer::new(Algorithm::Es256k);
    let token = issuer.token(header, &claims(change));
    let result = verify(&tokens(), &issuer, &token, method).await;
    (result, issuer.look_ups.load(Ordering::Relaxed))
}

#[tokio::test]
async fn valid_tokens_give_their_issuer() {
    for (algorithm, alg) in [(Algorithm::Es256, "ES256"), (Algorithm::Es256k, "ES256K")] {
        let issuer = Issuer::new(algorithm);
        for change in [
            json!({}),
            json!({ "aud": format!("{DID}#bsky_appview") }),
            json!({ "exp": NOW + 1 }),
            json!({ "exp": NOW + 3600 }),
            json!({ "nbf": NOW }),
        ] {
            let token = issuer.token(json!({ "alg": alg, "typ": "JWT" }), &claims(change));
            let verified = verify(&tokens(), &issuer, &token, None).await.unwrap();
            assert_eq!((verified.did.as_str(), verified.method_bound), ("did:plc:abc", false));
        }
    }
    let method = Some("com.example.list");
    let (bound, _) = check(json!({ "alg": "ES256K" }), json!({ "lxm": "com.example.list" }), method).await;
    assert!(bound.unwrap().method_bound);
}

#[tokio::test]
async fn each_claim_is_checked_before_any_look_up() {
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
        (header(), json!({ "iss": "alice.example" }), list, "not a DID"),
        (header(), json!({ "exp": NOW }), list, "expired"),
        (header(), json!({ "lxm": "com.example.list" }), None, "method"),
    ] {
        let case = format!("{header} {change}");
        let (result, look_ups) = check(header, change, method).await;
        let error = result.expect_err(&case).to_string();
        assert!(error.contains(text), "{case}: {error}");
        assert_eq!(look_ups, 0, "{case}");
    }
}

#[tokio::test]
async fn a_denial_names_its_verified_issuer() {
    let list = Some("com.example.list");
    for (change, fragment, text) in [
        (json!({ "aud": "did:web:other.example#index" }), Some("#index".to_owned()), "audience"),
        (json!({ "aud": "did:web:other.example", "jti": "1" }), None, "audience"),
        (
            json!({ "aud": format!("{DID}#bsky_appview"), "lxm": "com.example.other" }),
            Some("#bsky_appview".to_owned()),
            "method",
        ),
    ] {
        let issuer = Issuer::new(Algorithm::Es256k);
        let token = issuer.token(json!({ "alg": "ES256K" }), &claims(change));
        let Err(ServiceTokenError::Denied(denial)) = verify(&tokens(), &issuer, &token, list).await else {
            panic!("{text}: not denied");
        };
        assert_eq!((denial.did.as_str(), denial.fragment), ("did:plc:abc", fragment));
        assert!(denial.reason.contains(text), "{}", denial.reason);
        // In the name of another DID it is a failed signature.
        let (input, _) = token.rsplit_once('.').unwrap();
        let forged = format!("{input}.{}", URL_SAFE_NO_PAD.encode([1; 64]));
        assert!(matches!(verify(&tokens(), &issuer, &forged, list).await, Err(ServiceTokenError::Signature)));
    }
}

#[tokio::test]
async fn a_failed_signature_is_tried_once_with_a_fresh_document() {
    let mut issuer = Issuer::new(Algorithm::Es256);
    issuer.cached = Some(PrivateKey::generate(Algorithm::Es256, &Random::seeded(2)));
    let token = issuer.token(json!({ "alg": "ES256" }), &claims(json!({})));
    assert!(verify(&tokens(), &issuer, &token, None).await.is_ok());
    assert_eq!(issuer.look_ups.load(Ordering::Relaxed), 1);

    // The signature of another token, a key on another curve, an unknown issuer.
    let other = issuer.token(json!({ "alg": "ES256" }), &claims(json!({ "iat": NOW - 1 })));
    let (input, _) = token.rsplit_once('.').unwrap();
    let (_, signature) = other.rsplit_once('.').unwrap();
    let forged = format!("{input}.{signature}");
    assert!(matches!(verify(&tokens(), &issuer, &forged, None).await, Err(ServiceTokenError::Signature)));
    let curve = issuer.token(json!({ "alg": "ES256K" }), &claims(json!({})));
    assert!(verify(&tokens(), &issuer, &curve, None).await.is_err());
    let gone = issuer.token(json!({ "alg": "ES256" }), &claims(json!({ "iss": "did:plc:gone" })));
    assert!(matches!(verify(&tokens(), &issuer, &gone, None).await, Err(ServiceTokenError::Key(_))));
    for garbage in ["", "a", "a.b", "a.b.c", "....", &"x".repeat(100_000)] {
        assert!(verify(&tokens(), &issuer, garbage, None).await.is_err());
    }
}

#[tokio::test]
async fn a_token_with_a_jti_can_be_used_once() {
    let issuer = Issuer::new(Algorithm::Es256);
    let tokens = tokens();
    let token = issuer.token(json!({ "alg": "ES256" }), &claims(json!({ "jti": "1" })));
    assert!(verify(&tokens, &issuer, &token, None).await.is_ok());
    assert!(matches!(verify(&tokens, &issuer, &token, None).await, Err(ServiceTokenError::Replayed)));
    let without = issuer.token(json!({ "alg": "ES256" }), &claims(json!({})));
    assert!(verify(&tokens, &issuer, &without, None).await.is_ok());
    assert!(verify(&tokens, &issuer, &without, None).await.is_ok());
}

/// One address names one stalling server after the other. The issuers of other senders are still looked up at once, and
/// cached ones need no look-up at all.
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
                assert!(matches!(
                    outcome,
                    Err(ServiceTokenError::Busy(Full::Tenant) | ServiceTokenError::LookUpLimit(_))
                ));
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
    // The same address, with a cached issuer.
    issuer.cached = Some(PrivateKey::generate(Algorithm::Es256, &Random::seeded(1)));
    let looked_up = issuer.look_ups.load(Ordering::Relaxed);
    assert!(tokens.verify(&issuer, &flooder, &token(&issuer, json!({})), None).await.is_ok());
    assert_eq!(issuer.look_ups.load(Ordering::Relaxed), looked_up);
}
