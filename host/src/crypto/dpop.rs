//! DPoP proofs (RFC 9449): made for the servers we call, and read from those who call us. Which of its checks come when,
//! and what they are compared with, is `access::dpop`'s business.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde_json::json;

use super::did_key::{Algorithm, HighS, PrivateKey, PublicKey};
use super::hash::sha256;
use super::jwk;
use super::jws::{self, Jws, JwsError};

/// The media type in a proof's header.
const TYPE: &str = "dpop+jwt";

/// A proof, read and not yet verified.
#[derive(Clone, Debug)]
pub struct Proof<'a> {
    pub claims: ProofClaims,
    /// RFC 7638 thumbprint of the key in the header.
    pub thumbprint: String,
    key: PublicKey,
    jws: Jws<'a>,
}

/// RFC 9449 §4.2.
#[derive(Clone, Debug, Deserialize)]
pub struct ProofClaims {
    pub htm: String,
    pub htu: String,
    /// Seconds since the epoch.
    #[serde(deserialize_with = "jws::seconds")]
    pub iat: i64,
    pub jti: String,
    #[serde(default)]
    pub ath: Option<String>,
    #[serde(default)]
    pub nonce: Option<String>,
}

/// Why a proof can't be one.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum ProofError {
    #[error(transparent)]
    Jws(#[from] JwsError),
    #[error("its typ is not dpop+jwt")]
    Type,
    #[error("its alg is not ES256")]
    Algorithm,
    #[error("its jwk is unusable: {0}")]
    Key(String),
}

impl<'a> Proof<'a> {
    /// Reads a proof. Nothing in it is to be believed before [`Self::verify`].
    ///
    /// # Errors
    /// When its form is not that of a proof with a P-256 key.
    pub fn parse(text: &'a str) -> Result<Self, ProofError> {
        let jws = jws::parse(text)?;
        if jws.header.typ.as_deref() != Some(TYPE) {
            return Err(ProofError::Type);
        }
        if jws.header.alg != Algorithm::Es256 {
            return Err(ProofError::Algorithm);
        }
        let jwk = jws.header.jwk.as_ref().ok_or_else(|| ProofError::Key("it is missing".to_owned()))?;
        let key = jwk::public_key(jwk).map_err(|error| ProofError::Key(error.to_string()))?;
        let thumbprint = jwk::thumbprint(&key).ok_or(ProofError::Algorithm)?;
        Ok(Self { claims: jws.claims()?, thumbprint, key, jws })
    }

    /// Whether the key in the header signed this. Browsers sign with either `s`, and a second form of a signature gains
    /// nobody anything: a proof is used up by its `jti`.
    ///
    /// # Errors
    /// When it did not.
    pub fn verify(&self) -> Result<(), JwsError> {
        self.jws.verify(&self.key, HighS::Accept)
    }
}

/// What a proof of ours is for.
#[derive(Clone, Copy, Debug)]
pub struct ProofFor<'a> {
    pub method: &'a str,
    /// Without query and fragment.
    pub url: &'a str,
    /// Seconds since the epoch.
    pub now: i64,
    pub jti: &'a str,
    /// The access token that goes with it; none at a token endpoint.
    pub access_token: Option<&'a str>,
    /// What the server gave us last.
    pub nonce: Option<&'a str>,
}

/// Makes a proof; `None` for a key of another curve than P-256.
pub fn prove(key: &PrivateKey, what: &ProofFor<'_>) -> Option<String> {
    let header = json!({ "typ": TYPE, "alg": "ES256", "jwk": jwk::public_jwk(&key.public())? });
    let mut claims = json!({ "htm": what.method, "htu": what.url, "iat": what.now, "jti": what.jti });
    if let Some(token) = what.access_token {
        claims["ath"] = token_hash(token).into();
    }
    if let Some(nonce) = what.nonce {
        claims["nonce"] = nonce.into();
    }
    Some(jws::sign_with(key, &header, &claims))
}

/// `ath`: base64url of the SHA-256 of an access token.
pub fn token_hash(token: &str) -> String {
    URL_SAFE_NO_PAD.encode(sha256(token.as_bytes()))
}
