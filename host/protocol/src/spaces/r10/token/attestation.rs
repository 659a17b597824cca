//! Client attestations: an app proves its client id in the request for a credential (spaces.md §7.3).

use serde::Deserialize;
use serde_json::json;
use url::Url;

use belvedere_base::clock::Timestamp;

use super::{SKEW_SECONDS, TokenError, host_of, is_host_of, parse, sign};
use crate::atproto::Did;
use crate::crypto::jws::{self, Jws};
use crate::crypto::{Algorithm, HighS, PrivateKey, PublicKey};

pub(super) const CLASS: &str = "atproto-client-attestation+jwt";

/// Lifetime of the attestations that we issue. They are used at once.
const SECONDS: i64 = 60;

/// The longest time until an attestation expires that is accepted.
const MAX_SECONDS: i64 = 3_600;

/// An attestation whose key is needed next.
#[derive(Clone, Debug)]
pub struct ParsedAttestation<'a> {
    claims: Claims,
    key_id: String,
    jws: Jws<'a>,
}

#[derive(Clone, Debug, Deserialize)]
struct Claims {
    iss: String,
    sub: String,
    aud: String,
    #[serde(deserialize_with = "jws::seconds")]
    exp: i64,
}

/// Issues an attestation for the host of an authority; `None` if the key is not a P-256 key. `key_id`: its `kid` in the
/// client's metadata. `jti`: a text that was never used before.
pub fn attest(
    key: &PrivateKey,
    key_id: &str,
    client_id: &str,
    authority: &Did,
    jti: &str,
    now: Timestamp,
) -> Option<String> {
    let now = now.as_seconds();
    let claims = json!({
        "iss": client_id, "sub": client_id, "aud": host_of(authority), "iat": now, "exp": now + SECONDS, "jti": jti,
    });
    (key.algorithm() == Algorithm::Es256).then(|| sign(key, CLASS, key_id, &claims))
}

impl<'a> ParsedAttestation<'a> {
    /// # Errors
    /// When the token is malformed or of another class, or its client id is not an `https` URL.
    pub fn parse(token: &'a str) -> Result<Self, TokenError> {
        let invalid = TokenError::Attestation;
        let (jws, claims): (_, Claims) = parse(token, CLASS).map_err(|error| match error {
            TokenError::Type => invalid("it is a token of another class"),
            TokenError::Malformed(why) => invalid(why),
            _ => invalid("its algorithm is not ES256"),
        })?;
        if jws.header.alg != Algorithm::Es256 {
            return Err(invalid("its algorithm is not ES256"));
        }
        if claims.iss != claims.sub {
            return Err(invalid("its issuer is not its subject"));
        }
        if Url::parse(&claims.iss).map_or(true, |url| url.scheme() != "https" || !url.has_host()) {
            return Err(invalid("its client id is not an https URL"));
        }
        let key_id = jws.header.kid.clone().ok_or(invalid("it has no kid"))?;
        Ok(Self { claims, key_id, jws })
    }

    /// The client id: the URL of the client's metadata, where the key is looked up.
    pub fn client_id(&self) -> &str {
        &self.claims.iss
    }

    /// The `kid` of the key in the client's metadata.
    pub fn key_id(&self) -> &str {
        &self.key_id
    }

    /// Checks an attestation that was presented to the host of `authority`. Returns the client id.
    ///
    /// # Errors
    /// Names the first check that fails: times, audience, signature.
    pub fn verify(self, key: &PublicKey, authority: &Did, now: Timestamp) -> Result<String, TokenError> {
        let now = now.as_seconds();
        let invalid = TokenError::Attestation;
        if self.claims.exp + SKEW_SECONDS <= now {
            return Err(invalid("it has expired"));
        }
        if self.claims.exp > now + MAX_SECONDS + SKEW_SECONDS {
            return Err(invalid("it is valid for too long"));
        }
        if !is_host_of(&self.claims.aud, authority) {
            return Err(invalid("it is for another service"));
        }
        self.jws.verify(key, HighS::Refuse).map_err(|_| invalid("its signature does not verify"))?;
        Ok(self.claims.iss)
    }
}
