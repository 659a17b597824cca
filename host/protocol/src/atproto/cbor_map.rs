//! Maps of plain values in DAG-CBOR: a commit, or an index of records by their paths.

use shrike::cbor::{Value, cbor_key_cmp, encode_value};

use super::Cid;
use super::record::cbor::{Item, Reader};

/// The canonical encoding: shorter keys first, then by their bytes. The entries may be in any order; no value is a float.
pub(crate) fn encode(entries: Vec<(&str, Value<'_>)>) -> Vec<u8> {
    encode_value(&Value::Map(entries)).expect("only floats can't be encoded")
}

/// Reads a map whose values are integers, texts, bytes and links. Accepts entries in any order, and returns them in the
/// canonical one. `None` for anything else, for a map with a duplicate key, and for one with more entries than fit at
/// `min_entry` bytes each: an entry takes some 60 bytes of memory, however short it is.
pub(crate) fn decode(cbor: &[u8], min_entry: usize) -> Option<Vec<(&str, Value<'_>)>> {
    let mut reader = Reader::new(cbor);
    let Item::Map(count) = reader.next()? else { return None };
    let count = usize::try_from(count).ok().filter(|count| *count <= cbor.len() / min_entry)?;
    let mut entries = Vec::with_capacity(count);
    for _ in 0..count {
        let Item::Text(key) = reader.next()? else { return None };
        let value = match reader.next()? {
            Item::Integer(n) => u64::try_from(n).map_or(Value::Signed(n), Value::Unsigned),
            Item::Text(text) => Value::Text(text),
            Item::Bytes(bytes) => Value::Bytes(bytes),
            Item::Link(bytes) => Value::Cid(Cid::from_tag42_bytes(bytes).ok()?),
            Item::Array(_) | Item::Map(_) | Item::Boolean(_) | Item::Null => return None,
        };
        entries.push((key, value));
    }
    if reader.remaining() > 0 {
        return None;
    }
    entries.sort_unstable_by(|(a, _), (b, _)| cbor_key_cmp(a, b));
    entries.is_sorted_by(|(a, _), (b, _)| a != b).then_some(entries)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use shrike::cbor::{Codec, decode as decode_strictly};

    use super::*;

    #[test]
    fn a_map_round_trips_in_canonical_order() {
        let link = Cid::compute(Codec::Drisl, b"x");
        let entries = vec![
            ("bb", Value::Cid(link)),
            ("c", Value::Unsigned(1)),
            ("a", Value::Text("text")),
            ("aa", Value::Bytes(b"bytes")),
        ];
        let cbor = encode(entries);
        let keys: Vec<&str> = decode(&cbor, 2).unwrap().into_iter().map(|(key, _)| key).collect();
        assert_eq!(keys, ["a", "c", "aa", "bb"]);
        assert_eq!(decode_strictly(&cbor).unwrap(), Value::Map(decode(&cbor, 2).unwrap()));
    }

    #[test]
    fn a_map_of_many_short_entries_is_refused() {
        let empty_keys = [vec![0xb9, 0x03, 0xe8], [0x60, 0x00].repeat(1_000)].concat();
        assert_eq!(decode(&empty_keys, 49), None);
        let entry = [vec![0xa1, 0x78, 44], vec![b'a'; 44], vec![1]].concat();
        assert!(decode(&entry, 48).is_some());
    }

    #[test]
    fn keys_in_another_order_are_accepted_and_other_forms_are_not() {
        // {"bb": 1, "a": 2}
        let unordered = [0xa2, 0x62, b'b', b'b', 1, 0x61, b'a', 2];
        assert_eq!(decode(&unordered, 2), Some(vec![("a", Value::Unsigned(2)), ("bb", Value::Unsigned(1))]));
        let wrong: [&[u8]; 9] = [
            b"",
            &[0x80],
            &[0xa1, 0x61, b'a'],
            &[0xa1, 0x61, b'a', 1, 0],
            &[0xa1, 1, 1],
            &[0xa1, 0x61, b'a', 0xf6],
            &[0xa2, 0x61, b'a', 1, 0x61, b'a', 2],
            &[0xbb, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
            &[0xa1, 0x61, b'a', 0xd8, 0x2a, 0x41, 0],
        ];
        for cbor in wrong {
            assert_eq!(decode(cbor, 2), None, "{cbor:x?}");
        }
        let link = encode(vec![("a", Value::Cid(Cid::compute(Codec::Drisl, b"x")))]);
        assert_eq!(link[3..5], [0xd8, 42]);
        assert!(decode(&link, 2).is_some());
        let other_tag = [&link[..4], &[43], &link[5..]].concat();
        assert_eq!(decode(&other_tag, 2), None);
        // Tags in tags could exhaust the stack of a recursive reader.
        let tags = [0xd8, 0x2a].repeat(1 << 20);
        assert_eq!(decode(&[&[0xa1, 0x61, b'a'][..], &tags].concat(), 2), None);
    }

    proptest! {
        #[test]
        fn accepts_every_map_that_a_strict_decoder_accepts(cbor in prop::collection::vec(any::<u8>(), 0..40)) {
            let ours = decode(&cbor, 2);
            if let Ok(Value::Map(entries)) = decode_strictly(&cbor)
                && entries.iter().all(|(_, value)| matches!(value, Value::Unsigned(n) if i64::try_from(*n).is_ok()))
            {
                prop_assert_eq!(ours, Some(entries));
            }
        }
    }
}
