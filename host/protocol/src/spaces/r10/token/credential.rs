//! Space credentials: the authority of a space permits the holder of a key to read it (spaces.md §7.3, spaces-delta.md §2).

use serde::Deserialize;
use serde_json::{Value, json};

use belvedere_base::clock::Timestamp;

use super::{KeyId, Times, TokenError, parse, sign, unique, verify};
use crate::crypto::jws::{self, Jws};
use crate::crypto::{Algorithm, PrivateKey, PublicKey};
use crate::spaces::SpaceUri;

pub(super) const CLASS: &str = "atproto-space-credential+jwt";

/// Characters of a SHA-256 in base64url.
const THUMBPRINT_CHARACTERS: usize = 43;

/// The key that a credential is bound to. It decides the lifetime, and the proof that the holder sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Binding {
    /// R10: a P-256 key, as `did:key`. The holder sends HTTP message signatures ([`super::super::http_signature`]).
    Key(PublicKey),
    /// R8 (August 2026): the thumbprint of a P-256 key (RFC 7638). The holder sends DPoP proofs.
    Thumbprint(String),
}

impl Binding {
    /// The lifetime of credentials that we issue, in seconds.
    pub fn seconds(&self) -> i64 {
        match self {
            Self::Key(_) => 600,
            Self::Thumbprint(_) => 7_200,
        }
    }

    /// The longest lifetime that is accepted, in seconds.
    pub fn max_seconds(&self) -> i64 {
        match self {
            Self::Key(_) => 3_600,
            Self::Thumbprint(_) => 7_200,
        }
    }

    fn of(confirmation: &Confirmation) -> Option<Self> {
        match (&confirmation.kid, &confirmation.jkt) {
            (Some(kid), None) => {
                let key = PublicKey::from_did_key(kid).ok()?;
                (key.algorithm() == Algorithm::Es256).then_some(Self::Key(key))
            }
            (None, Some(jkt)) if jkt.len() == THUMBPRINT_CHARACTERS => Some(Self::Thumbprint(jkt.clone())),
            _ => None,
        }
    }

    fn to_json(&self) -> Value {
        match self {
            Self::Key(key) => json!({ "kid": key.to_did_key() }),
            Self::Thumbprint(jkt) => json!({ "jkt": jkt }),
        }
    }
}

/// A verified credential. The caller checks that the request is about `space` and proves the binding, and that `jti` is not
/// revoked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credential {
    /// The authority of this space is the issuer.
    pub space: SpaceUri,
    pub binding: Binding,
    pub times: Times,
    pub jti: String,
}

/// A credential whose issuer's key is needed next.
#[derive(Clone, Debug)]
pub struct ParsedCredential<'a> {
    claims: Credential,
    key_id: KeyId,
    jws: Jws<'a>,
}

#[derive(Deserialize)]
struct Claims {
    iss: String,
    sub: String,
    #[serde(default)]
    cnf: Confirmation,
    #[serde(deserialize_with = "jws::seconds")]
    iat: i64,
    #[serde(deserialize_with = "jws::seconds")]
    exp: i64,
    #[serde(default)]
    jti: String,
}

#[derive(Default, Deserialize)]
struct Confirmation {
    kid: Option<String>,
    jkt: Option<String>,
}

impl Credential {
    /// Issues a credential for a space. `key`: the key `key_id` of its authority. `jti`: a text that was never used before.
    pub fn issue(
        key: &PrivateKey,
        key_id: KeyId,
        space: &SpaceUri,
        binding: &Binding,
        jti: &str,
        now: Timestamp,
    ) -> (String, Times) {
        let times = Times::lasting(now.as_seconds(), binding.seconds());
        let claims = json!({
            "iss": space.did, "sub": space.to_string(), "cnf": binding.to_json(),
            "iat": times.issued_at, "exp": times.expires_at, "jti": jti,
        });
        (sign(key, CLASS, key_id.as_str(), &claims), times)
    }

    /// Whether a verified credential is still valid.
    pub fn is_current(&self, now: Timestamp) -> bool {
        self.times.check(now.as_seconds(), self.binding.max_seconds()).is_ok()
    }
}

impl<'a> ParsedCredential<'a> {
    /// Whether a token is a credential, by its class.
    pub fn is_class_of(token: &str) -> bool {
        jws::parse(token).is_ok_and(|jws| jws.header.typ.as_deref() == Some(CLASS))
    }

    /// # Errors
    /// When the token is malformed, of another class, not bound to a key, or not issued by the authority of its space.
    pub fn parse(token: &'a str) -> Result<Self, TokenError> {
        let (jws, claims): (_, Claims) = parse(token, CLASS)?;
        let key_id = KeyId::of(&jws)?;
        let space =
            SpaceUri::parse(&claims.sub).map_err(|_| TokenError::Malformed("its sub is not a space"))?;
        // Otherwise every DID could issue credentials for every space.
        if claims.iss != space.did.as_str() {
            return Err(TokenError::Issuer);
        }
        let binding = Binding::of(&claims.cnf).ok_or(TokenError::Binding)?;
        let times = Times { issued_at: claims.iat, expires_at: claims.exp };
        let claims = Credential { space, binding, times, jti: unique(claims.jti)? };
        Ok(Self { claims, key_id, jws })
    }

    /// The space that the token names. Its authority is the issuer, whose DID document has the key.
    pub fn space(&self) -> &SpaceUri {
        &self.claims.space
    }

    /// The claims, of which nothing was checked.
    pub fn claims(&self) -> &Credential {
        &self.claims
    }

    /// The key whose possession the request must prove.
    pub fn binding(&self) -> &Binding {
        &self.claims.binding
    }

    /// The only key that may verify the credential. When the DID document lacks it, the credential is refused.
    pub fn key_id(&self) -> KeyId {
        self.key_id
    }

    /// # Errors
    /// Names the first check that fails: times, signature.
    pub fn verify(&self, key: &PublicKey, now: Timestamp) -> Result<Credential, TokenError> {
        self.claims.times.check(now.as_seconds(), self.claims.binding.max_seconds())?;
        verify(&self.jws, key)?;
        Ok(self.claims.clone())
    }
}
