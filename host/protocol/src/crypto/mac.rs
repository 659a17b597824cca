//! HMAC-SHA256 (RFC 2104) with keys derived from the instance's secret: proves that this instance wrote a message.

use std::fmt;

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

    pub fn tag(&self, message: &[u8]) -> [u8; 32] {
        tag(&*self.0, message)
    }
}

fn tag(key: &[u8], message: &[u8]) -> [u8; 32] {
    let mut mac = <Hmac<Sha256> as KeyInit>::new_from_slice(key).expect("HMAC accepts keys of every length");
    mac.update(message);
    mac.finalize().into_bytes().into()
}

impl fmt::Debug for MacKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MacKey(…)")
    }
}
