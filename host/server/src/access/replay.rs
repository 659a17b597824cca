//! Detects replayed service tokens: remembers used ones in memory until they expire.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Mutex, PoisonError};

use belvedere_protocol::crypto::sha256;

/// Tokens remembered in all: some ten megabytes. Beyond it, those that expire first are forgotten first, so a flood
/// shortens the protection by moments only.
const MAX_TOKENS: usize = 100_000;

/// Tokens remembered of one issuer; further ones are rejected until some expire. One a second for a quarter of an hour
/// is more than any caller needs. The limit keeps one issuer from evicting the tokens of others.
const MAX_TOKENS_PER_ISSUER: u32 = 1000;

type Id = [u8; 16];

#[derive(Debug, Default)]
pub(super) struct ReplayCache(Mutex<UsedTokens>);

#[derive(Debug, Default)]
struct UsedTokens {
    seen: HashSet<Id>,
    /// By expiry, with the issuer's hash so that its count can be decremented.
    by_expiry: BTreeSet<(i64, Id, Id)>,
    per_issuer: HashMap<Id, u32>,
}

impl ReplayCache {
    /// Records the use of a token; `false` when it was used before, or its issuer has too many unexpired ones. Only for
    /// tokens whose signature has been verified.
    pub(super) fn first_use(&self, issuer: &str, jti: &str, expires: i64, now: i64) -> bool {
        let issuer_id = short_hash(issuer.as_bytes());
        // The issuer's hash has a fixed length, so no two pairs concatenate to the same bytes.
        let id = short_hash(&[&issuer_id[..], jti.as_bytes()].concat());
        let mut used = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some((expiry, ..)) = used.by_expiry.first()
            && (*expiry <= now || used.seen.len() >= MAX_TOKENS)
        {
            used.remove_first();
        }
        if used.seen.contains(&id) {
            return false;
        }
        let count = used.per_issuer.entry(issuer_id).or_default();
        if *count >= MAX_TOKENS_PER_ISSUER {
            return false;
        }
        *count += 1;
        used.seen.insert(id);
        used.by_expiry.insert((expires, id, issuer_id));
        true
    }
}

impl UsedTokens {
    fn remove_first(&mut self) {
        let Some((_, id, issuer)) = self.by_expiry.pop_first() else { return };
        self.seen.remove(&id);
        if let Some(count) = self.per_issuer.get_mut(&issuer) {
            *count -= 1;
            if *count == 0 {
                self.per_issuer.remove(&issuer);
            }
        }
    }
}

fn short_hash(data: &[u8]) -> Id {
    let mut id = Id::default();
    id.copy_from_slice(&sha256(data)[..16]);
    id
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_used_once_until_it_expires() {
        let replay = ReplayCache::default();
        assert!(replay.first_use("did:plc:a", "1", 100, 50));
        assert!(!replay.first_use("did:plc:a", "1", 100, 99));
        assert!(replay.first_use("did:plc:b", "1", 100, 99), "the same jti of another issuer");
        assert!(replay.first_use("did:plc:a", "2", 100, 99));
        assert!(replay.first_use("did:plc:a", "1", 300, 200));
        assert_eq!(replay.0.lock().unwrap().seen.len(), 1);
    }

    #[test]
    fn memory_is_bounded_in_all_and_per_issuer() {
        let replay = ReplayCache::default();
        let used = (0..1100).filter(|n| replay.first_use("did:plc:a", &n.to_string(), 100, 0)).count();
        assert_eq!(used, MAX_TOKENS_PER_ISSUER as usize);
        for issuer in 0..110 {
            for n in 0..1000 {
                replay.first_use(&issuer.to_string(), &n.to_string(), 100 + n, 0);
            }
        }
        let used = replay.0.lock().unwrap();
        assert!(used.seen.len() <= MAX_TOKENS && used.by_expiry.len() == used.seen.len());
    }
}
