//! Bounds untrusted CBOR before it is decoded into a tree: a few bytes can announce millions of items, for which the
//! decoder would reserve memory.

use shrike::cbor::Value;

/// Maximum depth of nested arrays and maps. The fields of a label are at level 3.
const MAX_DEPTH: usize = 8;

/// Items of one frame: some 5,000 labels. An item takes 40 bytes as a value.
const MAX_ITEMS: usize = 100_000;

/// Whether `input` is a sequence of complete items within the bounds. Does not check that they are canonical.
pub(super) fn is_bounded(mut input: &[u8]) -> bool {
    let mut items = 0;
    while !input.is_empty() {
        if skip(&mut input, 0, &mut items).is_none() {
            return false;
        }
    }
    true
}

/// Removes one item from the front of the input.
fn skip(input: &mut &[u8], depth: usize, items: &mut usize) -> Option<()> {
    *items += 1;
    if depth > MAX_DEPTH || *items > MAX_ITEMS {
        return None;
    }
    let (&first, rest) = input.split_first()?;
    *input = rest;
    let argument = match first & 0x1f {
        small @ 0..24 => u64::from(small),
        24 => u64::from_be_bytes(widened::<1>(input)?),
        25 => u64::from_be_bytes(widened::<2>(input)?),
        26 => u64::from_be_bytes(widened::<4>(input)?),
        27 => u64::from_be_bytes(widened::<8>(input)?),
        // Lengths that end with a marker don't exist in DAG-CBOR.
        _ => return None,
    };
    let children = match first >> 5 {
        2 | 3 => {
            *input = input.get(usize::try_from(argument).ok()?..)?;
            0
        }
        4 => argument,
        5 => argument.checked_mul(2)?,
        6 => 1,
        _ => 0,
    };
    // Ends early: every item takes a byte of the input.
    for _ in 0..children {
        skip(input, depth + 1, items)?;
    }
    Some(())
}

/// Takes `N` bytes as the lowest of eight.
fn widened<const N: usize>(input: &mut &[u8]) -> Option<[u8; 8]> {
    let (bytes, rest) = input.split_first_chunk::<N>()?;
    *input = rest;
    let mut wide = [0; 8];
    wide.get_mut(8 - N..)?.copy_from_slice(bytes);
    Some(wide)
}

/// A field of a map.
pub(super) fn field<'v, 'a>(map: &'v Value<'a>, name: &str) -> Option<&'v Value<'a>> {
    let Value::Map(entries) = map else { return None };
    entries.iter().find(|(key, _)| *key == name).map(|(_, value)| value)
}

pub(super) fn text<'a>(map: &Value<'a>, name: &str) -> Option<&'a str> {
    match field(map, name)? {
        Value::Text(text) => Some(text),
        _ => None,
    }
}

pub(super) fn integer(map: &Value<'_>, name: &str) -> Option<i64> {
    match field(map, name)? {
        Value::Unsigned(n) => i64::try_from(*n).ok(),
        Value::Signed(n) => Some(*n),
        _ => None,
    }
}
