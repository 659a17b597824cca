//! Parses, verifies and signs compact JWS (RFC 7515) for service tokens and DPoP proofs. Only ES256 and ES256K.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use super::did_key::{Algorithm, HighS, PrivateKey, PublicKey};
use super::json;

/// Larger tokens are rejected before parsing: a service token has about 400 bytes, a DPoP proof with its key about 800.
pub const MAX_TOKEN_BYTES: usize = 8 * 1024;

/// A parsed token whose signature has not been checked.
#[derive(Clone, Debug)]
pub struct Jws<'a> {
    pub header: Header,
    /// The text that was signed: header and payload with the dot between them.
    pub signing_input: &'a str,
    payload: Value,
    signature: [u8; 64],
}

/// The protected header.
#[derive(Clone, Debug)]
pub struct Header {
    pub alg: Algorithm,
    pub typ: Option<String>,
    pub kid: Option<String>,
    /// The embedded key of a DPoP proof.
    pub jwk: Option<Value>,
}

/// Claims of a service token (auth-and-clients.md §6). Times are seconds since the epoch.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub struct ServiceClaims {
    pub iss: String,
    pub aud: String,
    #[serde(deserialize_with = "seconds")]
    pub exp: i64,
    #[serde(default, deserialize_with = "some_seconds")]
    pub iat: Option<i64>,
    #[serde(default, deserialize_with = "some_seconds")]
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

/// Parses a compact JWS. Nothing in it can be trusted before [`Jws::verify`].
///
/// # Errors
/// Unless the token has three segments in canonical base64url: a JSON header with `alg` ES256 or ES256K and without
/// `crit`, a JSON object as payload, neither with duplicate keys, and a signature of 64 bytes.
pub fn parse(token: &str) -> Result<Jws<'_>, JwsError> {
    if token.len() > MAX_TOKEN_BYTES {
        return Err(JwsError::Malformed("it is too long"));
    }
    let (signing_input, signature) =
        token.rsplit_once('.').ok_or(JwsError::Malformed("it has too few parts"))?;
    let (header, payload) =
        signing_input.split_once('.').ok_or(JwsError::Malformed("it has too few parts"))?;
    if payload.contains('.') {
        return Err(JwsError::Malformed("it has too many parts"));
    }
    let header = Header::read(object(&decode(header)?, "its header is not a JSON object with unique keys")?)?;
    let payload = object(&decode(payload)?, "its payload is not a JSON object with unique keys")?;
    let signature = decode(signature)?
        .try_into()
        .map_err(|_| JwsError::Malformed("its signature does not have 64 bytes"))?;
    Ok(Jws { header, signing_input, payload, signature })
}

/// Signs claims as a compact JWS with `typ` JWT.
pub fn sign(key: &PrivateKey, claims: &Value) -> String {
    sign_with(key, &json!({ "typ": "JWT", "alg": key.algorithm().as_str() }), claims)
}

/// Signs claims with a header, whose `alg` must be the key's algorithm.
pub fn sign_with(key: &PrivateKey, header: &Value, claims: &Value) -> String {
    let text = |part: &Value| URL_SAFE_NO_PAD.encode(part.to_string());
    let mut token = format!("{}.{}", text(header), text(claims));
    let signature = key.sign(token.as_bytes());
    token.push('.');
    URL_SAFE_NO_PAD.encode_string(signature, &mut token);
    token
}

impl Header {
    fn read(header: Value) -> Result<Self, JwsError> {
        if header.get("crit").is_some() {
            // `crit` lists extensions that must be supported; we support none.
            return Err(JwsError::Malformed("its header has crit"));
        }
        let text = |name| match header.get(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(_) => Err(JwsError::Malformed("its header has a field of the wrong type")),
        };
        let alg = text("alg")?.ok_or(JwsError::Malformed("its header has no alg"))?;
        let alg = Algorithm::from_name(&alg).ok_or(JwsError::Algorithm)?;
        Ok(Self { alg, typ: text("typ")?, kid: text("kid")?, jwk: header.get("jwk").cloned() })
    }
}

impl Jws<'_> {
    /// Checks the signature; the key's curve must be the one `alg` names.
    ///
    /// # Errors
    /// When the key did not sign this token.
    pub fn verify(&self, key: &PublicKey, high_s: HighS) -> Result<(), JwsError> {
        if key.algorithm() != self.header.alg {
            return Err(JwsError::Signature);
        }
        key.verify(self.signing_input.as_bytes(), &self.signature, high_s).map_err(|_| JwsError::Signature)
    }

    /// Deserializes the payload.
    ///
    /// # Errors
    /// When a claim is missing or of the wrong type.
    pub fn claims<T: DeserializeOwned>(&self) -> Result<T, JwsError> {
        T::deserialize(&self.payload)
            .map_err(|_| JwsError::Malformed("a claim is missing or of the wrong type"))
    }
}

/// Decodes canonical base64url: no padding and no stray bits at the end, so that a token has only one encoding.
fn decode(part: &str) -> Result<Vec<u8>, JwsError> {
    URL_SAFE_NO_PAD.decode(part).map_err(|_| JwsError::Malformed("a part is not canonical base64url"))
}

fn object(bytes: &[u8], why: &'static str) -> Result<Value, JwsError> {
    json::parse(bytes).ok().filter(Value::is_object).ok_or(JwsError::Malformed(why))
}

/// Reads a NumericDate. A fraction is cut off.
pub(crate) fn seconds<'de, D: Deserializer<'de>>(d: D) -> Result<i64, D::Error> {
    /// The end of the year 9999. Larger values are rejected.
    const MAX: f64 = 253_402_300_799.0;
    let seconds = f64::deserialize(d)?;
    if (0.0..=MAX).contains(&seconds) {
        Ok(seconds as i64)
    } else {
        Err(serde::de::Error::custom("not a date"))
    }
}

fn some_seconds<'de, D: Deserializer<'de>>(d: D) -> Result<Option<i64>, D::Error> {
    seconds(d).map(Some)
}
