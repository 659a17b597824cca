//! Keys, signatures, sealing and hashing. No I/O; randomness is handed in.

pub mod did_key;
pub mod hash;
mod json;
pub mod jws;
pub mod seal;
#[cfg(test)]
mod tests;

pub use did_key::{Algorithm, HighS, PrivateKey, PublicKey};
pub use hash::{ct_eq, sha256, sha256_hex};
pub use seal::SealingKey;
