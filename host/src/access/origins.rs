//! The registry of the instance's own origins: PUBLIC_URL and the registered domains, one of which is the primary.
//! Origins in proofs, cookies, redirects and pages are compared with these, never with a Host header, which the caller
//! chooses.

use std::sync::Arc;

use arc_swap::ArcSwap;
use http::HeaderMap;
use http::header::HOST;

/// The origins, replaced as a whole when domains change. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Origins {
    /// The origin of PUBLIC_URL.
    own: Arc<str>,
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
        Self { own: own.into(), current: Arc::new(ArcSwap::from_pointee(current)) }
    }

    /// Replaces all origins but PUBLIC_URL's, which is the primary unless another one is.
    pub fn replace(&self, primary: Option<String>, domains: impl IntoIterator<Item = String>) {
        let mut all = vec![self.own.to_string()];
        all.extend(domains.into_iter().filter(|url| **url != *self.own));
        let primary = primary.unwrap_or_else(|| self.own.to_string());
        self.current.store(Arc::new(Current { primary, all }));
    }

    pub fn contains(&self, origin: &str) -> bool {
        self.current.load().all.iter().any(|own| own == origin)
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
}
