//! Creates DPoP proofs (RFC 9449) for the servers that we call, and parses the proofs of callers. `access::dpop` checks
//! the claims of a caller's proof.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde_json::json;

use super::did_key::{Algorithm, HighS, PrivateKey, PublicKey};
use super::hash::sha256;
use super::jwk;
use super::jws::{self, Jws, JwsError};

/// The `typ` in a proof's header.
const TYPE: &str = "dpop+jwt";

/// A parsed proof whose signature is not verified yet.
#[derive(Clone, Debug)]
pub struct Proof<'a> {
    pub claims: ProofClaims,
    /// RFC 7638 thumbprint of the key in the header.
    pub thumbprint: String,
    key: PublicKey,
    jws: Jws<'a>,
}

/// The claims of a proof (RFC 9449 §4.2).
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

/// Error for a text that is not a DPoP proof.
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
    /// Parses a proof. Nothing in it can be trusted before [`Self::verify`].
    ///
    /// # Errors
    /// When the text is not a proof with a P-256 key.
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

    /// Verifies the signature with the key in the header. High `s` is accepted because browsers produce it; signature
    /// malleability is harmless here, because the `jti` makes a proof usable only once.
    ///
    /// # Errors
    /// When the signature does not verify.
    pub fn verify(&self) -> Result<(), JwsError> {
        self.jws.verify(&self.key, HighS::Accept)
    }
}

/// The claims of a proof that [`prove`] creates.
#[derive(Clone, Copy, Debug)]
pub struct ProofParams<'a> {
    pub method: &'a str,
    /// Without query and fragment.
    pub url: &'a str,
    /// Seconds since the epoch.
    pub now: i64,
    pub jti: &'a str,
    /// The access token that is sent with the proof; `None` at a token endpoint.
    pub access_token: Option<&'a str>,
    /// The nonce that the server sent last.
    pub nonce: Option<&'a str>,
}

/// Creates a signed proof; `None` if the key is not a P-256 key.
pub fn prove(key: &PrivateKey, what: &ProofParams<'_>) -> Option<String> {
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
