//! SHA-256 and constant-time comparison.

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

pub fn sha256(data: &[u8]) -> [u8; 32] {
    Sha256::digest(data).into()
}

/// Lowercase hex of the SHA-256, the form in which secrets are stored.
pub fn sha256_hex(data: &[u8]) -> String {
    hex::encode(sha256(data))
}

/// Compares in constant time. The lengths are not secret.
pub fn ct_eq(a: &[u8], b: &[u8]) -> bool {
    a.ct_eq(b).into()
}
