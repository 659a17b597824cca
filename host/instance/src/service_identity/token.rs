//! Signs service tokens with which the instance calls other servers under its own identity (auth-and-clients.md §6).

use serde_json::json;

use super::current::Current;
use super::{Mode, ServiceIdentity};
use belvedere_base::clock::Timestamp;
use belvedere_base::random::Random;
use belvedere_protocol::atproto::{Did, Nsid};
use belvedere_protocol::crypto::{PrivateKey, jws};

/// Seconds for which a token is valid.
const LIFE_SECONDS: i64 = 60;

/// Random bytes of a token's `jti`.
const JTI_BYTES: usize = 16;

/// The reason why the instance can't sign a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    #[error("this server has no identity with a key: set one up with the mode did_web or did_plc")]
    NoKey,
    #[error("this server has the identity of an attached account, whose key is at its PDS")]
    Attached,
    #[error("this server has no public identity")]
    NotExposed,
    #[error("the DID of this server is not registered yet")]
    Unregistered,
}

impl ServiceIdentity {
    /// The instance's DID, if its document names a key that signs for it.
    pub fn signing_did(&self) -> Option<Did> {
        self.load().signer().is_ok().then(|| self.did())
    }

    /// A token for one call of `method` at `audience`, a DID with or without the fragment of a service.
    ///
    /// # Errors
    /// When the instance has no key that its DID document names.
    pub fn sign_token(
        &self,
        audience: &str,
        method: &Nsid,
        random: &Random,
        now: Timestamp,
    ) -> Result<String, TokenError> {
        let current = self.load();
        let key = current.signer()?;
        let (did, now) = (self.did(), now.as_seconds());
        let header =
            json!({ "typ": "JWT", "alg": key.algorithm().as_str(), "kid": format!("{did}#atproto") });
        let claims = json!({
            "iss": did.as_str(), "aud": audience, "lxm": method.as_str(), "iat": now,
            "exp": now + LIFE_SECONDS, "jti": random.hex(JTI_BYTES),
        });
        Ok(jws::sign_with(key, &header, &claims))
    }
}

impl Current {
    /// The key that the DID document names.
    fn signer(&self) -> Result<&PrivateKey, TokenError> {
        match self.mode {
            Some(Mode::AttachAccount) => Err(TokenError::Attached),
            Some(Mode::NotExposed) => Err(TokenError::NotExposed),
            Some(Mode::DidPlc) if self.did.is_none() => Err(TokenError::Unregistered),
            Some(Mode::DidWeb | Mode::DidPlc) | None => self.signing_key.as_ref().ok_or(TokenError::NoKey),
        }
    }
}
