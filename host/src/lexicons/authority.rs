//! Who answers for a method that is not known here: its NSID's domain names a DID, and that DID's PDS is asked
//! (admin-api.md §7).

use std::sync::Arc;
use std::time::Duration;

use moka::Expiry;
use moka::future::Cache;

use crate::atproto::{Did, Nsid};
use crate::identity::Resolver;
use crate::net;

/// Domains remembered. An entry is some 200 bytes, and callers choose the names.
const CACHE_DOMAINS: u64 = 10_000;

/// How long a domain's word is believed: what its owner changes is seen after this.
const FRESH: Duration = Duration::from_mins(5);

/// How long it is believed that a domain names nobody.
const FRESH_ABSENCE: Duration = Duration::from_mins(1);

/// How long nobody is asked again after a failure, so that name servers in trouble are not hammered.
const FRESH_FAILURE: Duration = Duration::from_secs(5);

/// Who answers for a domain's methods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authority {
    pub did: Did,
    /// Origin of its PDS, without a trailing slash.
    pub pds: String,
}

/// Why nobody answers for a method.
#[derive(Clone, Debug, thiserror::Error)]
pub enum AuthorityError {
    /// The domain names no DID, or the DID has no PDS.
    #[error("{0} names no authority")]
    Absent(String),
    /// Nobody could say; worth another try later.
    #[error("the authority of {0} can't be looked up: {1}")]
    Unavailable(String, String),
}

type Found = Result<Arc<Authority>, AuthorityError>;

/// Looks authorities up, and remembers them. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Authorities {
    net: net::Client,
    resolver: Resolver,
    domains: Cache<String, Result<Did, AuthorityError>>,
}

struct Freshness;

impl Authorities {
    pub fn new(net: net::Client, resolver: Resolver) -> Self {
        let domains = Cache::builder().max_capacity(CACHE_DOMAINS).expire_after(Freshness).build();
        Self { net, resolver, domains }
    }

    /// The authority of a method. Many callers at once cause one look-up.
    ///
    /// # Errors
    /// When there is none, or nobody could say.
    pub async fn of(&self, nsid: &Nsid) -> Found {
        let domain = domain_of(nsid);
        let did = self.domains.get_with_by_ref(&domain, self.ask(&domain)).await?;
        match self.resolver.resolve(&did).await {
            Ok(document) => match document.pds() {
                Some(pds) => Ok(Arc::new(Authority { did, pds: pds.to_owned() })),
                None => Err(AuthorityError::Absent(domain)),
            },
            Err(error) if error.is_temporary() => Err(AuthorityError::Unavailable(domain, error.to_string())),
            Err(_) => Err(AuthorityError::Absent(domain)),
        }
    }

    async fn ask(&self, domain: &str) -> Result<Did, AuthorityError> {
        let texts = self.net.dns_txt(&format!("_lexicon.{domain}")).await;
        let texts =
            texts.map_err(|error| AuthorityError::Unavailable(domain.to_owned(), error.to_string()))?;
        let named = texts.iter().find_map(|text| text.strip_prefix("did="));
        named
            .and_then(|text| Did::try_from(text.trim()).ok())
            .ok_or_else(|| AuthorityError::Absent(domain.to_owned()))
    }
}

/// `example.com` of `com.example.getThing`: all segments but the last, in reverse.
fn domain_of(nsid: &Nsid) -> String {
    let mut segments: Vec<&str> = nsid.as_str().split('.').rev().collect();
    segments.remove(0);
    segments.join(".").to_ascii_lowercase()
}

impl Expiry<String, Result<Did, AuthorityError>> for Freshness {
    fn expire_after_create(
        &self,
        _domain: &String,
        found: &Result<Did, AuthorityError>,
        _at: std::time::Instant,
    ) -> Option<Duration> {
        Some(match found {
            Ok(_) => FRESH,
            Err(AuthorityError::Absent(_)) => FRESH_ABSENCE,
            Err(AuthorityError::Unavailable(..)) => FRESH_FAILURE,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_domain_is_the_nsid_without_its_name_reversed() {
        for (nsid, domain) in [
            ("com.example.getThing", "example.com"),
            ("com.example.feed.getThing", "feed.example.com"),
            ("COM.Example.getThing", "example.com"),
        ] {
            assert_eq!(domain_of(&Nsid::try_from(nsid).unwrap()), domain);
        }
    }
}
