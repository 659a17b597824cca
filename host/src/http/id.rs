//! Request ids: the client's own if it sent a sane one, else a fresh one.

use std::sync::atomic::{AtomicU64, Ordering};

use http::{HeaderMap, HeaderName};

use crate::random::Random;

pub(super) const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// A UUID, a ULID or a trace id fits; anything longer is no id.
const MAX_LENGTH: usize = 64;

/// Makes ids that are unique and not in sequence. Not secret: they are shown to callers.
#[derive(Debug)]
pub(super) struct Ids {
    seed: u64,
    next: AtomicU64,
}

impl Ids {
    pub(super) fn new(random: &Random) -> Self {
        Self { seed: random.u64(), next: AtomicU64::new(random.u64()) }
    }

    pub(super) fn of(&self, headers: &HeaderMap) -> String {
        match headers.get(X_REQUEST_ID).and_then(|value| value.to_str().ok()) {
            Some(given) if is_sane(given) => given.to_owned(),
            _ => self.fresh(),
        }
    }

    /// 16 hex digits: a counter behind a bijection, so two are never the same.
    fn fresh(&self) -> String {
        // SplitMix64 (Steele, Lea, Flood 2014).
        let mut z = self.next.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z = (z ^ (z >> 31)) ^ self.seed;
        hex::encode(z.to_be_bytes())
    }
}

fn is_sane(id: &str) -> bool {
    !id.is_empty()
        && id.len() <= MAX_LENGTH
        && id.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b':'))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn keeps_sane_ids_and_replaces_the_others() {
        let ids = Ids::new(&Random::seeded(1));
        let with = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(X_REQUEST_ID, HeaderValue::from_str(value).unwrap());
            ids.of(&headers)
        };
        assert_eq!(with("0f8fad5b-d9cb-469f-a165-70867728950e"), "0f8fad5b-d9cb-469f-a165-70867728950e");
        for bad in ["", "a b", "<script>", &"x".repeat(65)] {
            assert_eq!(with(bad).len(), 16, "{bad}");
        }
        assert_ne!(ids.of(&HeaderMap::new()), ids.of(&HeaderMap::new()));
    }
}
