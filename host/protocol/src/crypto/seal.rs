//! Encrypts values at rest: AES-256-GCM under the operator's key.

use std::fmt;

use aes_gcm::Aes256Gcm;
use aes_gcm::aead::{Aead, KeyInit, Payload};
use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use zeroize::Zeroizing;

use belvedere_base::random::Random;

/// First byte of a sealed value, so that a later format can coexist with this one.
const VERSION: u8 = 1;

/// The standard nonce length of AES-GCM. Nonces are random: one key may seal about 2^32 values before a repeated nonce
/// becomes a risk.
const NONCE_BYTES: usize = 12;

/// The key from `TOKEN_ENCRYPTION_KEY`. Wiped from memory when dropped; `Debug` does not show it.
#[derive(Clone)]
pub struct SealingKey(Zeroizing<[u8; 32]>);

#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
pub enum SealError {
    #[error("the key must be base64 of 32 bytes")]
    Key,
    #[error("sealed under another key, for another purpose, or damaged")]
    Open,
}

impl SealingKey {
    pub fn new(key: [u8; 32]) -> Self {
        Self(Zeroizing::new(key))
    }

    /// Reads base64 (standard alphabet, padding optional) of 32 bytes.
    ///
    /// # Errors
    /// [`SealError::Key`] for anything else.
    pub fn from_base64(text: &str) -> Result<Self, SealError> {
        const CONFIG: GeneralPurposeConfig =
            GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
        const ENGINE: GeneralPurpose = GeneralPurpose::new(&STANDARD, CONFIG);
        let bytes = Zeroizing::new(ENGINE.decode(text.trim()).map_err(|_| SealError::Key)?);
        let key = <[u8; 32]>::try_from(bytes.as_slice()).map_err(|_| SealError::Key)?;
        Ok(Self(Zeroizing::new(key)))
    }

    /// Encrypts `plaintext`, bound to `purpose` (such as `"api_clients.dpop_key"` and a row id): it can't be opened for
    /// another purpose. Returns version, nonce, ciphertext and tag.
    ///
    /// # Panics
    /// When the plaintext is larger than 64 GiB, the cipher's limit.
    pub fn seal(&self, random: &Random, purpose: &str, plaintext: &[u8]) -> Vec<u8> {
        let nonce = random.bytes::<NONCE_BYTES>();
        let payload = Payload { msg: plaintext, aad: purpose.as_bytes() };
        let sealed =
            self.cipher().encrypt(&nonce.into(), payload).expect("the plaintext is smaller than 64 GiB");
        [&[VERSION], &nonce[..], &sealed].concat()
    }

    /// Decrypts a value that [`Self::seal`] sealed for the same purpose.
    ///
    /// # Errors
    /// [`SealError::Open`].
    pub fn open(&self, purpose: &str, sealed: &[u8]) -> Result<Zeroizing<Vec<u8>>, SealError> {
        let rest = sealed.strip_prefix(&[VERSION]).ok_or(SealError::Open)?;
        let (nonce, msg) = rest.split_first_chunk::<NONCE_BYTES>().ok_or(SealError::Open)?;
        let payload = Payload { msg, aad: purpose.as_bytes() };
        self.cipher().decrypt(nonce.into(), payload).map(Zeroizing::new).map_err(|_| SealError::Open)
    }

    /// Built for each use: the key schedule costs a fraction of a microsecond, and only the key itself stays in memory
    /// and must be wiped.
    fn cipher(&self) -> Aes256Gcm {
        Aes256Gcm::new((&*self.0).into())
    }
}

impl fmt::Debug for SealingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SealingKey(…)")
    }
}
