//! Keys, signatures, sealing and hashing. No I/O; callers pass the source of randomness.

pub mod did_key;
pub mod dpop;
pub mod hash;
mod json;
pub mod jwk;
pub mod jws;
pub mod mac;
pub mod seal;
#[cfg(test)]
mod tests;

pub use did_key::{Algorithm, HighS, PrivateKey, PublicKey};
pub use hash::{ct_eq, sha256, sha256_hex};
pub use mac::MacKey;
pub use seal::SealingKey;
