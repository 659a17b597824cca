//! Percent-encoding of queries and forms.

use std::fmt::Write as _;

/// Encodes everything but letters, digits and `-._~` (RFC 3986 §2.3).
pub fn encode(text: &str) -> String {
    text.bytes().fold(String::with_capacity(text.len()), |mut out, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}"); // writing to a String can't fail
        }
        out
    })
}

/// `a=1&b=2`, for a query or for the body of a form.
pub fn form(params: &[(&str, &str)]) -> String {
    let pairs: Vec<String> =
        params.iter().map(|(key, value)| format!("{}={}", encode(key), encode(value))).collect();
    pairs.join("&")
}

/// The URL with the parameters added to its query.
pub fn with_query(url: &str, params: &[(&str, &str)]) -> String {
    let separator = if url.contains('?') { '&' } else { '?' };
    format!("{url}{separator}{}", form(params))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_encoded() {
        assert_eq!(encode("a b&c=d/ü~"), "a%20b%26c%3Dd%2F%C3%BC~");
        assert_eq!(form(&[("a", "1"), ("b c", "2+3")]), "a=1&b%20c=2%2B3");
        assert_eq!(with_query("https://a.example/x", &[("q", "?")]), "https://a.example/x?q=%3F");
        assert_eq!(with_query("https://a.example/x?y=1", &[("q", "2")]), "https://a.example/x?y=1&q=2");
    }
}
