//! Request ids: the client's `x-request-id` when it is valid, otherwise a generated one.

use std::sync::atomic::{AtomicU64, Ordering};

use http::{HeaderMap, HeaderName};

use belvedere_base::random::Random;

pub(super) const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Longest id that is accepted from a client; UUIDs, ULIDs and trace ids fit.
const MAX_LENGTH: usize = 64;

/// Generates ids that are unique and not sequential. They are not secret: clients receive them.
#[derive(Debug)]
pub(super) struct RequestIds {
    seed: u64,
    next: AtomicU64,
}

impl RequestIds {
    pub(super) fn new(random: &Random) -> Self {
        Self { seed: random.u64(), next: AtomicU64::new(random.u64()) }
    }

    /// The id of a request with these headers.
    pub(super) fn id_for(&self, headers: &HeaderMap) -> String {
        match headers.get(X_REQUEST_ID).and_then(|value| value.to_str().ok()) {
            Some(given) if is_valid(given) => given.to_owned(),
            _ => self.generate(),
        }
    }

    /// 16 hex digits: a bijection of a counter, so no two are equal.
    fn generate(&self) -> String {
        // SplitMix64 (Steele, Lea, Flood 2014).
        let mut z = self.next.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z = (z ^ (z >> 31)) ^ self.seed;
        hex::encode(z.to_be_bytes())
    }
}

fn is_valid(id: &str) -> bool {
    !id.is_empty()
        && id.len() <= MAX_LENGTH
        && id.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b':'))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn valid_ids_are_kept_and_others_replaced() {
        let ids = RequestIds::new(&Random::seeded(1));
        let with = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(X_REQUEST_ID, HeaderValue::from_str(value).unwrap());
            ids.id_for(&headers)
        };
        assert_eq!(with("0f8fad5b-d9cb-469f-a165-70867728950e"), "0f8fad5b-d9cb-469f-a165-70867728950e");
        for bad in ["", "a b", "<script>", &"x".repeat(65)] {
            assert_eq!(with(bad).len(), 16, "{bad}");
        }
        assert_ne!(ids.id_for(&HeaderMap::new()), ids.id_for(&HeaderMap::new()));
    }
}
