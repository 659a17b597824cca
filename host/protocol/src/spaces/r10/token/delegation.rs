//! Delegation tokens: an account permits an app to request a credential for a space (spaces.md §7.1).

use serde::Deserialize;
use serde_json::json;

use belvedere_base::clock::Timestamp;

use super::{KeyId, Times, TokenError, host_of, is_host_of, parse, sign, unique, verify};
use crate::atproto::Did;
use crate::crypto::jws::{self, Jws};
use crate::crypto::{PrivateKey, PublicKey};
use crate::spaces::SpaceUri;

pub(super) const CLASS: &str = "atproto-space-delegation+jwt";

/// Lifetime of the tokens that we issue. They are exchanged at once.
const SECONDS: i64 = 60;

/// The longest lifetime that is accepted.
const MAX_SECONDS: i64 = 300;

/// The `kid` of a token that the host of the space issued to itself. It names no key of a DID document.
const HOST_KEY: &str = "host";

/// The key that signs a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signer {
    /// The key `#atproto` of the account.
    Account,
    /// A key of the host that the token is addressed to, which only this host knows.
    Host,
}

impl Signer {
    fn key_id(self) -> &'static str {
        match self {
            Self::Account => KeyId::Atproto.as_str(),
            Self::Host => HOST_KEY,
        }
    }
}

/// A verified token. It is valid for one exchange, for `space` only; the caller compares it.
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
    signer: Signer,
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
    /// Issues a token. `key`: that of the signer. `jti`: a text that was never used before.
    pub fn issue(
        (key, signer): (&PrivateKey, Signer),
        issuer: &Did,
        space: &SpaceUri,
        jti: &str,
        now: Timestamp,
    ) -> (String, Times) {
        let times = Times::lasting(now.as_seconds(), SECONDS);
        let claims = json!({
            "iss": issuer, "sub": space.to_string(), "aud": host_of(&space.did),
            "iat": times.issued_at, "exp": times.expires_at, "jti": jti,
        });
        (sign(key, CLASS, signer.key_id(), &claims), times)
    }
}

impl<'a> ParsedDelegation<'a> {
    /// # Errors
    /// When the token is malformed, of another class, or signed by another key.
    pub fn parse(token: &'a str) -> Result<Self, TokenError> {
        let (jws, claims): (_, Claims) = parse(token, CLASS)?;
        let signer = [Signer::Account, Signer::Host];
        let signer = signer.into_iter().find(|signer| jws.header.kid.as_deref() == Some(signer.key_id()));
        let signer = signer.ok_or(TokenError::KeyId)?;
        let issuer = Did::try_from(claims.iss.as_str()).map_err(|_| TokenError::Issuer)?;
        let space =
            SpaceUri::parse(&claims.sub).map_err(|_| TokenError::Malformed("its sub is not a space"))?;
        let times = Times { issued_at: claims.iat, expires_at: claims.exp };
        let claims_read = Delegation { issuer, space, times, jti: unique(claims.jti)? };
        Ok(Self { claims: claims_read, signer, audience: claims.aud, jws })
    }

    /// The account.
    pub fn issuer(&self) -> &Did {
        &self.claims.issuer
    }

    /// The space that the token names.
    pub fn space(&self) -> &SpaceUri {
        &self.claims.space
    }

    /// The signer whose key verifies the token.
    pub fn signer(&self) -> Signer {
        self.signer
    }

    /// # Errors
    /// Names the first check that fails: times, audience, signature.
    pub fn verify(&self, key: &PublicKey, now: Timestamp) -> Result<Delegation, TokenError> {
        self.claims.times.check(now.as_seconds(), MAX_SECONDS)?;
        if !is_host_of(&self.audience, &self.claims.space.did) {
            return Err(TokenError::Audience);
        }
        verify(&self.jws, key)?;
        Ok(self.claims.clone())
    }
}
