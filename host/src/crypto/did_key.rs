//! Public and private keys of the two curves atproto knows, and their text form (multikey, did:key).

use crate::random::Random;

/// A signature algorithm, by its JOSE name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// ES256: ECDSA over P-256 with SHA-256.
    Es256,
    /// ES256K: ECDSA over secp256k1 with SHA-256.
    Es256k,
}

/// What to do with a signature whose `s` is in the upper half of the order. The same signature exists with a low `s`,
/// so accepting both makes signatures malleable; some libraries emit either.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HighS {
    Accept,
    Refuse,
}

/// A public key: always a point on its curve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicKey(());

/// A private key. Wiped when dropped, never shown.
#[derive(Debug)]
pub struct PrivateKey(());

#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("not a key: {0}")]
pub struct InvalidKey(pub &'static str);

#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[error("the signature does not verify")]
pub struct BadSignature;

impl PublicKey {
    /// Reads `z…` (base58btc of the multicodec prefix and the compressed point).
    pub fn from_multikey(_text: &str) -> Result<Self, InvalidKey> {
        todo!()
    }

    /// Reads `did:key:z…`.
    pub fn from_did_key(_text: &str) -> Result<Self, InvalidKey> {
        todo!()
    }

    /// Reads a point in SEC1 form, compressed or not.
    pub fn from_sec1(_algorithm: Algorithm, _point: &[u8]) -> Result<Self, InvalidKey> {
        todo!()
    }

    pub fn algorithm(&self) -> Algorithm {
        todo!()
    }

    pub fn to_multikey(&self) -> String {
        todo!()
    }

    pub fn to_did_key(&self) -> String {
        todo!()
    }

    /// Checks a 64-byte `r || s` signature over SHA-256 of `message`.
    pub fn verify(&self, _message: &[u8], _signature: &[u8], _high_s: HighS) -> Result<(), BadSignature> {
        todo!()
    }
}

impl PrivateKey {
    pub fn generate(_algorithm: Algorithm, _random: &Random) -> Self {
        todo!()
    }

    /// Reads the 32-byte scalar.
    pub fn from_bytes(_algorithm: Algorithm, _scalar: &[u8]) -> Result<Self, InvalidKey> {
        todo!()
    }

    pub fn public(&self) -> PublicKey {
        todo!()
    }

    /// 64 bytes `r || s`, low `s`, deterministic (RFC 6979).
    pub fn sign(&self, _message: &[u8]) -> [u8; 64] {
        todo!()
    }
}
