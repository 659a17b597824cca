//! Scans JSON text without building values; used by [`super::record`] and [`super::blobs`].

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x8080_8080_8080_8080;

/// The number of bytes from `at` on that need no escape in a JSON string: up to a quote, a backslash, a control
/// character or the end. Reads eight bytes at a time; bytes above 0x7f need no escape.
#[inline]
pub(super) fn plain_len(text: &[u8], at: usize) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    let (words, tail) = rest.as_chunks::<8>();
    for (i, word) in words.iter().enumerate() {
        let found = special(u64::from_le_bytes(*word));
        if found != 0 {
            return i * 8 + found.trailing_zeros() as usize / 8;
        }
    }
    let whole = words.len() * 8;
    whole + tail.iter().take_while(|&&b| b >= 0x20 && b != b'"' && b != b'\\').count()
}

/// Sets the high bit of each byte that is a quote, a backslash or below 0x20. Only the lowest such bit is exact: a
/// borrow may set a later one wrongly.
#[inline]
fn special(word: u64) -> u64 {
    let quote = word ^ (ONES * u64::from(b'"'));
    let backslash = word ^ (ONES * u64::from(b'\\'));
    let zero = |v: u64| v.wrapping_sub(ONES) & !v;
    let control = word.wrapping_sub(ONES * 0x20) & !word;
    (zero(quote) | zero(backslash) | control) & HIGH
}

/// The first position at or after `at` that is not JSON whitespace.
#[inline]
pub(super) fn skip_space(text: &[u8], mut at: usize) -> usize {
    while let Some(b' ' | b'\n' | b'\r' | b'\t') = text.get(at) {
        at += 1;
    }
    at
}

/// Appends the unescaped content of the string at `at` (past the opening quote). Returns the position past the closing
/// quote; `None` for a malformed string or a lone surrogate, which UTF-8 can't represent.
pub(super) fn unescape(text: &[u8], mut at: usize, out: &mut Vec<u8>) -> Option<usize> {
    loop {
        let plain = plain_len(text, at);
        out.extend_from_slice(&text[at..at + plain]);
        at += plain;
        match text.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => {}
            _ => return None,
        }
        let simple = match text.get(at + 1)? {
            b'"' => b'"',
            b'\\' => b'\\',
            b'/' => b'/',
            b'b' => 0x08,
            b'f' => 0x0c,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => {
                let (c, next) = unicode(text, at + 2)?;
                out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                at = next;
                continue;
            }
            _ => return None,
        };
        out.push(simple);
        at += 2;
    }
}

/// Reads `XXXX` or `XXXX\uXXXX` at `at`. Returns the character and the position after it.
fn unicode(text: &[u8], at: usize) -> Option<(char, usize)> {
    let first = hex4(text, at)?;
    if !(0xd800..0xe000).contains(&first) {
        return Some((char::from_u32(first)?, at + 4));
    }
    let low = text.get(at + 4..at + 6).filter(|s| *s == b"\\u").and_then(|_| hex4(text, at + 6))?;
    if first >= 0xdc00 || !(0xdc00..0xe000).contains(&low) {
        return None;
    }
    let c = 0x1_0000 + ((first - 0xd800) << 10) + (low - 0xdc00);
    Some((char::from_u32(c)?, at + 10))
}

fn hex4(text: &[u8], at: usize) -> Option<u32> {
    text.get(at..at + 4)?.iter().try_fold(0, |n, &b| Some(n << 4 | char::from(b).to_digit(16)?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn plain_len_equals_a_byte_loop(text in prop::collection::vec(any::<u8>(), 0..64), at in 0usize..80) {
            let rest = text.get(at..).unwrap_or_default();
            let slow = rest.iter().take_while(|&&b| b >= 0x20 && b != b'"' && b != b'\\').count();
            prop_assert_eq!(plain_len(&text, at), slow);
        }

        #[test]
        fn unescape_agrees_with_serde_json(body in r#"([a-z"\\/ubfnrt0-9dDcCeE ]|\\u[0-9a-fA-F]{4}|é|😀){0,24}"#) {
            let text = format!("\"{body}\"");
            let mut out = Vec::new();
            let ours = unescape(text.as_bytes(), 1, &mut out).filter(|&end| end == text.len());
            match serde_json::from_str::<String>(&text) {
                Ok(expected) => {
                    prop_assert!(ours.is_some());
                    prop_assert_eq!(out, expected.into_bytes());
                }
                Err(_) => prop_assert!(ours.is_none(), "{}", text),
            }
        }
    }
}
