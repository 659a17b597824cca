//! Remembers verified credentials, and the proofs of their holders. A proof may be sent with many requests (spaces.md §8), and to
//! verify one costs as much as a small read.

use std::time::Duration;

use moka::sync::Cache;

use super::lines::Lines;
use belvedere_base::clock::Timestamp;
use belvedere_instance::identity::CHANGE_TIME;
use belvedere_protocol::crypto::sha256;
use belvedere_protocol::spaces::r10::token::Credential;

/// Entries of each kind. One has some 500 bytes.
const MAX_ENTRIES: u64 = 20_000;

/// The time for which a verified credential is accepted, also if its issuer has another key by then and no event said so.
const SECONDS: i64 = 60;

const _: () =
    assert!(SECONDS.unsigned_abs() <= CHANGE_TIME.as_secs(), "changes are known as long as credentials");

/// The credentials and proofs that were verified lately, by the SHA-256 of their text.
#[derive(Debug)]
pub struct VerifiedCredentials {
    credentials: Cache<[u8; 32], Verified>,
    proofs: Cache<[u8; 32], Timestamp>,
}

/// A credential that was verified.
#[derive(Clone, Debug)]
pub(super) struct Verified {
    pub(super) credential: Credential,
    pub(super) at: Timestamp,
    /// The last change of its issuer's document before that ([`Resolver::last_change`]).
    ///
    /// [`Resolver::last_change`]: belvedere_instance::identity::Resolver::last_change
    pub(super) issuer_change: Option<u64>,
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
    pub(super) fn credential(&self, token: &str, now: Timestamp) -> Option<Verified> {
        let verified = self.credentials.get(&sha256(token.as_bytes()))?;
        (is_recent(verified.at, now) && verified.credential.is_current(now)).then_some(verified)
    }

    pub(super) fn remember(&self, token: &str, verified: Verified) {
        self.credentials.insert(sha256(token.as_bytes()), verified);
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

    fn verified(expires_at: i64) -> Verified {
        let key = PrivateKey::generate(Algorithm::Es256, &Random::seeded(1));
        let space = "at://did:plc:abc/space/com.example.group/main".parse().unwrap();
        let times = Times { issued_at: NOW.as_seconds(), expires_at };
        let credential = Credential { space, binding: Binding::Key(key.public()), times, jti: "1".into() };
        Verified { credential, at: NOW, issuer_change: None }
    }

    #[test]
    fn a_credential_is_remembered_for_a_minute_and_as_long_as_it_is_valid() {
        let remembered = VerifiedCredentials::default();
        let known = |token, seconds| remembered.credential(token, NOW.plus_seconds(seconds)).is_some();
        remembered.remember("long", verified(NOW.as_seconds() + 600));
        remembered.remember("short", verified(NOW.as_seconds() + 20));
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
