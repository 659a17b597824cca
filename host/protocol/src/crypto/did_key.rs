//! Public and private keys of the two curves that atproto uses, and their text forms (multikey, did:key).

use std::fmt;

use k256::ecdsa as k;
use k256::ecdsa::signature::{Signer, Verifier};
use p256::ecdsa as p;
use zeroize::Zeroizing;

use belvedere_base::random::Random;

/// A signature algorithm, by its JOSE name. Each belongs to one curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// ES256: ECDSA over P-256 with SHA-256.
    Es256,
    /// ES256K: ECDSA over secp256k1 with SHA-256.
    Es256k,
}

/// Whether a signature with `s` in the upper half of the order is accepted. The same signature exists with a low `s`,
/// so accepting both makes signatures malleable; some libraries emit either.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HighS {
    Accept,
    Refuse,
}

/// A public key: always a point on its curve.
#[derive(Clone, PartialEq, Eq)]
pub struct PublicKey(Point);

#[derive(Clone, PartialEq, Eq)]
enum Point {
    P256(Box<p::VerifyingKey>),
    K256(Box<k::VerifyingKey>),
}

/// A private key. Wiped from memory when dropped; `Debug` does not show it.
pub struct PrivateKey(Scalar);

enum Scalar {
    P256(Box<p::SigningKey>),
    K256(Box<k::SigningKey>),
}

#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("not a key: {0}")]
pub struct InvalidKey(pub &'static str);

#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[error("the signature does not verify")]
pub struct BadSignature;

/// Multicodec prefixes, as varints: p256-pub and secp256k1-pub.
const P256_CODE: [u8; 2] = [0x80, 0x24];
const K256_CODE: [u8; 2] = [0xe7, 0x01];

/// The longest base58 text that is decoded: decoding time is quadratic, and an uncompressed point has 88 characters.
const MAX_MULTIBASE: usize = 128;

impl Algorithm {
    /// The value of `alg` in a JWS header.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Es256 => "ES256",
            Self::Es256k => "ES256K",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "ES256" => Some(Self::Es256),
            "ES256K" => Some(Self::Es256k),
            _ => None,
        }
    }
}

impl PublicKey {
    /// Reads `z…` (base58btc of the multicodec prefix and the compressed point).
    ///
    /// # Errors
    /// When the text has another base, curve or length, or is not a point on the curve.
    pub fn from_multikey(text: &str) -> Result<Self, InvalidKey> {
        let bytes = base58(text)?;
        let (code, point) = bytes.split_first_chunk().ok_or(InvalidKey("it is too short"))?;
        let algorithm = match *code {
            P256_CODE => Algorithm::Es256,
            K256_CODE => Algorithm::Es256k,
            _ => return Err(InvalidKey("its curve is neither P-256 nor secp256k1")),
        };
        if point.len() != 33 {
            return Err(InvalidKey("it is not a compressed point"));
        }
        Self::from_sec1(algorithm, point)
    }

    /// Reads `did:key:z…`.
    ///
    /// # Errors
    /// As [`Self::from_multikey`].
    pub fn from_did_key(text: &str) -> Result<Self, InvalidKey> {
        Self::from_multikey(
            text.strip_prefix("did:key:").ok_or(InvalidKey("it does not begin with did:key:"))?,
        )
    }

    /// Reads `z…` of a point without multicodec prefix. The verification method's type names its curve (2019 suites).
    ///
    /// # Errors
    /// When the text has another base, or is not a point on the curve.
    pub fn from_multibase(algorithm: Algorithm, text: &str) -> Result<Self, InvalidKey> {
        Self::from_sec1(algorithm, &base58(text)?)
    }

    /// Reads a point in SEC1 form, compressed or not.
    ///
    /// # Errors
    /// When it is not a point on the curve.
    pub fn from_sec1(algorithm: Algorithm, point: &[u8]) -> Result<Self, InvalidKey> {
        const NOT_ON_CURVE: InvalidKey = InvalidKey("it is not a point on the curve");
        Ok(Self(match algorithm {
            Algorithm::Es256 => {
                Point::P256(Box::new(p::VerifyingKey::from_sec1_bytes(point).map_err(|_| NOT_ON_CURVE)?))
            }
            Algorithm::Es256k => {
                Point::K256(Box::new(k::VerifyingKey::from_sec1_bytes(point).map_err(|_| NOT_ON_CURVE)?))
            }
        }))
    }

    /// Both coordinates, for a JWK; `None` on the other curve.
    pub(super) fn p256_coordinates(&self) -> Option<([u8; 32], [u8; 32])> {
        let Point::P256(key) = &self.0 else { return None };
        let point = key.to_sec1_point(false);
        let (x, y) = point.as_bytes().get(1..)?.split_at_checked(32)?;
        Some((x.try_into().ok()?, y.try_into().ok()?))
    }

    pub fn algorithm(&self) -> Algorithm {
        match self.0 {
            Point::P256(_) => Algorithm::Es256,
            Point::K256(_) => Algorithm::Es256k,
        }
    }

    /// `z…` of the multicodec prefix and the compressed point.
    pub fn to_multikey(&self) -> String {
        let (code, point) = match &self.0 {
            Point::P256(key) => (P256_CODE, key.to_sec1_point(true).as_bytes().to_vec()),
            Point::K256(key) => (K256_CODE, key.to_sec1_point(true).as_bytes().to_vec()),
        };
        format!("z{}", bs58::encode([&code[..], &point].concat()).into_string())
    }

    pub fn to_did_key(&self) -> String {
        format!("did:key:{}", self.to_multikey())
    }

    /// Checks a 64-byte `r || s` signature over SHA-256 of `message`.
    ///
    /// # Errors
    /// When it is not this key's signature of the message, or has another form.
    pub fn verify(&self, message: &[u8], signature: &[u8], high_s: HighS) -> Result<(), BadSignature> {
        match &self.0 {
            Point::P256(key) => {
                let signature = p::Signature::from_slice(signature).map_err(|_| BadSignature)?;
                if high_s == HighS::Refuse && signature.normalize_s() != signature {
                    return Err(BadSignature);
                }
                key.verify(message, &signature).map_err(|_| BadSignature)
            }
            Point::K256(key) => {
                let signature = k::Signature::from_slice(signature).map_err(|_| BadSignature)?;
                // The verifier of this curve accepts only low `s`.
                let low = signature.normalize_s();
                if high_s == HighS::Refuse && low != signature {
                    return Err(BadSignature);
                }
                key.verify(message, &low).map_err(|_| BadSignature)
            }
        }
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_multikey())
    }
}

impl PrivateKey {
    pub fn generate(algorithm: Algorithm, random: &Random) -> Self {
        loop {
            let scalar = Zeroizing::new(random.bytes::<32>());
            // At most one value in 2^32 (P-256) is not a scalar of the curve.
            if let Ok(key) = Self::from_bytes(algorithm, &*scalar) {
                return key;
            }
        }
    }

    /// Reads the 32-byte scalar.
    ///
    /// # Errors
    /// When it has another length, or is zero or beyond the curve's order.
    pub fn from_bytes(algorithm: Algorithm, scalar: &[u8]) -> Result<Self, InvalidKey> {
        const NOT_A_SCALAR: InvalidKey = InvalidKey("it is not a scalar of the curve");
        if scalar.len() != 32 {
            return Err(NOT_A_SCALAR);
        }
        Ok(Self(match algorithm {
            Algorithm::Es256 => {
                Scalar::P256(Box::new(p::SigningKey::from_slice(scalar).map_err(|_| NOT_A_SCALAR)?))
            }
            Algorithm::Es256k => {
                Scalar::K256(Box::new(k::SigningKey::from_slice(scalar).map_err(|_| NOT_A_SCALAR)?))
            }
        }))
    }

    /// The 32-byte scalar, for sealing.
    pub fn to_bytes(&self) -> Zeroizing<[u8; 32]> {
        Zeroizing::new(match &self.0 {
            Scalar::P256(key) => key.to_bytes().into(),
            Scalar::K256(key) => key.to_bytes().into(),
        })
    }

    pub fn algorithm(&self) -> Algorithm {
        match self.0 {
            Scalar::P256(_) => Algorithm::Es256,
            Scalar::K256(_) => Algorithm::Es256k,
        }
    }

    pub fn public(&self) -> PublicKey {
        PublicKey(match &self.0 {
            Scalar::P256(key) => Point::P256(Box::new(*key.verifying_key())),
            Scalar::K256(key) => Point::K256(Box::new(*key.verifying_key())),
        })
    }

    /// 64 bytes `r || s`, low `s`, deterministic (RFC 6979).
    pub fn sign(&self, message: &[u8]) -> [u8; 64] {
        match &self.0 {
            Scalar::P256(key) => {
                let signature: p::Signature = key.sign(message);
                signature.normalize_s().to_bytes().into()
            }
            Scalar::K256(key) => {
                let signature: k::Signature = key.sign(message);
                signature.normalize_s().to_bytes().into()
            }
        }
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PrivateKey({}, …)", self.algorithm().as_str())
    }
}

fn base58(text: &str) -> Result<Vec<u8>, InvalidKey> {
    let digits = text.strip_prefix('z').ok_or(InvalidKey("it is not in base58btc"))?;
    if digits.len() > MAX_MULTIBASE {
        return Err(InvalidKey("it is too long"));
    }
    bs58::decode(digits).into_vec().map_err(|_| InvalidKey("it is not in base58btc"))
}

/// The other valid signature of the same message, whose `s` is high.
#[cfg(test)]
pub(crate) fn high_s(algorithm: Algorithm, low: &[u8]) -> [u8; 64] {
    match algorithm {
        Algorithm::Es256 => {
            let low = p::Signature::from_slice(low).expect("a signature");
            p::Signature::from_scalars(low.r(), -low.s()).expect("scalars").to_bytes().into()
        }
        Algorithm::Es256k => {
            let low = k::Signature::from_slice(low).expect("a signature");
            k::Signature::from_scalars(low.r(), -low.s()).expect("scalars").to_bytes().into()
        }
    }
}
