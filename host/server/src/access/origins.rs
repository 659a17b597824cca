//! The registry of the instance's own origins: PUBLIC_URL and the registered domains, one of which is the primary.
//! Origins in proofs, cookies, redirects and pages are compared with these, never with a Host header, which the caller
//! chooses.

use std::sync::Arc;

use arc_swap::ArcSwap;
use http::HeaderMap;
use http::header::HOST;

use belvedere_protocol::atproto::Did;

/// The names of the loopback host in origins. A server on one of them is usually reached by the others too.
const LOOPBACK: [&str; 3] = ["127.0.0.1", "localhost", "[::1]"];

/// The origins, replaced as a whole when domains change. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Origins {
    /// The origin of PUBLIC_URL.
    own: Arc<str>,
    /// Whether PUBLIC_URL names the loopback host. Then all its names are the same.
    is_loopback: bool,
    current: Arc<ArcSwap<Current>>,
}

#[derive(Debug)]
struct Current {
    primary: String,
    all: Vec<String>,
}

impl Origins {
    /// With PUBLIC_URL's origin only.
    pub fn new(own: &str) -> Self {
        let current = Current { primary: own.to_owned(), all: vec![own.to_owned()] };
        let is_loopback = split_loopback(own).is_some();
        Self { own: own.into(), is_loopback, current: Arc::new(ArcSwap::from_pointee(current)) }
    }

    /// Replaces all origins but PUBLIC_URL's, which is the primary unless another one is.
    pub fn replace(&self, primary: Option<String>, domains: impl IntoIterator<Item = String>) {
        let mut all = vec![self.own.to_string()];
        all.extend(domains.into_iter().filter(|url| **url != *self.own));
        let primary = primary.unwrap_or_else(|| self.own.to_string());
        self.current.store(Arc::new(Current { primary, all }));
    }

    pub fn contains(&self, origin: &str) -> bool {
        self.current.load().all.iter().any(|own| own == origin || self.is_same_loopback(own, origin))
    }

    /// Whether a did:web names the host of one of our origins.
    pub fn has_host_of(&self, did: &Did) -> bool {
        did.web_authority().is_some_and(|authority| {
            ["https", "http"].iter().any(|scheme| self.contains(&format!("{scheme}://{authority}")))
        })
    }

    /// Whether two origins differ only in the name of the loopback host, and PUBLIC_URL is one of them.
    fn is_same_loopback(&self, own: &str, other: &str) -> bool {
        self.is_loopback && split_loopback(own).is_some_and(|own| split_loopback(other) == Some(own))
    }

    /// Every origin.
    pub fn all(&self) -> Vec<String> {
        self.current.load().all.clone()
    }

    /// The origin of links that the instance makes by itself.
    pub fn primary(&self) -> String {
        self.current.load().primary.clone()
    }

    /// Our origin that the Host header names; the primary when it names none of ours (a proxy may use another name for
    /// us).
    pub fn of_host(&self, headers: &HeaderMap) -> String {
        let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        let current = self.current.load();
        let mut all = current.all.iter();
        let found = all.find(|own| own.split_once("://").is_some_and(|(_, authority)| authority == host));
        found.unwrap_or(&current.primary).clone()
    }
}

/// Scheme and port of an origin on the loopback host.
fn split_loopback(origin: &str) -> Option<(&str, &str)> {
    let (scheme, authority) = origin.split_once("://")?;
    let port = LOOPBACK.iter().find_map(|name| authority.strip_prefix(name))?;
    (port.is_empty() || port.starts_with(':')).then_some((scheme, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_host_is_taken_for_the_primary() {
        let origins = Origins::new("https://own.example");
        let of = |host: &'static str| {
            origins.of_host(&HeaderMap::from_iter([(HOST, http::HeaderValue::from_static(host))]))
        };
        assert_eq!(
            (of("backend:3000"), origins.primary()),
            ("https://own.example".into(), of("own.example"))
        );
        let second = "https://second.example";
        origins.replace(Some(second.to_owned()), [second.to_owned(), "https://own.example".to_owned()]);
        assert_eq!(of("backend:3000"), second);
        assert_eq!(of("own.example"), "https://own.example");
        assert_eq!(origins.all(), ["https://own.example", second]);
        origins.replace(None, []);
        assert!(!origins.contains(second) && origins.primary() == "https://own.example");
    }

    #[test]
    fn the_names_of_the_loopback_host_are_one() {
        let own = Origins::new("http://127.0.0.1:3000");
        own.replace(None, ["https://second.example".to_owned()]);
        for good in
            ["http://127.0.0.1:3000", "http://localhost:3000", "http://[::1]:3000", "https://second.example"]
        {
            assert!(own.contains(good), "{good}");
        }
        for bad in [
            "http://localhost",
            "http://localhost:3001",
            "https://localhost:3000",
            "http://localhost.evil.example:3000",
            "http://127.0.0.1.evil.example:3000",
            "http://127.0.0.2:3000",
        ] {
            assert!(!own.contains(bad), "{bad}");
        }
        // A domain on loopback does not make the names the same for a public server.
        let public = Origins::new("https://own.example");
        public.replace(None, ["http://127.0.0.1:3000".to_owned()]);
        assert!(public.contains("http://127.0.0.1:3000") && !public.contains("http://localhost:3000"));
    }

    #[test]
    fn a_did_web_is_ours_if_its_host_is() {
        let names = |own: &str, did: &str| Origins::new(own).has_host_of(&Did::try_from(did).unwrap());
        assert!(names("https://own.example", "did:web:own.example"));
        assert!(names("https://own.example:8443", "did:web:Own.Example%3A8443"));
        assert!(names("http://127.0.0.1:3000", "did:web:localhost%3A3000"));
        assert!(names("http://[::1]:3000", "did:web:%5B%3A%3A1%5D%3A3000"));
        for other in
            ["did:web:other.example", "did:web:own.example%3A8443", "did:web:own.example:path", "did:plc:own"]
        {
            assert!(!names("https://own.example", other), "{other}");
        }
    }
}
