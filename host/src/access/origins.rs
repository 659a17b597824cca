//! The registry of the instance's own origins: PUBLIC_URL and the registered domains. Origins in proofs, cookies,
//! redirects and pages are compared with these, never with a Host header, which the caller chooses.

use std::sync::Arc;

use arc_swap::ArcSwap;
use http::HeaderMap;
use http::header::HOST;

/// The origins, replaced as a whole when domains change. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Origins {
    /// The origin of PUBLIC_URL.
    own: Arc<str>,
    all: Arc<ArcSwap<Vec<String>>>,
}

impl Origins {
    /// With PUBLIC_URL's origin only.
    pub fn new(own: &str) -> Self {
        Self { own: own.into(), all: Arc::new(ArcSwap::from_pointee(vec![own.to_owned()])) }
    }

    /// Replaces all origins but PUBLIC_URL's.
    pub fn replace(&self, domains: impl IntoIterator<Item = String>) {
        let mut all = vec![self.own.to_string()];
        all.extend(domains.into_iter().filter(|url| **url != *self.own));
        self.all.store(Arc::new(all));
    }

    pub fn contains(&self, origin: &str) -> bool {
        self.all.load().iter().any(|own| own == origin)
    }

    /// Our origin that the Host header names; PUBLIC_URL's when it names none of ours (a proxy may use another name for
    /// us).
    pub fn of_host(&self, headers: &HeaderMap) -> String {
        let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        let all = self.all.load();
        let found =
            all.iter().find(|own| own.split_once("://").is_some_and(|(_, authority)| authority == host));
        found.cloned().unwrap_or_else(|| self.own.to_string())
    }
}
