//! Looks up the authority of an NSID: a TXT record of the NSID's domain names a DID, and that DID's repo publishes the
//! lexicon. Its PDS answers methods that have no lexicon here (admin-api.md §7).

use std::sync::Arc;
use std::time::Duration;

use moka::Expiry;
use moka::future::Cache;

use crate::identity::Resolver;
use belvedere_protocol::atproto::{Did, Nsid};
use belvedere_web::net;

/// Domains in the cache. Bounded, because callers choose the names; an entry has about 200 bytes.
const CACHE_DOMAINS: u64 = 10_000;

/// Time for which a domain's DID is cached; a change by the domain's owner takes effect after this.
const DID_TTL: Duration = Duration::from_mins(5);

/// Time for which it is cached that a domain names no DID.
const ABSENT_TTL: Duration = Duration::from_mins(1);

/// Time for which a failed look-up is cached, so that failing name servers get few queries.
const FAILURE_TTL: Duration = Duration::from_secs(5);

/// The account and PDS that answer a domain's methods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MethodAuthority {
    pub did: Did,
    /// Origin of the DID's PDS, without a trailing slash.
    pub pds: String,
}

/// The reason why the authority of a method is not known.
#[derive(Clone, Debug, thiserror::Error)]
pub enum AuthorityError {
    /// The domain names no DID, or the DID has no PDS.
    #[error("{0} names no authority")]
    Absent(String),
    /// TXT records name more than one DID, so none of them is the authority.
    #[error("{0} names more than one DID")]
    Ambiguous(String),
    /// The look-up failed; a later one may succeed.
    #[error("can't look up the authority of {0}: {1}")]
    Unavailable(String, String),
}

type AuthorityResult = Result<Arc<MethodAuthority>, AuthorityError>;

/// Looks up authorities and caches them. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Authorities {
    net: net::Client,
    resolver: Resolver,
    domains: Cache<String, Result<Did, AuthorityError>>,
}

struct CacheTtl;

impl Authorities {
    pub fn new(net: net::Client, resolver: Resolver) -> Self {
        let domains = Cache::builder().max_capacity(CACHE_DOMAINS).expire_after(CacheTtl).build();
        Self { net, resolver, domains }
    }

    /// The authority of a method. Concurrent calls for one domain share a look-up.
    ///
    /// # Errors
    /// When there is none, or the look-up failed.
    pub async fn of(&self, nsid: &Nsid) -> AuthorityResult {
        let domain = domain_of(nsid);
        let did = self.domains.get_with_by_ref(&domain, self.look_up(&domain)).await?;
        match self.resolver.resolve(&did).await {
            Ok(document) => match document.pds() {
                Some(pds) => Ok(Arc::new(MethodAuthority { did, pds: pds.to_owned() })),
                None => Err(AuthorityError::Absent(domain)),
            },
            Err(error) if error.is_temporary() => Err(AuthorityError::Unavailable(domain, error.to_string())),
            Err(_) => Err(AuthorityError::Absent(domain)),
        }
    }

    /// The account that publishes a lexicon, looked up now: DNS answers are cached for their TTL only.
    ///
    /// # Errors
    /// When the domain names none, or the look-up failed.
    pub async fn publisher(&self, nsid: &Nsid) -> Result<Did, AuthorityError> {
        let domain = domain_of(nsid);
        let found = self.look_up(&domain).await;
        // Calls that are forwarded follow the newer answer too, but not a failure.
        if !matches!(found, Err(AuthorityError::Unavailable(..))) {
            self.domains.insert(domain, found.clone()).await;
        }
        found
    }

    /// The DID that the domain's TXT records name.
    async fn look_up(&self, domain: &str) -> Result<Did, AuthorityError> {
        let texts = self.net.dns_txt(&format!("_lexicon.{domain}")).await;
        let texts =
            texts.map_err(|error| AuthorityError::Unavailable(domain.to_owned(), error.to_string()))?;
        only_did(&texts).map_err(|named| match named {
            Named::None => AuthorityError::Absent(domain.to_owned()),
            Named::Several => AuthorityError::Ambiguous(domain.to_owned()),
        })
    }
}

/// The number of DIDs in the TXT records of a domain, if it is not one.
#[derive(Debug, PartialEq, Eq)]
enum Named {
    None,
    Several,
}

/// The DID of the only `did=` record that is valid. Other records, and repetitions, are ignored.
fn only_did(texts: &[String]) -> Result<Did, Named> {
    let named = texts.iter().filter_map(|text| text.strip_prefix("did="));
    let mut valid: Vec<Did> = named.filter_map(|text| Did::try_from(text.trim()).ok()).collect();
    valid.dedup();
    match (valid.pop(), valid.is_empty()) {
        (None, _) => Err(Named::None),
        (Some(did), true) => Ok(did),
        (Some(_), false) => Err(Named::Several),
    }
}

/// The domain of an NSID: `example.com` for `com.example.getThing`. All segments except the last, reversed.
fn domain_of(nsid: &Nsid) -> String {
    let mut segments: Vec<&str> = nsid.as_str().split('.').rev().collect();
    segments.remove(0);
    segments.join(".").to_ascii_lowercase()
}

impl Expiry<String, Result<Did, AuthorityError>> for CacheTtl {
    fn expire_after_create(
        &self,
        _domain: &String,
        found: &Result<Did, AuthorityError>,
        _at: std::time::Instant,
    ) -> Option<Duration> {
        Some(match found {
            Ok(_) => DID_TTL,
            Err(AuthorityError::Absent(_) | AuthorityError::Ambiguous(_)) => ABSENT_TTL,
            Err(AuthorityError::Unavailable(..)) => FAILURE_TTL,
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

    #[test]
    fn exactly_one_did_is_the_authority() {
        let named = |texts: &[&str]| {
            let texts: Vec<String> = texts.iter().map(|&text| text.to_owned()).collect();
            only_did(&texts).map(|did| did.to_string())
        };
        let one = Ok("did:plc:aaaaaaaaaaaaaaaaaaaaaaaa".to_owned());
        let (a, b) = ("did=did:plc:aaaaaaaaaaaaaaaaaaaaaaaa", "did=did:web:example.com");
        assert_eq!(named(&["v=spf1 -all", a, "did=nonsense"]), one);
        assert_eq!(named(&[a, a]), one);
        assert_eq!(named(&[a, b]), Err(Named::Several));
        assert_eq!(named(&["did=", "dids=did:plc:a", " did=did:plc:a"]), Err(Named::None));
        assert_eq!(named(&[]), Err(Named::None));
    }
}
