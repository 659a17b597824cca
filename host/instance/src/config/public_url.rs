//! Shows URLs of the configuration to people.

use url::Url;

/// The URL without what may be secret: a password, and a query with a token.
pub fn public_url(url: &str) -> String {
    let Ok(mut url) = Url::parse(url) else { return String::new() };
    // Fails only for URLs that have no host, and then there is no password either.
    let _ = url.set_username("").and_then(|()| url.set_password(None));
    url.set_query(None);
    url.set_fragment(None);
    url.as_str().trim_end_matches('/').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_in_urls_are_not_public() {
        assert_eq!(
            public_url("wss://me:secret@stream.example/subscribe?token=x#y"),
            "wss://stream.example/subscribe"
        );
        assert_eq!(public_url("https://plc.directory/"), "https://plc.directory");
        assert_eq!(public_url("no url"), "");
    }
}
