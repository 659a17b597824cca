//! The URLs of the documents of did:web.

use url::Url;

/// The URL of a did:web document. The identifier is a host, optionally with `%3A` and a port; atproto does not allow
/// paths. The URL is http for a loopback host, which the guard permits in development only.
pub(super) fn web_url(identifier: &str) -> Option<String> {
    let (host, port) = match identifier.split_once('%') {
        None => (identifier, None),
        Some((host, rest)) => (host, Some(rest.strip_prefix("3A").or_else(|| rest.strip_prefix("3a"))?)),
    };
    if host.contains(':') || host.is_empty() {
        return None;
    }
    let port =
        port.map(|digits| digits.parse::<u16>().ok().filter(|_| digits.bytes().all(|b| b.is_ascii_digit())));
    let authority = match port {
        None => host.to_owned(),
        Some(port) => format!("{host}:{}", port?),
    };
    let url = Url::parse(&format!("https://{authority}/.well-known/did.json")).ok()?;
    let loopback = match url.host()? {
        url::Host::Domain(name) => name == "localhost",
        url::Host::Ipv4(ip) => ip.is_loopback(),
        url::Host::Ipv6(_) => false,
    };
    // Refuses hosts that the parser normalizes (IPv4 notations): a DID names a host in one spelling.
    if !url.host_str()?.eq_ignore_ascii_case(host) {
        return None;
    }
    let scheme = if loopback { "http" } else { "https" };
    Some(format!("{scheme}://{authority}/.well-known/did.json"))
}

#[cfg(test)]
mod tests {
    use super::web_url;

    #[test]
    fn did_web_is_a_host_with_an_optional_port() {
        for (identifier, url) in [
            ("example.com", Some("https://example.com/.well-known/did.json")),
            ("example.com%3A8443", Some("https://example.com:8443/.well-known/did.json")),
            ("localhost%3a2583", Some("http://localhost:2583/.well-known/did.json")),
            ("127.0.0.1%3A1", Some("http://127.0.0.1:1/.well-known/did.json")),
            ("example.com:user:alice", None),
            ("example.com%3A", None),
            ("example.com%3A99999", None),
            ("example.com%3A+1", None),
            ("example.com%3A80%3A80", None),
            ("example.com%2Fpath", None),
            ("%3A80", None),
            ("2130706433", None),
            ("0x7f.1", None),
        ] {
            assert_eq!(web_url(identifier).as_deref(), url, "{identifier}");
        }
    }
}
