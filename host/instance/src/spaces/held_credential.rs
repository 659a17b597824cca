//! A credential with which this instance reads a space.

use std::fmt;

use belvedere_base::clock::Timestamp;
use belvedere_protocol::crypto::PrivateKey;

/// A credential with the key that it is bound to.
pub(super) struct HeldCredential {
    pub token: String,
    pub key: PrivateKey,
    pub jti: String,
    pub expires_at: Timestamp,
}

impl fmt::Debug for HeldCredential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeldCredential").field("jti", &self.jti).finish_non_exhaustive()
    }
}
