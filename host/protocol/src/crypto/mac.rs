//! HMAC-SHA256 (RFC 2104). With a key derived from the instance's secret it proves that this instance wrote a message.

use std::fmt;

use hkdf::Hkdf;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use zeroize::Zeroizing;

/// A key for one purpose. Wiped from memory when dropped; `Debug` does not show it.
#[derive(Clone)]
pub struct MacKey(Zeroizing<[u8; 32]>);

impl MacKey {
    /// Derives the key for a purpose. Hosts with the same secret derive the same key.
    pub fn derive(secret: &[u8], purpose: &str) -> Self {
        Self(Zeroizing::new(tag(secret, purpose.as_bytes())))
    }

    /// Derives a key from uniformly random bytes: HKDF-SHA256 (RFC 5869) without its first step.
    pub fn expand(random: &[u8; 32], purpose: &[u8]) -> Self {
        let mut key = Zeroizing::new([0; 32]);
        let hkdf = Hkdf::<Sha256>::from_prk(random).expect("HKDF accepts keys of the hash's length");
        hkdf.expand(purpose, &mut *key).expect("HKDF makes keys of the hash's length");
        Self(key)
    }

    pub fn tag(&self, message: &[u8]) -> [u8; 32] {
        tag(&*self.0, message)
    }
}

/// The tag of a message under a key that another program has too, for example the receiver of a webhook.
pub fn tag(key: &[u8], message: &[u8]) -> [u8; 32] {
    let mut mac = <Hmac<Sha256> as KeyInit>::new_from_slice(key).expect("HMAC accepts keys of every length");
    mac.update(message);
    mac.finalize().into_bytes().into()
}

impl fmt::Debug for MacKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MacKey(…)")
    }
}
