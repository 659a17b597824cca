//! Seals the identity's keys, each for one purpose, so that they can't be exchanged in the store.

use belvedere_base::random::Random;
use belvedere_protocol::crypto::{Algorithm, PrivateKey, SealingKey};
use belvedere_storage::store::StoreError;

/// The purpose of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyUse {
    /// Signs service tokens: the `#atproto` key of the DID document.
    Signing,
    /// Signs operations of the PLC directory.
    Rotation,
    /// A further key of the DID document.
    Method,
}

impl KeyUse {
    fn purpose(self) -> &'static str {
        match self {
            Self::Signing => "service_identity.signing_key",
            Self::Rotation => "service_identity.rotation_key",
            Self::Method => "verification_methods",
        }
    }
}

/// All keys of the identity are of this curve.
const ALGORITHM: Algorithm = Algorithm::Es256;

/// A new key, and the same sealed.
pub(super) fn generate(sealing: &SealingKey, random: &Random, key_use: KeyUse) -> (PrivateKey, Vec<u8>) {
    let key = PrivateKey::generate(ALGORITHM, random);
    let sealed = sealing.seal(random, key_use.purpose(), &*key.to_bytes());
    (key, sealed)
}

/// Opens a sealed key.
///
/// # Errors
/// [`StoreError::Corrupt`] when it was sealed under another `TOKEN_ENCRYPTION_KEY`, for another purpose, or is damaged.
pub(super) fn open(sealing: &SealingKey, key_use: KeyUse, sealed: &[u8]) -> Result<PrivateKey, StoreError> {
    let damaged = || {
        let purpose = key_use.purpose();
        StoreError::Corrupt(format!("{purpose}: sealed under another TOKEN_ENCRYPTION_KEY, or damaged"))
    };
    let scalar = sealing.open(key_use.purpose(), sealed).map_err(|_| damaged())?;
    PrivateKey::from_bytes(ALGORITHM, &scalar).map_err(|_| damaged())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_opens_for_its_own_use_only() {
        let (sealing, random) = (SealingKey::new([1; 32]), Random::seeded(1));
        let (key, sealed) = generate(&sealing, &random, KeyUse::Rotation);
        let opened = open(&sealing, KeyUse::Rotation, &sealed).unwrap();
        assert_eq!(opened.public(), key.public());
        assert!(open(&sealing, KeyUse::Signing, &sealed).is_err());
        assert!(open(&SealingKey::new([2; 32]), KeyUse::Rotation, &sealed).is_err());
    }
}
