//! Remembers verified credentials, and the proofs of their holders. A proof may be sent with many requests (spaces.md §8), and to
//! verify one costs as much as a small read.

use std::time::Duration;

use moka::sync::Cache;

use super::tokens::Lines;
use belvedere_base::clock::Timestamp;
use belvedere_protocol::crypto::sha256;
use belvedere_protocol::spaces::r10::token::Credential;

/// Entries of each kind. One has some 500 bytes.
const MAX_ENTRIES: u64 = 20_000;

/// So long a credential is accepted whose issuer has another key now.
const TIME: Duration = Duration::from_mins(1);

/// The credentials and proofs that were verified lately, by the SHA-256 of their text.
#[derive(Debug)]
pub struct VerifiedCredentials {
    credentials: Cache<[u8; 32], Credential>,
    proofs: Cache<[u8; 32], ()>,
}

impl Default for VerifiedCredentials {
    fn default() -> Self {
        let credentials = Cache::builder().max_capacity(MAX_ENTRIES).time_to_live(TIME).build();
        let proofs = Cache::builder().max_capacity(MAX_ENTRIES).time_to_live(TIME).build();
        Self { credentials, proofs }
    }
}

impl VerifiedCredentials {
    /// A credential that was verified, and has not expired.
    pub(super) fn credential(&self, token: &str, now: Timestamp) -> Option<Credential> {
        self.credentials.get(&sha256(token.as_bytes())).filter(|credential| credential.is_current(now))
    }

    pub(super) fn remember(&self, token: &str, credential: &Credential) {
        self.credentials.insert(sha256(token.as_bytes()), credential.clone());
    }

    /// Verifies a proof that was not verified before. One that names its own end is verified each time.
    pub(super) fn prove<E>(
        &self,
        lines: &Lines<'_>,
        verify: impl FnOnce() -> Result<(), E>,
    ) -> Result<(), E> {
        let digest = lines.digest();
        if self.proofs.contains_key(&digest) {
            return Ok(());
        }
        verify()?;
        if !lines.names_an_end() {
            self.proofs.insert(digest, ());
        }
        Ok(())
    }
}
