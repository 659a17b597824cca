//! Detects U+0000 in requests. PostgreSQL can't store it in text, SQLite's functions stop at it, and no name, id or
//! record of the protocol contains it. Requests with it are refused, so that both databases behave alike. Blobs may
//! contain any byte.

use super::Error;

/// Whether a path or query contains an encoded U+0000. An unencoded one is not a valid URI.
pub fn in_uri(text: &str) -> bool {
    text.contains("%00")
}

/// Whether a JSON text contains U+0000: escaped in a string or key, or as a raw byte, which is invalid JSON.
pub fn in_json(text: &[u8]) -> bool {
    memchr::memchr(0, text).is_some()
        || memchr::memmem::find_iter(text, br"\u0000").any(|at| {
            // After an odd number of backslashes this one is itself escaped.
            let before = text[..at].iter().rev().take_while(|byte| **byte == b'\\').count();
            before % 2 == 0
        })
}

/// 400, for `what` holds U+0000.
pub fn refused(what: &str) -> Error {
    Error::bad_request(format!("{what} holds a NUL character (U+0000)"))
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn finds_escaped_nul_and_not_an_escaped_backslash_before_u0000() {
        for (text, holds) in [
            (r#"{"a":"\u0000"}"#, true),
            (r#"{"a\u0000":1}"#, true),
            (r#"{"a":"\\\u0000"}"#, true),
            (r#"{"a":"\\u0000"}"#, false),
            (r#"{"a":"\\u0000 \u0000"}"#, true),
            (r#"{"a":"u0000 \u0001 \u00000"}"#, true),
            (r#"{"a":"\u0001"}"#, false),
            ("{\"a\":\"\0\"}", true),
            ("", false),
        ] {
            assert_eq!(in_json(text.as_bytes()), holds, "{text}");
            // The result must agree with a JSON parser.
            if let Ok(read) = serde_json::from_str::<HashMap<String, serde_json::Value>>(text) {
                let is_nul = |text: &str| text.contains('\0');
                let has_nul = read.iter().any(|(k, v)| is_nul(k) || v.as_str().is_some_and(is_nul));
                assert_eq!(has_nul, holds, "{text}");
            }
        }
        assert!(in_uri("/a/%00") && in_uri("/a?b=%00") && !in_uri("/a/%2500") && !in_uri("/a/%0a0"));
    }
}
