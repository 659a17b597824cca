//! Compact JWS, as service tokens and DPoP proofs use it.

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::did_key::{Algorithm, HighS, PublicKey};

/// A parsed token whose signature has not been checked.
#[derive(Clone, Debug)]
pub struct Jws<'a> {
    pub header: Header,
    /// The text that was signed: header and payload with the dot between.
    pub signing_input: &'a str,
    payload: Vec<u8>,
    signature: Vec<u8>,
}

/// The protected header.
#[derive(Clone, Debug)]
pub struct Header {
    pub alg: Algorithm,
    pub typ: Option<String>,
    pub kid: Option<String>,
    /// The embedded key of a DPoP proof.
    pub jwk: Option<serde_json::Value>,
}

/// Claims of a service token (auth-and-clients.md §6).
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub struct ServiceClaims {
    pub iss: String,
    pub aud: String,
    /// Seconds since the epoch.
    pub exp: i64,
    #[serde(default)]
    pub iat: Option<i64>,
    #[serde(default)]
    pub nbf: Option<i64>,
    #[serde(default)]
    pub lxm: Option<String>,
    #[serde(default)]
    pub jti: Option<String>,
}

#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum JwsError {
    #[error("malformed token: {0}")]
    Malformed(&'static str),
    #[error("the token's algorithm is not accepted")]
    Algorithm,
    #[error("the signature does not verify")]
    Signature,
}

/// Reads a compact JWS. Nothing in it is to be believed before [`Jws::verify`].
pub fn parse(_token: &str) -> Result<Jws<'_>, JwsError> {
    todo!()
}

impl Jws<'_> {
    /// Checks the signature; the key's curve must be the one `alg` names.
    pub fn verify(&self, _key: &PublicKey, _high_s: HighS) -> Result<(), JwsError> {
        todo!()
    }

    /// Reads the payload, refusing duplicate keys.
    pub fn claims<T: DeserializeOwned>(&self) -> Result<T, JwsError> {
        let _ = (&self.payload, &self.signature);
        todo!()
    }
}
