//! Fetching documents, and the cache in front of it.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use moka::Expiry;
use moka::future::Cache;
use moka::ops::compute::{CompResult, Op};
use serde_json::Value;
use url::Url;

use super::fetches::Fetches;
use super::{DidDocument, IdentityError};
use crate::atproto::Did;
use crate::clock::{Clock, Timestamp};
use crate::fair_share::{Full, Place};
use crate::net::{self, Limits, NetError};

/// Documents kept. A parsed one takes about 300 bytes, so the cache stays below 20 MB.
const CACHE_DOCUMENTS: u64 = 50_000;

/// How long a document is believed. Identity events and failed signatures shorten it; without them a moved account is
/// noticed after this.
const FRESH: Duration = Duration::from_mins(15);

/// How long it is believed that a DID does not exist or has no usable document.
const FRESH_ABSENCE: Duration = Duration::from_mins(1);

/// How long a failed fetch is not repeated, so that a directory that is down is not hammered.
const FRESH_FAILURE: Duration = Duration::from_secs(5);

/// A document is not fetched anew more often than this, however many bad signatures are sent to make us. Seconds.
const REFRESH_AFTER: i64 = 30;

type Resolved = Result<Arc<DidDocument>, IdentityError>;

/// Resolves DIDs. Cheap to clone.
#[derive(Clone)]
pub struct Resolver(Arc<Inner>);

struct Inner {
    net: net::Client,
    /// For the directory alone: the operator named it, so it may be anywhere.
    directory: net::Client,
    /// Without a trailing slash.
    plc_url: String,
    clock: Clock,
    fetches: Fetches,
    cache: Cache<Did, Entry>,
}

#[derive(Clone)]
struct Entry {
    resolved: Resolved,
    at: Timestamp,
}

struct Freshness;

impl Resolver {
    /// `plc_url` is the directory of did:plc documents.
    pub fn new(net: net::Client, plc_url: Url, clock: Clock) -> Self {
        let plc_url = plc_url.as_str().trim_end_matches('/').to_owned();
        let cache = Cache::builder().max_capacity(CACHE_DOCUMENTS).expire_after(Freshness).build();
        let directory = net.trusted();
        Self(Arc::new(Inner { net, directory, plc_url, clock, fetches: Fetches::default(), cache }))
    }

    pub(super) fn net(&self) -> &net::Client {
        &self.0.net
    }

    /// The document, from the cache when it is fresh enough. Many callers at once cause one fetch.
    ///
    /// # Errors
    /// When there is none, or it could not be had; that too is remembered, for a shorter time.
    pub async fn resolve(&self, did: &Did) -> Resolved {
        // Looked up by reference first: the common case then clones nothing.
        if let Some(entry) = self.0.cache.get(did).await {
            return entry.resolved;
        }
        match self.0.cache.try_get_with_by_ref(did, self.0.fetch_entry(did)).await {
            Ok(entry) => entry.resolved,
            Err(full) => Err(IdentityError::Busy(*full)),
        }
    }

    /// The answer that is known without asking another server; `None` when it takes a look-up.
    pub async fn known(&self, did: &Did) -> Option<Resolved> {
        self.0.cache.get(did).await.map(|entry| entry.resolved)
    }

    /// The answer that [`Self::refresh`] would give without asking another server; `None` when it takes a look-up.
    pub async fn known_fresh(&self, did: &Did) -> Option<Resolved> {
        let entry = self.0.cache.get(did).await?;
        self.0.is_fresh(&entry).then_some(entry.resolved)
    }

    /// A place for a look-up at a host that a caller named.
    pub(super) async fn place(&self, host: &str) -> Result<Place, Full> {
        self.0.fetches.web(host).await
    }

    /// The document, fetched anew (a signature failed under the cached key). Too soon after the last fetch of the same
    /// DID, or when the fetch fails, the cached one is given again.
    ///
    /// # Errors
    /// As [`Self::resolve`].
    pub async fn refresh(&self, did: &Did) -> Resolved {
        let inner = &self.0;
        let result = inner
            .cache
            .entry_by_ref(did)
            .and_try_compute_with(async |old| {
                let Some(old) = old.map(moka::Entry::into_value) else {
                    return inner.fetch_entry(did).await.map(Op::Put);
                };
                if inner.is_fresh(&old) {
                    return Ok(Op::Nop);
                }
                let new = inner.fetch_entry(did).await?;
                let failed = matches!(new.resolved, Err(IdentityError::Unavailable(_)));
                Ok(if failed && old.resolved.is_ok() { Op::Nop } else { Op::Put(new) })
            })
            .await;
        match result {
            Ok(
                CompResult::Inserted(entry) | CompResult::ReplacedWith(entry) | CompResult::Unchanged(entry),
            ) => entry.into_value().resolved,
            // Nothing here removes, and only what is there is left alone.
            Ok(CompResult::Removed(_) | CompResult::StillNone(_)) => self.resolve(did).await,
            Err(full) => self.known(did).await.unwrap_or(Err(IdentityError::Busy(full))),
        }
    }

    /// Forgets a DID (an identity event came).
    pub async fn invalidate(&self, did: &Did) {
        self.0.cache.invalidate(did).await;
    }
}

impl Inner {
    fn is_fresh(&self, entry: &Entry) -> bool {
        self.clock.now() < entry.at.plus_seconds(REFRESH_AFTER)
    }

    /// What becomes of a look-up. That there was no place for it is not remembered: it says nothing about the DID.
    async fn fetch_entry(&self, did: &Did) -> Result<Entry, Full> {
        let resolved = match self.fetch(did).await {
            Err(IdentityError::Busy(full)) => return Err(full),
            other => other.map(Arc::new),
        };
        Ok(Entry { resolved, at: self.clock.now() })
    }

    async fn fetch(&self, did: &Did) -> Result<DidDocument, IdentityError> {
        let (net, url) = self.source(did)?;
        let _place = match did.method() {
            "plc" => self.fetches.plc().await?,
            _ => self.fetches.web(did.identifier()).await?,
        };
        let document: Value = match net.get_json(&url, Limits::DOCUMENT_BYTES).await {
            Ok(document) => document,
            Err(NetError::Status(status)) if matches!(status.as_u16(), 404 | 410) => {
                return Err(IdentityError::NotFound);
            }
            Err(NetError::Malformed(_)) => return Err(IdentityError::Invalid("it is not JSON")),
            Err(NetError::TooLarge(_)) => return Err(IdentityError::Invalid("it is too large")),
            Err(error) => return Err(IdentityError::Unavailable(Arc::new(error))),
        };
        DidDocument::parse(did, &document)
    }

    /// Where the document is, and the client for it: the DID chooses the host of a did:web, the operator the directory's.
    fn source(&self, did: &Did) -> Result<(&net::Client, String), IdentityError> {
        match did.method() {
            "plc" if did.identifier().bytes().all(|b| b.is_ascii_alphanumeric()) => {
                Ok((&self.directory, format!("{}/{did}", self.plc_url)))
            }
            "web" => {
                let url = web_url(did.identifier()).ok_or(IdentityError::Unsupported)?;
                Ok((&self.net, url))
            }
            _ => Err(IdentityError::Unsupported),
        }
    }
}

/// Where the document of a did:web is: a host, perhaps with `%3A` and a port; atproto knows no paths. Only for a
/// loopback host, which the guard permits in development alone, over plain http.
fn web_url(identifier: &str) -> Option<String> {
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
    // Not the parser's idea of the host: a DID names one host in one spelling.
    if !url.host_str()?.eq_ignore_ascii_case(host) {
        return None;
    }
    let scheme = if loopback { "http" } else { "https" };
    Some(format!("{scheme}://{authority}/.well-known/did.json"))
}

impl Expiry<Did, Entry> for Freshness {
    fn expire_after_create(&self, _: &Did, entry: &Entry, _: Instant) -> Option<Duration> {
        Some(match &entry.resolved {
            Ok(_) => FRESH,
            Err(IdentityError::Unavailable(_)) => FRESH_FAILURE,
            Err(_) => FRESH_ABSENCE,
        })
    }

    fn expire_after_update(
        &self,
        did: &Did,
        entry: &Entry,
        now: Instant,
        _: Option<Duration>,
    ) -> Option<Duration> {
        self.expire_after_create(did, entry, now)
    }
}

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resolver").field("plc_url", &self.0.plc_url).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::web_url;

    #[test]
    fn did_web_is_a_host_and_perhaps_a_port() {
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
