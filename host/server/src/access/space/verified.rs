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

/// The time for which a verified credential is accepted, also if its issuer has another key by then.
const SECONDS: i64 = 60;

/// The credentials and proofs that were verified lately, by the SHA-256 of their text.
#[derive(Debug)]
pub struct VerifiedCredentials {
    credentials: Cache<[u8; 32], (Credential, Timestamp)>,
    proofs: Cache<[u8; 32], Timestamp>,
}

impl Default for VerifiedCredentials {
    fn default() -> Self {
        // The times in the entries decide; this one frees memory.
        let time = Duration::from_secs(SECONDS.unsigned_abs());
        let credentials = Cache::builder().max_capacity(MAX_ENTRIES).time_to_live(time).build();
        let proofs = Cache::builder().max_capacity(MAX_ENTRIES).time_to_live(time).build();
        Self { credentials, proofs }
    }
}

impl VerifiedCredentials {
    /// A credential that was verified, and has not expired.
    pub(super) fn credential(&self, token: &str, now: Timestamp) -> Option<Credential> {
        let (credential, verified_at) = self.credentials.get(&sha256(token.as_bytes()))?;
        (is_recent(verified_at, now) && credential.is_current(now)).then_some(credential)
    }

    pub(super) fn remember(&self, token: &str, credential: &Credential, now: Timestamp) {
        self.credentials.insert(sha256(token.as_bytes()), (credential.clone(), now));
    }

    /// Verifies a proof that was not verified before. One that names its own end is verified each time.
    pub(super) fn prove<E>(
        &self,
        lines: &Lines<'_>,
        now: Timestamp,
        verify: impl FnOnce() -> Result<(), E>,
    ) -> Result<(), E> {
        let digest = lines.digest();
        if self.proofs.get(&digest).is_some_and(|verified_at| is_recent(verified_at, now)) {
            return Ok(());
        }
        verify()?;
        if !lines.names_an_end() {
            self.proofs.insert(digest, now);
        }
        Ok(())
    }
}

fn is_recent(verified_at: Timestamp, now: Timestamp) -> bool {
    now < verified_at.plus_seconds(SECONDS)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use belvedere_base::random::Random;
    use belvedere_protocol::crypto::{Algorithm, PrivateKey};
    use belvedere_protocol::spaces::r10::token::{Binding, Times};
    use http::{HeaderMap, HeaderValue};

    use super::*;

    const NOW: Timestamp = Timestamp(1_000_000_000);

    fn credential(expires_at: i64) -> Credential {
        let key = PrivateKey::generate(Algorithm::Es256, &Random::seeded(1));
        let space = "at://did:plc:abc/space/com.example.group/main".parse().unwrap();
        let times = Times { issued_at: NOW.as_seconds(), expires_at };
        Credential { space, binding: Binding::Key(key.public()), times, jti: "1".into() }
    }

    #[test]
    fn a_credential_is_remembered_for_a_minute_and_as_long_as_it_is_valid() {
        let verified = VerifiedCredentials::default();
        let known = |token, seconds| verified.credential(token, NOW.plus_seconds(seconds)).is_some();
        verified.remember("long", &credential(NOW.as_seconds() + 600), NOW);
        verified.remember("short", &credential(NOW.as_seconds() + 20), NOW);
        assert!(known("long", 59) && known("short", 19) && !known("other", 0));
        assert!(!known("long", 60), "the key of its issuer is looked up again");
        assert!(!known("short", 59), "it has expired");
    }

    #[test]
    fn a_proof_is_verified_once_a_minute_unless_it_names_its_end() {
        let verified = VerifiedCredentials::default();
        let checks = Cell::new(0);
        let prove = |input: &str, seconds, result: Result<(), ()>| {
            let mut headers = HeaderMap::new();
            headers.insert("signature-input", HeaderValue::from_str(input).unwrap());
            let before = checks.get();
            let proved = verified.prove(&Lines::of(&headers), NOW.plus_seconds(seconds), || {
                checks.set(before + 1);
                result
            });
            (proved.is_ok(), checks.get() > before)
        };
        assert_eq!(prove("a", 0, Err(())), (false, true));
        assert_eq!(prove("a", 0, Ok(())), (true, true), "what was refused is verified again");
        assert_eq!(prove("a", 59, Err(())), (true, false));
        assert_eq!(prove("b", 59, Err(())), (false, true), "another signature");
        assert_eq!(prove("a", 60, Err(())), (false, true));
        for seconds in [0, 1] {
            assert_eq!(prove("a;expires=1", seconds, Ok(())), (true, true));
        }
    }
}
