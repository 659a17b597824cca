//! The hash of the set of records in a repo (spaces.md §6.1). It is updated with each record, in any order.

use std::fmt;

use super::RecordPath;
use crate::atproto::Cid;
use crate::crypto::sha256;

/// Sums of 16 bits that make the state.
const LANES: usize = 1024;

/// Bytes of the stored state.
pub const STATE_BYTES: usize = 2 * LANES;

/// LtHash over BLAKE3: each element is expanded to 1024 numbers of 16 bits, and the state is their sum, number by number.
///
/// It hashes a set only while each element was added once: an element that was added 65,536 times is not in it.
#[derive(Clone, PartialEq, Eq)]
pub struct SetHash(Box<[u16; LANES]>);

impl Default for SetHash {
    /// The hash of the empty set.
    fn default() -> Self {
        Self(Box::new([0; LANES]))
    }
}

impl SetHash {
    /// Reads a stored state; `None` for another length.
    pub fn from_bytes(state: &[u8]) -> Option<Self> {
        if state.len() != STATE_BYTES {
            return None;
        }
        let mut hash = Self::default();
        for (lane, bytes) in hash.0.iter_mut().zip(state.as_chunks().0) {
            *lane = u16::from_le_bytes(*bytes);
        }
        Some(hash)
    }

    /// The state, to be stored.
    pub fn to_bytes(&self) -> [u8; STATE_BYTES] {
        let mut state = [0; STATE_BYTES];
        for (bytes, lane) in state.as_chunks_mut().0.iter_mut().zip(self.0.iter()) {
            *bytes = lane.to_le_bytes();
        }
        state
    }

    /// Adds a record that is not in the set.
    pub fn add(&mut self, path: &RecordPath, cid: Cid) {
        self.add_element(element(path, cid).as_bytes());
    }

    /// Removes a record that is in the set.
    pub fn remove(&mut self, path: &RecordPath, cid: Cid) {
        self.remove_element(element(path, cid).as_bytes());
    }

    /// The hash that commits contain: SHA-256 of the state.
    pub fn digest(&self) -> [u8; 32] {
        sha256(&self.to_bytes())
    }

    pub(super) fn add_element(&mut self, element: &[u8]) {
        self.combine(element, u16::wrapping_add);
    }

    fn remove_element(&mut self, element: &[u8]) {
        self.combine(element, u16::wrapping_sub);
    }

    fn combine(&mut self, element: &[u8], with: impl Fn(u16, u16) -> u16) {
        let mut expanded = [0; STATE_BYTES];
        blake3::Hasher::new().update(element).finalize_xof().fill(&mut expanded);
        for (lane, bytes) in self.0.iter_mut().zip(expanded.as_chunks().0) {
            *lane = with(*lane, u16::from_le_bytes(*bytes));
        }
    }
}

/// The element of a record: `<collection>/<rkey>/<cid>`.
fn element(path: &RecordPath, cid: Cid) -> String {
    format!("{path}/{cid}")
}

impl fmt::Debug for SetHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SetHash({})", hex::encode(self.digest()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::r10::vectors;
    use super::*;

    fn of(elements: &[String]) -> SetHash {
        let mut hash = SetHash::default();
        for element in elements {
            hash.add_element(element.as_bytes());
        }
        hash
    }

    #[test]
    fn vectors_hold() {
        for case in vectors::list("lthash") {
            let additions: Vec<[String; 2]> = vectors::read(&case["ops"]);
            let hash = of(&additions.into_iter().map(|[_, element]| element).collect::<Vec<_>>());
            if let Some(digest) = case["digest"].as_str() {
                assert_eq!(hex::encode(hash.digest()), digest);
            }
            if let Some(start) = case["state_first_16_bytes"].as_str() {
                assert_eq!(hex::encode(&hash.to_bytes()[..16]), start);
            }
        }
    }

    #[test]
    fn the_records_of_an_export_have_its_hash() {
        let export = vectors::get("export");
        let mut hash = SetHash::default();
        for record in export["records"].as_array().unwrap() {
            let [collection, rkey, cid]: [String; 3] = vectors::read(record);
            let path = RecordPath::parse(&format!("{collection}/{rkey}")).unwrap();
            hash.add(&path, cid.parse().unwrap());
        }
        assert_eq!(hex::encode(hash.digest()), export["hash"].as_str().unwrap());
    }

    #[test]
    fn a_state_has_one_length() {
        for length in [0, 1, STATE_BYTES - 1, STATE_BYTES + 1] {
            assert_eq!(SetHash::from_bytes(&vec![0; length]), None);
        }
        assert_eq!(SetHash::from_bytes(&[0; STATE_BYTES]), Some(SetHash::default()));
    }

    proptest! {
        #[test]
        fn order_does_not_matter(elements in prop::collection::vec(".{0,12}", 0..8), turn in 0..8usize) {
            let mut turned = elements.clone();
            turned.rotate_left(turn % elements.len().max(1));
            turned.reverse();
            prop_assert_eq!(of(&elements), of(&turned));
        }

        #[test]
        fn removal_reverts_addition(elements in prop::collection::vec(".{0,12}", 0..5), other in ".{0,12}") {
            let before = of(&elements);
            let mut hash = before.clone();
            hash.add_element(other.as_bytes());
            prop_assert_ne!(&hash, &before);
            hash.remove_element(other.as_bytes());
            prop_assert_eq!(&hash, &before);
            // Also in the other order: the state of a set that was not whole in between is the same.
            hash.remove_element(other.as_bytes());
            hash.add_element(other.as_bytes());
            prop_assert_eq!(hash, before);
        }

        #[test]
        fn the_state_round_trips(elements in prop::collection::vec(".{0,12}", 0..5)) {
            let hash = of(&elements);
            prop_assert_eq!(SetHash::from_bytes(&hash.to_bytes()), Some(hash));
        }
    }
}
