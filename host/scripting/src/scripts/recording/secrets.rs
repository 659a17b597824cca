//! Finds secrets in texts: values of fields of JSON and of parameters with secret names, and tokens that their form makes known.
//!
//! Each search reads the bytes once, however they are nested or broken off: a caller may have written them.

use std::ops::Range;

use memchr::memmem;

use belvedere_instance::events::redact::{MIN_BYTES, is_secret};

/// Bytes of a name before the value that it names.
const MAX_NAME: usize = 64;

/// Texts before a token.
const SCHEMES: [&[u8]; 6] = [b"Bearer ", b"bearer ", b"Basic ", b"basic ", b"DPoP ", b"dpop "];

/// The beginnings of secrets whose form says what they are: JSON web tokens, the keys of this server, and those that users and
/// applications of a HappyView instance bring along.
const SHAPES: [&[u8]; 6] = [b"eyJ", b"bva_", b"bvs_", b"bvp_", b"hv_", b"hvs_"];

/// Bytes of a secret that is known by its form.
const MIN_SHAPE: usize = 16;

/// The values of fields of JSON (`"token": "…"`, also in a text of JSON) and of parameters (`token=…`) with secret names.
pub(super) fn named(bytes: &[u8]) -> Vec<Range<usize>> {
    let (mut found, mut at) = (Vec::new(), 0);
    while let Some(next) = bytes.get(at..).and_then(|rest| memchr::memchr2(b':', b'=', rest)) {
        let sign = at + next;
        at = sign + 1;
        if bytes[sign] == b'='
            && let Some(value) = parameter(bytes, sign)
        {
            at = value.end;
            found.push(value);
        }
        if bytes[sign] == b':'
            && let Some(quote) = secret_field(bytes, sign)
        {
            at = Value { bytes, quote, found: &mut found }.read(sign + 1);
        }
    }
    found
}

/// The tokens that their form, or the name of a scheme before them, makes known.
pub(super) fn shaped(bytes: &[u8]) -> Vec<Range<usize>> {
    let is_of_token = |byte: &u8| {
        byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'~' | b'+' | b'/' | b'=')
    };
    let mut found = Vec::new();
    let mut find = |start: &[u8], skipped: usize, min: usize| {
        let mut from = 0;
        while let Some(at) = bytes.get(from..).and_then(|rest| memmem::find(rest, start)) {
            let token = from + at + skipped;
            let length =
                bytes[token..].iter().position(|byte| !is_of_token(byte)).unwrap_or(bytes.len() - token);
            if length >= min {
                found.push(token..token + length);
            }
            // The beginning may be in the token again, which is read once.
            from = (token + length).max(from + at + start.len());
        }
    };
    for scheme in SCHEMES {
        find(scheme, scheme.len(), MIN_BYTES);
    }
    for shape in SHAPES {
        find(shape, 0, MIN_SHAPE);
    }
    found
}

/// The value of a parameter with a secret name, whose equals sign is at `at`.
fn parameter(bytes: &[u8], at: usize) -> Option<Range<usize>> {
    let is_of_name = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    let before = bytes.get(at.saturating_sub(MAX_NAME)..at)?;
    let name = before.rsplit(|byte| !is_of_name(byte)).next()?;
    if !is_secret(std::str::from_utf8(name).ok()?) {
        return None;
    }
    let is_end = |byte: &u8| {
        !byte.is_ascii_graphic() || matches!(byte, b'&' | b'#' | b'"' | b'\'' | b'<' | b'>' | b';' | b'\\')
    };
    let rest = bytes.get(at + 1..)?;
    let length = rest.iter().position(is_end).unwrap_or(rest.len());
    (length >= MIN_BYTES).then_some(at + 1..at + 1 + length)
}

/// The quotation mark of a field with a secret name, whose colon is at `at`: `"`, or `\"` in a text of JSON.
fn secret_field(bytes: &[u8], at: usize) -> Option<&'static [u8]> {
    let before = bytes.get(at.saturating_sub(MAX_NAME)..at)?.trim_ascii_end();
    let quote: &[u8] = if before.ends_with(b"\\\"") { b"\\\"" } else { b"\"" };
    let name = before.strip_suffix(quote)?;
    let from = memmem::rfind(name, quote)? + quote.len();
    is_secret(std::str::from_utf8(name.get(from..)?).ok()?).then_some(quote)
}

/// Reads the value of a field, and finds the texts in it that are no names, and long numbers.
struct Value<'a> {
    bytes: &'a [u8],
    quote: &'static [u8],
    found: &'a mut Vec<Range<usize>>,
}

impl Value<'_> {
    /// Reads the value that begins at `at`, or after spaces there, and returns its end.
    fn read(&mut self, mut at: usize) -> usize {
        let mut depth = 0_u32;
        while let Some(byte) = self.bytes.get(at) {
            if self.bytes[at..].starts_with(self.quote) {
                at = self.text(at + self.quote.len(), depth > 0);
            } else if byte.is_ascii_digit() {
                at = self.number(at);
            } else {
                match byte {
                    b'{' | b'[' => depth += 1,
                    b'}' | b']' if depth > 1 => depth -= 1,
                    b'}' | b']' if depth == 1 => return at + 1,
                    // Literals stay, so that the JSON can be read.
                    b'-' | b' ' | b'\n' | b'\r' | b'\t' => {}
                    _ if depth == 0 => return at,
                    _ => {}
                }
                at += 1;
                continue;
            }
            if depth == 0 {
                return at;
            }
        }
        at
    }

    /// Reads a text from behind its first quotation mark, and returns the place behind the second one.
    fn text(&mut self, start: usize, is_inner: bool) -> usize {
        let escape: &[u8] = if self.quote.len() == 1 { b"\\" } else { b"\\\\" };
        let mut end = start;
        while let Some(rest) = self.bytes.get(end..).filter(|rest| !rest.is_empty()) {
            if rest.starts_with(escape) {
                // The escaped character: a quotation mark in a text of JSON is escaped twice.
                end += escape.len() + if rest[escape.len()..].starts_with(b"\\") { escape.len() } else { 1 };
            } else if rest.starts_with(self.quote) {
                break;
            } else {
                end += 1;
            }
        }
        let end = end.min(self.bytes.len());
        let after = (end + self.quote.len()).min(self.bytes.len());
        let is_name = is_inner && self.bytes[after..].trim_ascii_start().starts_with(b":");
        if !is_name && start < end {
            self.found.push(start..end);
        }
        after
    }

    fn number(&mut self, start: usize) -> usize {
        let is_of_number =
            |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'E' | b'+' | b'-');
        let rest = &self.bytes[start..];
        let digits = rest.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(rest.len());
        if digits >= MIN_BYTES {
            self.found.push(start..start + digits);
        }
        start + rest.iter().position(|byte| !is_of_number(byte)).unwrap_or(rest.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(found: Vec<Range<usize>>, text: &str) -> Vec<&str> {
        found.into_iter().map(|range| &text[range]).collect()
    }

    #[test]
    fn values_with_secret_names_are_found() {
        for (text, secrets) in [
            (r#"{"token":"one","other":"two","api-key" : "three"}"#, &["one", "three"][..]),
            (r#"{"tokens":{"a":["one",{"b":"two"}],"c":null},"d":"x"}"#, &["one", "two"]),
            (r#"{"password":123456,"pin_token":12,"passwd":true,"jwt":-7654321}"#, &["123456", "7654321"]),
            (r#"{"secret":"with \"quotes\"","x":"y"}"#, &[r#"with \"quotes\""#]),
            (r#""{\"token\":\"one\",\"a\":\"b\",\"jwt\":{\"x\":\"two\"}}""#, &["one", "two"]),
            ("https://a.example/?access_token=abcdef&q=1&code=x", &["abcdef"]),
            ("a=b; session_cookie=abcdefg; c", &["abcdefg"]),
            (r#"{"token":"broken off"#, &["broken off"]),
            (r#"{"token":"ends with \"#, &["ends with \\"]),
            ("token=short", &[]),
        ] {
            assert_eq!(texts(named(text.as_bytes()), text), secrets, "{text}");
        }
    }

    #[test]
    fn tokens_are_found_by_their_form() {
        let text = "Bearer abc.def-ghi, bva_0123456789abcdef eyJhbGciOiJFUzI1NiJ9.e30.c2ln eyJ DPoP x hv_0123456789abcdef";
        let found = texts(shaped(text.as_bytes()), text);
        assert_eq!(
            found,
            ["abc.def-ghi", "eyJhbGciOiJFUzI1NiJ9.e30.c2ln", "bva_0123456789abcdef", "hv_0123456789abcdef"]
        );
    }

    /// Reading each byte for each place would take hours.
    #[test]
    fn hostile_texts_are_read_once() {
        for text in
            [r#"{"token":"#, r#""token":[""#, r#"\"token\":"#, "eyJ", "Bearer bearer ", "token=", "token=a&"]
        {
            let text = text.repeat(100_000);
            named(text.as_bytes());
            shaped(text.as_bytes());
        }
    }
}
