//! Verifies DPoP proofs on requests to us (RFC 9449 §4.3; auth-and-clients.md §5): an application sends the access
//! token of a user's session, and proves that it has the session's key. The checks, in this order: form, method, URL,
//! time, token hash, key, session, signature, token, nonce, replay. Only a proof that passes the others is marked as
//! used.

use http::header::{HeaderMap, HeaderName, HeaderValue, WWW_AUTHENTICATE};
use http::{Method, StatusCode};
use url::Url;

use super::nonces::Nonces;
use super::used_proofs::{UseUnknown, UsedProofs};
use super::{ApiClient, Origins};
use belvedere_base::clock::{Clock, Timestamp};
use belvedere_instance::events::requester;
use belvedere_protocol::atproto::Did;
use belvedere_protocol::crypto::dpop::{Proof, ProofError, token_hash};
use belvedere_protocol::crypto::{ct_eq, sha256_hex};
use belvedere_storage::store::events::Authentication;
use belvedere_storage::store::oauth_sessions::{self, ProofSession};
use belvedere_storage::store::{Db, StoreError};
use belvedere_web::http::Error;

pub const DPOP: HeaderName = HeaderName::from_static("dpop");
const DPOP_NONCE: HeaderName = HeaderName::from_static("dpop-nonce");

/// Maximum age of a proof (service.md, Limits).
const MAX_AGE_SECONDS: i64 = 300;

/// Maximum by which a caller's clock may be ahead of ours.
const MAX_AHEAD_SECONDS: i64 = 30;

/// Maximum length of a `jti`: a random string or a UUID is shorter.
const MAX_JTI_BYTES: usize = 256;

/// Verifies proofs, and rejects those used before. Cheap to clone.
#[derive(Clone, Debug)]
pub struct DpopProofs {
    db: Db,
    clock: Clock,
    origins: Origins,
    used: UsedProofs,
    nonces: Option<Nonces>,
}

/// A proof with its access token, and the request that they came with.
#[derive(Clone, Copy, Debug)]
pub struct PresentedProof<'a> {
    pub method: &'a Method,
    /// The path as it was sent: the client chooses the percent-encoding.
    pub path: &'a str,
    pub token: &'a str,
    pub proof: &'a str,
}

/// The session whose key a caller has proved to hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DpopSession {
    pub id: String,
    pub did: Did,
    /// Space-separated.
    pub scopes: String,
}

/// The reason why a proof is rejected.
#[derive(Debug, thiserror::Error)]
pub enum DpopError {
    #[error("DPoP auth requires DPoP header")]
    Missing,
    #[error("more than one DPoP header")]
    MultipleHeaders,
    #[error("invalid DPoP proof: {0}")]
    Malformed(#[from] ProofError),
    #[error("DPoP proof is for another method")]
    Method,
    #[error("DPoP proof is for another URL")]
    Url,
    #[error("DPoP proof is from the future")]
    FromFuture,
    #[error("DPoP proof is too old")]
    TooOld,
    #[error("DPoP proof has no ath")]
    NoTokenHash,
    #[error("DPoP proof is for another access token")]
    TokenHash,
    #[error("DPoP proof has no usable jti")]
    Jti,
    #[error("no DPoP key matching proof thumbprint")]
    UnknownKey,
    #[error("no matching DPoP session")]
    NoSession,
    #[error("DPoP proof signature does not verify")]
    Signature,
    #[error("access token is not the one the session was registered with")]
    Token,
    /// The PDS's access token has expired, and there is no refresh token.
    #[error("token_expired")]
    Expired,
    /// With the nonce to use.
    #[error("use_dpop_nonce")]
    Nonce(String),
    #[error("DPoP proof replay detected")]
    Replayed,
    #[error(transparent)]
    UseUnknown(#[from] UseUnknown),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl DpopError {
    /// Whether the sender is charged a failed proof. A missing nonce is a step of the protocol, the proof of an expired
    /// session is valid, and a failure of the database is not the sender's.
    pub fn is_failure(&self) -> bool {
        !matches!(self, Self::Nonce(_) | Self::Expired | Self::UseUnknown(_) | Self::Store(_))
    }
}

impl DpopProofs {
    /// With `nonces`, proofs must carry one of them.
    pub fn new(db: Db, clock: Clock, origins: Origins, used: UsedProofs, nonces: Option<Nonces>) -> Self {
        Self { db, clock, origins, used, nonces }
    }

    /// Verifies the DPoP header of a request of `client`, and returns the session.
    ///
    /// # Errors
    /// Says which check failed.
    pub async fn verify_request(
        &self,
        client: &ApiClient,
        method: &Method,
        path: &str,
        headers: &HeaderMap,
        token: &str,
    ) -> Result<DpopSession, DpopError> {
        let mut proofs = headers.get_all(DPOP).iter();
        let proof = proofs.next().ok_or(DpopError::Missing)?;
        if proofs.next().is_some() {
            return Err(DpopError::MultipleHeaders);
        }
        // A value that is not text does not parse as a proof.
        let proof = proof.to_str().unwrap_or_default();
        self.verify(client, &PresentedProof { method, path, token, proof }).await
    }

    /// Verifies a proof and its access token for `client`, and returns the session.
    ///
    /// # Errors
    /// Says which check failed.
    pub async fn verify(
        &self,
        client: &ApiClient,
        presented: &PresentedProof<'_>,
    ) -> Result<DpopSession, DpopError> {
        let proof = Proof::parse(presented.proof)?;
        self.check_claims(&proof, presented)?;
        let stored = oauth_sessions::by_thumbprint(&self.db, &client.id, &proof.thumbprint).await?;
        let stored = stored.ok_or(DpopError::UnknownKey)?;
        let ProofSession { id: Some(id), did: Some(did), scopes, token_hash, refreshable, expires_at } =
            stored
        else {
            return Err(DpopError::NoSession);
        };
        proof.verify().map_err(|_| DpopError::Signature)?;
        let registered = token_hash.unwrap_or_default();
        if !ct_eq(sha256_hex(presented.token.as_bytes()).as_bytes(), registered.as_bytes()) {
            return Err(DpopError::Token);
        }
        if let Some(nonces) = &self.nonces {
            let now = self.clock.now();
            let good = proof.claims.nonce.as_deref().is_some_and(|nonce| nonces.accept(nonce, now));
            if !good {
                return Err(DpopError::Nonce(nonces.current(now)));
            }
        }
        let expires = Timestamp(0).plus_seconds(proof.claims.iat + MAX_AGE_SECONDS + 1);
        if !self.used.first_use(&proof.thumbprint, &proof.claims.jti, expires).await? {
            return Err(DpopError::Replayed);
        }
        if refreshable == Some(false) && expires_at.is_some_and(|at| at <= self.clock.now()) {
            return Err(DpopError::Expired);
        }
        let did = Did::try_from(did.as_str());
        let did = did.map_err(|_| StoreError::Corrupt(format!("oauth_sessions {id}: invalid DID")))?;
        requester::authenticated(Authentication::Dpop, None);
        Ok(DpopSession { id, did, scopes: scopes.unwrap_or_default() })
    }

    fn check_claims(&self, proof: &Proof<'_>, presented: &PresentedProof<'_>) -> Result<(), DpopError> {
        let claims = &proof.claims;
        if !claims.htm.eq_ignore_ascii_case(presented.method.as_str()) {
            return Err(DpopError::Method);
        }
        if !self.matches_url(&claims.htu, presented.path) {
            return Err(DpopError::Url);
        }
        let now = self.clock.now().as_seconds();
        if claims.iat > now + MAX_AHEAD_SECONDS {
            return Err(DpopError::FromFuture);
        }
        if claims.iat < now - MAX_AGE_SECONDS {
            return Err(DpopError::TooOld);
        }
        let ath = claims.ath.as_deref().ok_or(DpopError::NoTokenHash)?;
        if !ct_eq(ath.as_bytes(), token_hash(presented.token).as_bytes()) {
            return Err(DpopError::TokenHash);
        }
        if claims.jti.is_empty() || claims.jti.len() > MAX_JTI_BYTES {
            return Err(DpopError::Jti);
        }
        Ok(())
    }

    /// Whether `htu` is this path on one of our origins. Query and fragment are ignored (RFC 9449 §4.3).
    fn matches_url(&self, htu: &str, path: &str) -> bool {
        let Some(htu) = htu.split(['?', '#']).next() else { return false };
        let Some((_, rest)) = htu.split_once("://") else { return false };
        let named = rest.find('/').map_or("/", |slash| &rest[slash..]);
        named == path
            && Url::parse(htu).is_ok_and(|url| {
                let bare = url.username().is_empty() && url.password().is_none();
                bare && self.origins.contains(&url.origin().ascii_serialization())
            })
    }
}

impl From<DpopError> for Error {
    fn from(refused: DpopError) -> Self {
        let text = refused.to_string();
        // RFC 9449 §7.1 and RFC 6750 §3.1: the code tells the client how to proceed.
        let code = match refused {
            DpopError::UseUnknown(_) => return Self::new(StatusCode::SERVICE_UNAVAILABLE, text),
            DpopError::Store(error) => return Error::from(error),
            DpopError::Nonce(nonce) => {
                let error =
                    Self::unauthorized(text).with_header(WWW_AUTHENTICATE, challenge("use_dpop_nonce"));
                return match HeaderValue::try_from(nonce) {
                    Ok(nonce) => error.with_header(DPOP_NONCE, nonce),
                    Err(_) => error,
                };
            }
            DpopError::UnknownKey | DpopError::NoSession | DpopError::Token | DpopError::Expired => {
                "invalid_token"
            }
            _ => "invalid_dpop_proof",
        };
        Self::unauthorized(text).with_header(WWW_AUTHENTICATE, challenge(code))
    }
}

fn challenge(code: &'static str) -> HeaderValue {
    HeaderValue::from_static(match code {
        "use_dpop_nonce" => r#"DPoP error="use_dpop_nonce", algs="ES256""#,
        "invalid_token" => r#"DPoP error="invalid_token", algs="ES256""#,
        _ => r#"DPoP error="invalid_dpop_proof", algs="ES256""#,
    })
}
