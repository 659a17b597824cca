//! Encodes and decodes opaque page cursors: base64url of the sort position of the page's last row. A cursor does not
//! contain the query, so it is meaningful only with the same collection, account, filter and sort.
//!
//! Format before base64url without padding: one byte for the kind, then big-endian integers.
//! Plain: `1`, `indexed_at`, id. Custom sort: `2`, id, one byte for the type of the value, the value's text. Several keys:
//! `3`, id, and for each key the type, two bytes for the length of the text, and the text. A page of SQL: `4`, and the same for
//! each column. A search: `5`, one byte for the rank, id, the text.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use belvedere_base::clock::Timestamp;

use super::relevance::Relevance;
use super::sort::{MAX_KEYS, MAX_TEXT_CHARS, SortKeyset, SortValue};

const PLAIN: u8 = 1;
const SORTED: u8 = 2;
const SORTED_BY_SEVERAL: u8 = 3;
const SQL: u8 = 4;
const SEARCH: u8 = 5;

/// The longest text of a key: a DID of 2,048 bytes, and a record key of 512; a text of a field has at most
/// [`MAX_TEXT_CHARS`] characters of 4 bytes.
const MAX_TEXT_BYTES: usize = 2_561;
/// The longest cursor that the server creates of one key, in base64.
const MAX_CHARS: usize = 3_600;
/// The longest cursor of several keys. An address or a DID, which can be long, is a key once in a sensible order.
const MAX_CHARS_OF_SEVERAL: usize = 8_000;
/// The longest decimal text of a number, see `store::query`: 308 digits, a point and 20 more.
const MAX_NUMBER_CHARS: usize = 340;

/// The sort position of a page's last row. The rows after it are older, or equally old with a smaller id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keyset {
    pub indexed_at: Timestamp,
    pub id: i64,
}

/// The text is not a cursor that this server created.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed cursor")]
pub struct InvalidCursor;

pub fn encode(after: Keyset) -> String {
    let mut raw = Vec::with_capacity(17);
    raw.push(PLAIN);
    raw.extend(after.indexed_at.0.to_be_bytes());
    raw.extend(after.id.to_be_bytes());
    URL_SAFE_NO_PAD.encode(raw)
}

/// # Errors
/// When the text is not a cursor of [`encode`].
pub fn decode(text: &str) -> Result<Keyset, InvalidCursor> {
    match raw(text, MAX_CHARS)?.as_slice() {
        [PLAIN, rest @ ..] => {
            let (indexed_at, id) = rest.split_first_chunk().ok_or(InvalidCursor)?;
            let id = id.try_into().map_err(|_| InvalidCursor)?;
            Ok(Keyset { indexed_at: Timestamp(i64::from_be_bytes(*indexed_at)), id: i64::from_be_bytes(id) })
        }
        _ => Err(InvalidCursor),
    }
}

pub fn encode_sorted(after: &SortKeyset) -> String {
    let mut raw = Vec::with_capacity(64);
    if after.then.is_empty() {
        let (kind, text) = parts(&after.value);
        raw.push(SORTED);
        raw.extend(after.id.to_be_bytes());
        raw.push(kind);
        raw.extend(text.as_bytes());
    } else {
        raw.push(SORTED_BY_SEVERAL);
        raw.extend(after.id.to_be_bytes());
        put_values(&mut raw, after.values());
    }
    URL_SAFE_NO_PAD.encode(raw)
}

/// The cursor of a page of SQL; `None` if it would be too long, or if a value can't be in one.
pub(super) fn encode_sql(values: &[SortValue]) -> Option<String> {
    let mut raw = vec![SQL];
    put_values(&mut raw, values.iter());
    let is_read = |values: Vec<SortValue>| !values.is_empty();
    let text = URL_SAFE_NO_PAD.encode(&raw);
    (text.len() <= MAX_CHARS_OF_SEVERAL && take_values(&raw[1..]).is_ok_and(is_read)).then_some(text)
}

/// The reverse of [`encode_sql`].
pub(super) fn decode_sql(text: &str) -> Result<Vec<SortValue>, InvalidCursor> {
    match raw(text, MAX_CHARS_OF_SEVERAL)?.as_slice() {
        [SQL, rest @ ..] => take_values(rest),
        _ => Err(InvalidCursor),
    }
}

impl Relevance {
    /// The cursor of the page of a search that begins after this record.
    pub fn cursor(&self) -> String {
        let mut raw = vec![SEARCH, self.rank];
        raw.extend(self.id.to_be_bytes());
        raw.extend(self.key.as_bytes());
        URL_SAFE_NO_PAD.encode(raw)
    }
}

/// The reverse of [`Relevance::cursor`].
pub(super) fn decode_search(text: &str) -> Result<Relevance, InvalidCursor> {
    match raw(text, MAX_CHARS)?.as_slice() {
        [SEARCH, rank, rest @ ..] => {
            let (id, key) = rest.split_first_chunk().ok_or(InvalidCursor)?;
            let SortValue::Text(key) = value(b't', key)? else { return Err(InvalidCursor) };
            Ok(Relevance { rank: *rank, key, id: i64::from_be_bytes(*id) })
        }
        _ => Err(InvalidCursor),
    }
}

/// Appends values, each with its type and its length.
fn put_values<'a>(raw: &mut Vec<u8>, values: impl Iterator<Item = &'a SortValue>) {
    for value in values {
        let (kind, text) = parts(value);
        raw.push(kind);
        // No cursor is read whose texts are longer than MAX_TEXT_BYTES.
        raw.extend(u16::try_from(text.len()).unwrap_or(u16::MAX).to_be_bytes());
        raw.extend(text.as_bytes());
    }
}

/// The reverse of [`put_values`].
fn take_values(mut rest: &[u8]) -> Result<Vec<SortValue>, InvalidCursor> {
    let mut values = Vec::with_capacity(MAX_KEYS);
    while let Some((kind, after)) = rest.split_first() {
        let (bytes, after) = after.split_first_chunk().ok_or(InvalidCursor)?;
        let bytes = usize::from(u16::from_be_bytes(*bytes));
        let (text, after) = after.split_at_checked(bytes).ok_or(InvalidCursor)?;
        values.push(value(*kind, text)?);
        rest = after;
    }
    if values.len() > MAX_KEYS { Err(InvalidCursor) } else { Ok(values) }
}

/// # Errors
/// When the text is not a cursor of [`encode_sorted`].
pub fn decode_sorted(text: &str) -> Result<SortKeyset, InvalidCursor> {
    match raw(text, MAX_CHARS_OF_SEVERAL)?.as_slice() {
        [SORTED, rest @ ..] if text.len() <= MAX_CHARS => {
            let (id, rest) = rest.split_first_chunk().ok_or(InvalidCursor)?;
            let (kind, text) = rest.split_first().ok_or(InvalidCursor)?;
            Ok(SortKeyset { value: value(*kind, text)?, then: Vec::new(), id: i64::from_be_bytes(*id) })
        }
        [SORTED_BY_SEVERAL, rest @ ..] => {
            let (id, rest) = rest.split_first_chunk().ok_or(InvalidCursor)?;
            let mut values = take_values(rest)?;
            if values.len() < 2 {
                return Err(InvalidCursor);
            }
            let then = values.split_off(1);
            let value = values.pop().ok_or(InvalidCursor)?;
            Ok(SortKeyset { value, then, id: i64::from_be_bytes(*id) })
        }
        _ => Err(InvalidCursor),
    }
}

/// The type of a value and its text.
fn parts(value: &SortValue) -> (u8, &str) {
    match value {
        SortValue::Number(text) => (b'n', text.as_str()),
        SortValue::Text(text) => (b't', text.as_str()),
        SortValue::Boolean(true) => (b'b', "1"),
        SortValue::Boolean(false) => (b'b', "0"),
        SortValue::Missing => (b'm', ""),
    }
}

/// The reverse of [`parts`].
fn value(kind: u8, text: &[u8]) -> Result<SortValue, InvalidCursor> {
    let text = std::str::from_utf8(text).map_err(|_| InvalidCursor)?;
    Ok(match (kind, text) {
        (b'n', text) if is_number(text) => SortValue::Number(text.to_owned()),
        // PostgreSQL's text can't contain U+0000, so no row has it.
        (b't', text) if text.len() <= MAX_TEXT_BYTES && !text.contains('\0') => {
            SortValue::Text(text.to_owned())
        }
        (b'b', "1") => SortValue::Boolean(true),
        (b'b', "0") => SortValue::Boolean(false),
        (b'm', "") => SortValue::Missing,
        _ => return Err(InvalidCursor),
    })
}

fn raw(text: &str, max_chars: usize) -> Result<Vec<u8>, InvalidCursor> {
    if text.len() > max_chars {
        return Err(InvalidCursor);
    }
    URL_SAFE_NO_PAD.decode(text).map_err(|_| InvalidCursor)
}

/// `-?digits(.digits)?(e[+-]?digits)?` of a finite number: the format that both databases write and read.
fn is_number(text: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent.strip_prefix(['+', '-']).unwrap_or(exponent))),
        None => (unsigned, None),
    };
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (mantissa, None),
    };
    text.len() <= MAX_NUMBER_CHARS
        && digits(whole)
        && fraction.is_none_or(digits)
        && exponent.is_none_or(digits)
        && text.parse::<f64>().is_ok_and(f64::is_finite)
}

const _: () = assert!(MAX_TEXT_CHARS * 4 < MAX_CHARS / 2, "the longest sort text fits in a cursor");
const _: () = assert!(
    (MAX_TEXT_BYTES + (MAX_KEYS - 1) * MAX_TEXT_CHARS * 4 + MAX_KEYS * 3 + 9) * 4 / 3 < MAX_CHARS_OF_SEVERAL,
    "the longest sort texts fit in a cursor"
);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn rejects_what_is_not_a_cursor() {
        let plain = encode(Keyset { indexed_at: Timestamp(1), id: 2 });
        let sorted = encode_sorted(&SortKeyset { value: SortValue::Missing, then: Vec::new(), id: 2 });
        let padded = format!("{plain}=");
        let longer = format!("{plain}AA");
        let long = "A".repeat(MAX_CHARS + 1);
        for text in ["", "!", "AQ", "2024-01-01T00:00:00Z", &sorted, &padded, &longer, &plain[1..], &long] {
            assert_eq!(decode(text), Err(InvalidCursor), "{text}");
        }
        for text in ["", "Ag", &plain] {
            assert_eq!(decode_sorted(text), Err(InvalidCursor), "{text}");
        }
        for value in ["", "-", "1.", ".5", "1e", "NaN", "inf", "1e999", "0x1", "1 ", "--1"] {
            let cursor = encode_sorted(&SortKeyset {
                value: SortValue::Number(value.into()),
                then: Vec::new(),
                id: 1,
            });
            assert_eq!(decode_sorted(&cursor), Err(InvalidCursor), "{value}");
        }
    }

    fn any_value() -> impl Strategy<Value = SortValue> {
        prop_oneof![
            any::<i64>().prop_map(|n| SortValue::Number(n.to_string())),
            (-1e300..1e300_f64).prop_map(|n| SortValue::Number(n.to_string())),
            "[^\0]{0,40}".prop_map(SortValue::Text),
            any::<bool>().prop_map(SortValue::Boolean),
            Just(SortValue::Missing),
        ]
    }

    proptest! {
        #[test]
        fn plain_round_trips(indexed_at in any::<i64>(), id in any::<i64>()) {
            let keyset = Keyset { indexed_at: Timestamp(indexed_at), id };
            prop_assert_eq!(decode(&encode(keyset)), Ok(keyset));
        }

        #[test]
        fn sorted_round_trips(
            value in any_value(), then in prop::collection::vec(any_value(), 0..MAX_KEYS), id in any::<i64>()
        ) {
            let keyset = SortKeyset { value, then, id };
            prop_assert_eq!(decode_sorted(&encode_sorted(&keyset)), Ok(keyset));
        }

        #[test]
        fn every_decoded_text_encodes_to_itself(text in "([A-Za-z0-9_-]{0,60}|.*)") {
            if let Ok(keyset) = decode(&text) {
                prop_assert_eq!(encode(keyset), text.as_str());
            }
            if let Ok(keyset) = decode_sorted(&text) {
                prop_assert_eq!(encode_sorted(&keyset), text);
            }
        }
    }
}
