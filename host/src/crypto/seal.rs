//! Encryption at rest: AES-256-GCM under the operator's key.

use crate::random::Random;

/// The key from `TOKEN_ENCRYPTION_KEY`. Wiped when dropped, never shown.
#[derive(Debug)]
pub struct SealingKey(());

#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
pub enum SealError {
    #[error("the key must be base64 of 32 bytes")]
    Key,
    #[error("sealed under another key, for another purpose, or damaged")]
    Open,
}

impl SealingKey {
    /// Reads base64 (standard alphabet, padding optional) of 32 bytes.
    pub fn from_base64(_text: &str) -> Result<Self, SealError> {
        todo!()
    }

    /// Encrypts `plaintext`, bound to `purpose` (say `"api_clients.dpop_key"` and a row id).
    pub fn seal(&self, _random: &Random, _purpose: &str, _plaintext: &[u8]) -> Vec<u8> {
        todo!()
    }

    /// Decrypts what [`Self::seal`] made for the same purpose.
    pub fn open(&self, _purpose: &str, _sealed: &[u8]) -> Result<zeroize::Zeroizing<Vec<u8>>, SealError> {
        todo!()
    }
}
