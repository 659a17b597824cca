//! Names the browser of a session, so that its user recognizes it.

use http::header::{HeaderMap, USER_AGENT};

use super::Access;
use belvedere_web::http::Request;

/// Bytes of a `User-Agent` that are looked at. Those of browsers have up to 300.
const MAX_BYTES: usize = 512;

/// Characters of the name of another program.
const MAX_NAME_CHARS: usize = 30;

/// Products and their names. Browsers name others that they are compatible with, so the most specific come first.
const BROWSERS: [(&str, &str); 15] = [
    ("Edg/", "Edge"),
    ("EdgA/", "Edge"),
    ("EdgiOS/", "Edge"),
    ("OPR/", "Opera"),
    ("Vivaldi/", "Vivaldi"),
    ("SamsungBrowser/", "Samsung Internet"),
    ("DuckDuckGo/", "DuckDuckGo"),
    ("FxiOS/", "Firefox"),
    ("Firefox/", "Firefox"),
    ("CriOS/", "Chrome"),
    ("HeadlessChrome/", "Chrome"),
    ("Chromium/", "Chromium"),
    ("Chrome/", "Chrome"),
    ("Epiphany/", "GNOME Web"),
    ("Safari/", "Safari"),
];

/// Operating systems, the most specific first: Android names Linux too.
const SYSTEMS: [(&str, &str); 8] = [
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Android", "Android"),
    ("Windows", "Windows"),
    ("CrOS", "ChromeOS"),
    ("Mac OS X", "macOS"),
    ("Macintosh", "macOS"),
    ("Linux", "Linux"),
];

/// The browser of a session, as its user sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Browser {
    /// Such as "Firefox on Linux". `None` when the client does not name itself.
    pub device: Option<String>,
    /// The client's address.
    pub address: Option<String>,
}

impl Browser {
    pub fn of(access: &Access, request: &Request) -> Self {
        Self { device: device(request.headers()), address: Some(access.client_address(request).to_string()) }
    }
}

/// The device by its `User-Agent`. Apart from known names it has only letters, digits, dots and hyphens of the header.
fn device(headers: &HeaderMap) -> Option<String> {
    let bytes = headers.get(USER_AGENT)?.as_bytes();
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(MAX_BYTES)]);
    let known = |names: &[(&str, &'static str)]| {
        names.iter().find(|(part, _)| text.contains(part)).map(|(_, name)| (*name).to_owned())
    };
    match (known(&BROWSERS).or_else(|| product(&text)), known(&SYSTEMS)) {
        (Some(browser), Some(system)) => Some(format!("{browser} on {system}")),
        (browser, system) => browser.or(system),
    }
}

/// The name of another program: its first product.
fn product(text: &str) -> Option<String> {
    let is_plain = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.');
    let name: String = text.chars().take_while(is_plain).take(MAX_NAME_CHARS).collect();
    // All browsers call themselves that.
    (!name.is_empty() && name != "Mozilla").then_some(name)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn named(user_agent: &[u8]) -> Option<String> {
        let mut headers = HeaderMap::new();
        headers.insert(USER_AGENT, HeaderValue::from_bytes(user_agent).unwrap());
        device(&headers)
    }

    #[test]
    fn browsers_and_their_systems_are_named() {
        for (user_agent, expected) in [
            ("Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0", "Firefox on Linux"),
            (
                "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/138.0.0.0 \
                 Safari/537.36 Edg/138.0.0.0",
                "Edge on Windows",
            ),
            (
                "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) \
                 Version/18.5 Safari/605.1.15",
                "Safari on macOS",
            ),
            (
                "Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) \
                 CriOS/138.0.7204.33 Mobile/15E148 Safari/604.1",
                "Chrome on iPhone",
            ),
            (
                "Mozilla/5.0 (Linux; Android 14; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/138.0.0.0 Mobile \
                 Safari/537.36",
                "Chrome on Android",
            ),
            ("curl/8.14.1", "curl"),
            ("Mozilla/5.0 (X11; Linux x86_64)", "Linux"),
        ] {
            assert_eq!(named(user_agent.as_bytes()).as_deref(), Some(expected), "{user_agent}");
        }
    }

    #[test]
    fn other_texts_are_cut_and_cleaned_and_none_is_none() {
        assert_eq!(named("x".repeat(5_000).as_bytes()), Some("x".repeat(MAX_NAME_CHARS)));
        assert_eq!(named("tool<script>\u{202e}".as_bytes()).as_deref(), Some("tool"));
        assert_eq!(named(b"\xff\xfe Firefox/1").as_deref(), Some("Firefox"));
        for unnamed in [&b""[..], b"<script>", b"\xe2\x80\xae", b"Mozilla/5.0"] {
            assert_eq!(named(unnamed), None);
        }
        assert_eq!(device(&HeaderMap::new()), None);
    }
}
