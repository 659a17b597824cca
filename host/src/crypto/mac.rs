//! HMAC-SHA256 (RFC 2104) under keys derived from the instance's secret: what only this instance could have written.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use zeroize::Zeroizing;

/// A key for one purpose. Wiped when dropped, never shown.
#[derive(Clone)]
pub struct MacKey(Zeroizing<[u8; 32]>);

impl MacKey {
    /// The key for a purpose. Hosts with the same secret have the same.
    pub fn derive(secret: &[u8], purpose: &str) -> Self {
        Self(Zeroizing::new(tag(secret, purpose.as_bytes())))
    }

    pub fn tag(&self, message: &[u8]) -> [u8; 32] {
        tag(&*self.0, message)
    }
}

fn tag(key: &[u8], message: &[u8]) -> [u8; 32] {
    // HMAC takes keys of every length.
    let mut mac = <Hmac<Sha256> as KeyInit>::new_from_slice(key).expect("a key of any length will do");
    mac.update(message);
    mac.finalize().into_bytes().into()
}

impl fmt::Debug for MacKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MacKey(…)")
    }
}
