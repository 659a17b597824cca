//! Tokens of spaces (spaces.md §7, spaces-delta.md §2): delegation tokens, credentials and client attestations.
//!
//! Each is read in two steps. Parsing checks the form and returns the issuer and the id of the key; nothing in the token can be trusted
//! before the second step, which checks the rest with the key and the time. The caller compares the space with that of the request,
//! and looks for replays and revocations by `jti`.

mod attestation;
mod credential;
mod delegation;
mod error;
#[cfg(test)]
mod tests;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use belvedere_base::clock::Timestamp;

use crate::atproto::Did;
use crate::crypto::jws::{self, Jws};
use crate::crypto::{HighS, PrivateKey, PublicKey};

pub use attestation::{ParsedAttestation, attest};
pub use credential::{Binding, Credential, ParsedCredential};
pub use delegation::{Delegation, ParsedDelegation, Signer};
pub use error::TokenError;

/// The difference between two servers' clocks that is accepted, in seconds.
pub const SKEW_SECONDS: i64 = 5;

/// The service of an authority that hosts its spaces.
pub const HOST: &str = "#atproto_space_host";

/// The services of an authority that a token may be addressed to. An authority without the first has the second.
const HOSTS: [&str; 2] = [HOST, "#atproto_pds"];

/// The classes (`typ`) of these tokens. The keys of accounts sign some of them, so that other readers of tokens must refuse
/// them.
pub const CLASSES: [&str; 3] = [attestation::CLASS, credential::CLASS, delegation::CLASS];

/// A key of a DID document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyId {
    /// The account's signing key.
    Atproto,
    /// The key for the spaces of an authority.
    AtprotoSpace,
}

impl KeyId {
    /// The value of `kid`: the fragment in the DID document.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Atproto => "#atproto",
            Self::AtprotoSpace => "#atproto_space",
        }
    }

    fn of(jws: &Jws<'_>) -> Result<Self, TokenError> {
        match jws.header.kid.as_deref() {
            Some("#atproto") => Ok(Self::Atproto),
            Some("#atproto_space") => Ok(Self::AtprotoSpace),
            _ => Err(TokenError::KeyId),
        }
    }
}

/// The audience of tokens for the space host of an authority.
pub fn host_of(authority: &Did) -> String {
    format!("{authority}{HOST}")
}

fn is_host_of(audience: &str, authority: &Did) -> bool {
    audience.strip_prefix(authority.as_str()).is_some_and(|service| HOSTS.contains(&service))
}

/// A token of one class with its claims.
fn parse<'a, C: DeserializeOwned>(token: &'a str, class: &str) -> Result<(Jws<'a>, C), TokenError> {
    let jws = jws::parse(token)?;
    if jws.header.typ.as_deref() != Some(class) {
        return Err(TokenError::Type);
    }
    let claims = jws.claims()?;
    Ok((jws, claims))
}

/// Checks the signature. The algorithm in the header must be the key's, and `s` must be low.
fn verify(jws: &Jws<'_>, key: &PublicKey) -> Result<(), TokenError> {
    jws.verify(key, HighS::Refuse).map_err(|_| TokenError::Signature)
}

fn sign(key: &PrivateKey, class: &str, kid: &str, claims: &Value) -> String {
    jws::sign_with(key, &json!({ "alg": key.algorithm().as_str(), "typ": class, "kid": kid }), claims)
}

/// The times of a token, in seconds since the epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    pub issued_at: i64,
    pub expires_at: i64,
}

impl Times {
    /// The end of the time in which the token is accepted.
    pub fn accepted_until(self) -> Timestamp {
        Timestamp(0).plus_seconds(self.expires_at + SKEW_SECONDS)
    }

    fn lasting(now: i64, seconds: i64) -> Self {
        Self { issued_at: now, expires_at: now + seconds }
    }

    /// Checks that the token is valid now, and for no longer than it may be.
    fn check(self, now: i64, max_seconds: i64) -> Result<(), TokenError> {
        if self.expires_at <= self.issued_at || self.expires_at - self.issued_at > max_seconds {
            return Err(TokenError::Lifetime);
        }
        if self.issued_at > now + SKEW_SECONDS {
            return Err(TokenError::Future);
        }
        if self.expires_at + SKEW_SECONDS <= now { Err(TokenError::Expired) } else { Ok(()) }
    }
}

/// The `jti` of a token. Revocation and the refusal of replays depend on it.
fn unique(jti: String) -> Result<String, TokenError> {
    /// A store keeps it until the token expires.
    const MAX_BYTES: usize = 256;
    if jti.is_empty() || jti.len() > MAX_BYTES { Err(TokenError::Jti) } else { Ok(jti) }
}
