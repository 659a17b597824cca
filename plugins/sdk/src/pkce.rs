//! Proof Key for Code Exchange (RFC 7636), which binds the callback of a sign-in to its beginning.

use sha2::{Digest as _, Sha256};

use crate::{Fault, Scope, clock, kv};

/// The value that keeps the verifier between `authorize_url` and `handle_callback`.
const KEY: &str = "pkce-verifier";

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Keeps a new verifier for the sign-in, and returns the `code_challenge` of the method `S256`.
pub fn begin() -> Result<String, Fault> {
    let verifier = base64url(&clock::random(32));
    kv::set(Scope::Flow, KEY, verifier.as_bytes(), None)?;
    Ok(challenge(&verifier))
}

/// The `code_verifier` of the sign-in.
pub fn verifier() -> Result<String, Fault> {
    let kept = kv::get(Scope::Flow, KEY)?.and_then(|bytes| String::from_utf8(bytes).ok());
    kept.ok_or_else(|| Fault::bad_input("this sign-in was not begun here: begin again"))
}

/// The challenge of a verifier.
pub fn challenge(verifier: &str) -> String {
    base64url(&Sha256::digest(verifier.as_bytes()))
}

/// Base64url without padding (RFC 4648 §5).
pub fn base64url(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let bits =
            chunk.iter().fold(0_u32, |bits, &byte| bits << 8 | u32::from(byte)) << (8 * (3 - chunk.len()));
        for index in 0..=chunk.len() {
            let sextet = bits >> (18 - 6 * index) & 0x3f;
            out.push(char::from(ALPHABET[sextet as usize]));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_the_rfc() {
        // RFC 7636, appendix B.
        let verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
        assert_eq!(challenge(verifier), "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
    }

    #[test]
    fn base64url_of_all_lengths() {
        for (bytes, expected) in
            [("", ""), ("f", "Zg"), ("fo", "Zm8"), ("foo", "Zm9v"), ("foob", "Zm9vYg"), ("\u{3ff}>", "z78-")]
        {
            assert_eq!(base64url(bytes.as_bytes()), expected);
        }
    }
}
