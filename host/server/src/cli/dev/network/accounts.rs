//! The accounts of the stand-in network: their names, keys and DID documents.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use belvedere_protocol::crypto::{Algorithm, PrivateKey, sha256};

/// The alphabet of the identifiers of did:plc.
const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// Characters of such an identifier.
const PLC_LENGTH: usize = 24;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cli::dev) struct Account {
    pub(in crate::cli::dev) did: String,
    pub(in crate::cli::dev) handle: String,
}

/// The DID of an account that names none: the same for a handle in each run.
pub(in crate::cli::dev) fn did_of(handle: &str) -> String {
    let hash = sha256(handle.as_bytes());
    let name: String =
        hash.iter().take(PLC_LENGTH).map(|byte| char::from(ALPHABET[usize::from(byte % 32)])).collect();
    format!("did:plc:{name}")
}

/// Accounts by DID.
#[derive(Debug, Default)]
pub(super) struct Accounts(BTreeMap<String, Account>);

impl Accounts {
    /// Adds an account, or renames it. Returns whether something has changed.
    pub(super) fn put(&mut self, account: Account) -> bool {
        let before = self.0.insert(account.did.clone(), account.clone());
        before.is_none_or(|before| before != account)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Account> {
        self.0.values()
    }

    /// The account with this DID or handle.
    pub(super) fn find(&self, name: &str) -> Option<&Account> {
        self.0.get(name).or_else(|| self.0.values().find(|account| account.handle == name))
    }

    /// The DID document of an account, whose PDS has this origin.
    pub(super) fn document(&self, did: &str, pds: &str) -> Option<Value> {
        let Account { did, handle } = self.0.get(did)?;
        let key = signing_key(did)?.public().to_multikey();
        Some(json!({
            "@context": ["https://www.w3.org/ns/did/v1", "https://w3id.org/security/multikey/v1"],
            "id": did,
            "alsoKnownAs": [format!("at://{handle}")],
            "verificationMethod": [{
                "id": format!("{did}#atproto"), "type": "Multikey", "controller": did,
                "publicKeyMultibase": key,
            }],
            "service": [{
                "id": "#atproto_pds", "type": "AtprotoPersonalDataServer", "serviceEndpoint": pds,
            }],
        }))
    }
}

/// The key of an account. It protects nothing: everybody can derive it from the DID.
pub(super) fn signing_key(did: &str) -> Option<PrivateKey> {
    let scalar = sha256(format!("belvedere dev: the key of {did}").as_bytes());
    PrivateKey::from_bytes(Algorithm::Es256k, &scalar).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use belvedere_protocol::atproto::Did;

    #[test]
    fn an_account_has_the_same_valid_did_in_each_run() {
        let did = did_of("alice.test");
        assert!(Did::try_from(did.as_str()).is_ok(), "{did}");
        assert_eq!((did.len(), &did), (32, &did_of("alice.test")));
        assert_ne!(did, did_of("bob.test"));
    }

    #[test]
    fn an_account_is_found_by_both_names() {
        let mut accounts = Accounts::default();
        let account = |handle: &str| Account { did: did_of("alice.test"), handle: handle.to_owned() };
        assert!(accounts.put(account("alice.test")));
        assert!(!accounts.put(account("alice.test")));
        assert!(accounts.put(account("alice2.test")));
        assert_eq!(accounts.find("alice2.test"), accounts.find(&did_of("alice.test")));
        assert_eq!(accounts.find("alice.test"), None);
        let document = accounts.document(&did_of("alice.test"), "http://127.0.0.1:3001").unwrap();
        assert_eq!(document["alsoKnownAs"][0], "at://alice2.test");
    }
}
