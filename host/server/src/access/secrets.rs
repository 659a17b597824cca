//! Generates keys and secrets of callers. Each kind has its prefix; of secrets only hashes are stored.

use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use belvedere_base::random::Random;

/// Client keys: they name an application, and are public.
pub const CLIENT_KEY_PREFIX: &str = "bvc_";
/// Client secrets of confidential applications.
pub const CLIENT_SECRET_PREFIX: &str = "bvs_";
/// Admin API keys.
pub const ADMIN_KEY_PREFIX: &str = "bva_";
/// Admin API keys of HappyView instances, which users bring along.
const FOREIGN_ADMIN_KEY_PREFIX: &str = "hv_";

/// Ids of provisioned DPoP keys. Not a secret: useless without the client's credentials.
pub const PROVISION_PREFIX: &str = "bvp_";

/// Random bytes in a client key, an admin key and a provision id: too many to guess.
const KEY_BYTES: usize = 16;
/// Random bytes in a client secret.
const SECRET_BYTES: usize = 32;
/// Digits of an admin key that are stored in clear after its prefix, so that its owner recognises it in a list.
const SHOWN_DIGITS: usize = 8;

/// The stored form of a secret: SHA-256 of the whole text as lowercase hex. The secrets are random, so neither salt nor
/// a slow hash is needed.
pub fn hash(secret: &str) -> String {
    hex::encode(Sha256::digest(secret.as_bytes()))
}

/// Whether a bearer token is an admin API key, or the beginning of one that lists show.
pub fn is_admin_key(token: &str) -> bool {
    [ADMIN_KEY_PREFIX, FOREIGN_ADMIN_KEY_PREFIX].iter().any(|prefix| token.starts_with(prefix))
}

/// Whether a text is a stored form of a secret, as [`hash`] makes it.
pub fn is_hash(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// A new provision id.
pub fn provision_id(random: &Random) -> String {
    format!("{PROVISION_PREFIX}{}", random.hex(KEY_BYTES))
}

/// A new admin API key.
pub struct AdminKey(Zeroizing<String>);

impl AdminKey {
    pub fn generate(random: &Random) -> Self {
        Self(Zeroizing::new(format!("{ADMIN_KEY_PREFIX}{}", random.hex(KEY_BYTES))))
    }

    /// The beginning, which lists show.
    pub fn prefix(&self) -> &str {
        &self.0[..ADMIN_KEY_PREFIX.len() + SHOWN_DIGITS]
    }

    /// The hash that is stored.
    pub fn hash(&self) -> String {
        hash(&self.0)
    }

    /// The key itself, for the only response that shows it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for AdminKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AdminKey({}…)", self.prefix())
    }
}

/// The key of a new API client, and its secret if it can keep one.
pub struct ClientCredentials {
    key: String,
    secret: Option<Zeroizing<String>>,
    /// The hash of a secret that only the application has.
    carried_hash: Option<String>,
}

impl ClientCredentials {
    /// For an application that runs on a server.
    pub fn confidential(random: &Random) -> Self {
        let secret = format!("{CLIENT_SECRET_PREFIX}{}", random.hex(SECRET_BYTES));
        Self { secret: Some(Zeroizing::new(secret)), ..Self::public(random) }
    }

    /// For an application in a browser or on a phone, which can't keep a secret.
    pub fn public(random: &Random) -> Self {
        let key = format!("{CLIENT_KEY_PREFIX}{}", random.hex(KEY_BYTES));
        Self { key, secret: None, carried_hash: None }
    }

    /// For an application that has its key, and its secret with this [`hash`], from another server.
    pub fn carried(key: String, secret_hash: Option<String>) -> Self {
        Self { key, secret: None, carried_hash: secret_hash }
    }

    pub fn key(&self) -> &str {
        &self.key
    }

    /// The hash that is stored of the secret.
    pub fn secret_hash(&self) -> Option<String> {
        self.secret.as_deref().map(|secret| hash(secret)).or_else(|| self.carried_hash.clone())
    }

    /// The secret itself, for the only response that shows it.
    pub fn reveal_secret(&self) -> Option<&str> {
        self.secret.as_deref().map(String::as_str)
    }
}

impl std::fmt::Debug for ClientCredentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientCredentials").field("key", &self.key).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_secrets_have_the_specified_format() {
        let random = Random::seeded(7);
        let key = AdminKey::generate(&random);
        assert_eq!(key.reveal().len(), 4 + 32);
        assert_eq!(key.prefix(), &key.reveal()[..12]);
        assert_eq!(key.hash().len(), 64);
        assert!(!format!("{key:?}").contains(key.reveal()));

        let client = ClientCredentials::confidential(&random);
        assert_eq!(client.key().len(), 4 + 32);
        let secret = client.reveal_secret().unwrap();
        assert_eq!(secret.len(), 4 + 64);
        assert_eq!(client.secret_hash().unwrap(), hash(secret));
        assert!(!format!("{client:?}").contains(secret));
        assert!(ClientCredentials::public(&random).reveal_secret().is_none());
    }

    #[test]
    fn keys_of_admins_begin_with_a_known_prefix() {
        assert!(is_admin_key("bva_00112233") && is_admin_key("hv_00112233"));
        for other in ["bvc_00112233", "hvc_00112233", "a.b.c", ""] {
            assert!(!is_admin_key(other), "{other}");
        }
        assert!(is_hash(&hash("abc")));
        assert!(!is_hash("abc") && !is_hash(&hash("abc").to_uppercase()));
    }

    #[test]
    fn hashes_as_sha256_hex() {
        assert_eq!(hash("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }
}
