//! Delegation tokens: an account permits an app to request a credential for a space (spaces.md §7.1).

use serde::Deserialize;
use serde_json::json;

use belvedere_base::clock::Timestamp;

use super::{KeyId, Times, TokenError, host_of, is_host_of, parse, sign, unique, verify};
use crate::atproto::Did;
use crate::crypto::jws::{self, Jws};
use crate::crypto::{PrivateKey, PublicKey};
use crate::spaces::SpaceUri;

const CLASS: &str = "atproto-space-delegation+jwt";

/// Lifetime of the tokens that we issue. They are exchanged at once.
const SECONDS: i64 = 60;

/// The longest lifetime that is accepted.
const MAX_SECONDS: i64 = 300;

/// A verified token. It is valid for one exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delegation {
    /// The account.
    pub issuer: Did,
    pub space: SpaceUri,
    pub times: Times,
    pub jti: String,
}

/// A token whose issuer's key is needed next.
#[derive(Clone, Debug)]
pub struct ParsedDelegation<'a> {
    claims: Delegation,
    audience: String,
    jws: Jws<'a>,
}

#[derive(Deserialize)]
struct Claims {
    iss: String,
    sub: String,
    aud: String,
    #[serde(deserialize_with = "jws::seconds")]
    iat: i64,
    #[serde(deserialize_with = "jws::seconds")]
    exp: i64,
    #[serde(default)]
    jti: String,
}

impl Delegation {
    /// Issues a token. `key`: the account's signing key. `jti`: a text that was never used before.
    pub fn issue(key: &PrivateKey, issuer: &Did, space: &SpaceUri, jti: &str, now: Timestamp) -> String {
        let times = Times::lasting(now.as_seconds(), SECONDS);
        let claims = json!({
            "iss": issuer, "sub": space.to_string(), "aud": host_of(&space.did),
            "iat": times.issued_at, "exp": times.expires_at, "jti": jti,
        });
        sign(key, CLASS, KeyId::Atproto.as_str(), &claims)
    }
}

impl<'a> ParsedDelegation<'a> {
    /// # Errors
    /// When the token is malformed, of another class, or not to be verified with the key `#atproto`.
    pub fn parse(token: &'a str) -> Result<Self, TokenError> {
        let (jws, claims): (_, Claims) = parse(token, CLASS)?;
        if KeyId::of(&jws)? != KeyId::Atproto {
            return Err(TokenError::KeyId);
        }
        let issuer = Did::try_from(claims.iss.as_str()).map_err(|_| TokenError::Issuer)?;
        let space =
            SpaceUri::parse(&claims.sub).map_err(|_| TokenError::Malformed("its sub is not a space"))?;
        let times = Times { issued_at: claims.iat, expires_at: claims.exp };
        let claims_read = Delegation { issuer, space, times, jti: unique(claims.jti)? };
        Ok(Self { claims: claims_read, audience: claims.aud, jws })
    }

    /// The account whose key `#atproto` verifies the token.
    pub fn issuer(&self) -> &Did {
        &self.claims.issuer
    }

    /// Checks a token that was presented for a credential for `space`.
    ///
    /// # Errors
    /// Names the first check that fails: times, audience, space, signature.
    pub fn verify(self, key: &PublicKey, space: &SpaceUri, now: Timestamp) -> Result<Delegation, TokenError> {
        self.claims.times.check(now.as_seconds(), MAX_SECONDS)?;
        if !is_host_of(&self.audience, &space.did) {
            return Err(TokenError::Audience);
        }
        if self.claims.space != *space {
            return Err(TokenError::OtherSpaceDelegated);
        }
        verify(&self.jws, key)?;
        Ok(self.claims)
    }
}
