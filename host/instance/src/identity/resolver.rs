//! Fetches DID documents and caches them.

mod pds;
mod pools;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use http::StatusCode;
use moka::Expiry;
use moka::future::Cache;
use moka::ops::compute::{CompResult, Op};
use serde_json::Value;
use url::Url;

use self::pds::LastPds;
use super::did_web::web_url;
use super::directory_pause::DirectoryPause;
use super::fetches::LookupPools;
use super::handles::{Owners, owners};
use super::{DidDocument, IdentityError};
use belvedere_base::clock::{Clock, Timestamp};
use belvedere_protocol::atproto::Did;
use belvedere_web::fair_share::Permit;
use belvedere_web::net::{
    self, FetchedResponse, Limits, MAX_ASKED_WAIT, NetError, RATE_LIMIT_WAIT, asked_wait,
};

/// Cached documents. A parsed one takes about 300 bytes, so the cache stays below 20 MB.
const CACHE_DOCUMENTS: u64 = 50_000;

/// Time for which a document is cached. An identity event or a failed signature ends it earlier.
const CACHE_TIME: Duration = Duration::from_mins(15);

/// Time for which it is cached that a DID does not exist or has no valid document.
const CACHE_TIME_ABSENT: Duration = Duration::from_mins(1);

/// Time for which a failed fetch is not repeated, to spare a directory that is down.
const CACHE_TIME_FAILED: Duration = Duration::from_secs(5);

/// Time for which the PDS of a DID is remembered after its document was fetched, for readers that do without a newer
/// one.
const PDS_TIME: Duration = Duration::from_hours(24);

/// Maximum time for which a look-up may be in progress when its document changes, longer than a fetch may take, or something may be
/// remembered that was verified with a document.
pub const CHANGE_TIME: Duration = Duration::from_mins(1);

/// Fetches of one look-up, if the document changes during each.
const MAX_FETCHES: u32 = 3;

/// Seconds between two refreshes of a document. It bounds the fetches that an attacker causes with invalid signatures.
pub const MIN_REFRESH_SECONDS: i64 = 30;

/// Time that a look-up for a waiting user waits for a directory that limits its rate.
const SHORT_MAX_WAIT: Duration = Duration::from_millis(1_500);

/// Number of waits that the directory may ask of a task that can wait before it gives up.
const MAX_WAITS: usize = 10;

type Resolved = Result<Arc<DidDocument>, IdentityError>;

/// Resolves DIDs. Cheap to clone.
#[derive(Clone)]
pub struct Resolver {
    inner: Arc<Inner>,
    /// `None` where nothing may be looked up.
    pools: Option<Arc<LookupPools>>,
    reads: Option<Arc<LookupPools>>,
    pub(super) owners: Owners,
}

struct Inner {
    net: net::Client,
    /// The trusted client, for the directory only: the operator may configure a private address.
    directory: net::Client,
    /// Without a trailing slash.
    plc_url: String,
    clock: Clock,
    directory_pause: DirectoryPause,
    cache: Cache<Did, Entry>,
    /// The last known PDSs. Bounded as the documents are, with a third of their size.
    pds: Cache<Did, LastPds>,
    /// DIDs whose document has changed lately, with the number of the change: a look-up that was in progress then may
    /// have read the old document.
    changes: Cache<Did, u64>,
    last_change: AtomicU64,
}

#[derive(Clone)]
struct Entry {
    resolved: Resolved,
    /// The time before the fetch: a document may change while it is sent.
    fetched_at: Timestamp,
    /// The time and the error of the last failed attempt to fetch a newer document.
    failure: Option<(Timestamp, IdentityError)>,
}

/// A document, and the time at which its fetch began.
#[derive(Clone, Debug)]
pub(crate) struct Dated {
    pub(crate) document: Arc<DidDocument>,
    pub(crate) fetched_at: Timestamp,
}

struct CacheTimes;

impl Resolver {
    /// `plc_url` is the URL of the PLC directory.
    pub fn new(net: net::Client, plc_url: Url, clock: Clock) -> Self {
        let plc_url = plc_url.as_str().trim_end_matches('/').to_owned();
        let cache = Cache::builder().max_capacity(CACHE_DOCUMENTS).expire_after(CacheTimes).build();
        let pds = Cache::builder().max_capacity(CACHE_DOCUMENTS).time_to_live(PDS_TIME).build();
        let changes = Cache::builder().max_capacity(CACHE_DOCUMENTS).time_to_live(CHANGE_TIME).build();
        let (directory, directory_pause) = (net.trusted(), DirectoryPause::default());
        let last_change = AtomicU64::new(0);
        let inner =
            Inner { net, directory, plc_url, clock, directory_pause, cache, pds, changes, last_change };
        let (pools, reads) = (LookupPools::for_callers(), LookupPools::for_reads());
        let (pools, reads) = (Some(Arc::new(pools)), Some(Arc::new(reads)));
        Self { inner: Arc::new(inner), pools, reads, owners: owners() }
    }

    pub(super) fn net(&self) -> &net::Client {
        &self.inner.net
    }

    /// Resolves a DID, from the cache if possible. Concurrent calls for the same DID cause one fetch.
    ///
    /// # Errors
    /// When there is no document or it could not be fetched. Errors are cached too, for a shorter time, except
    /// [`IdentityError::Busy`], [`IdentityError::RateLimited`] and [`IdentityError::NotCached`].
    pub async fn resolve(&self, did: &Did) -> Resolved {
        self.entry(did).await?.resolved
    }

    /// Like [`Self::resolve`], with the time of the document.
    ///
    /// # Errors
    /// As [`Self::resolve`].
    pub(super) async fn resolve_dated(&self, did: &Did) -> Result<Dated, IdentityError> {
        let Entry { resolved, fetched_at, .. } = self.entry(did).await?;
        Ok(Dated { document: resolved?, fetched_at })
    }

    async fn entry(&self, did: &Did) -> Result<Entry, IdentityError> {
        // By reference first, so that a cache hit does not clone the DID.
        if let Some(entry) = self.inner.cache.get(did).await {
            return Ok(entry);
        }
        let pools = self.pools()?;
        let entry = self.inner.cache.try_get_with_by_ref(did, self.inner.fetch_entry(did, pools)).await;
        entry.map_err(|error| IdentityError::clone(&error))
    }

    /// Like [`Self::resolve`], for tasks that no user waits for: when the directory limits the rate of look-ups, waits
    /// as long as it asks, some minutes at most.
    ///
    /// # Errors
    /// As [`Self::resolve`].
    pub async fn resolve_patiently(&self, did: &Did) -> Resolved {
        for _ in 0..MAX_WAITS {
            match self.resolve(did).await {
                Err(IdentityError::RateLimited(wait)) => tokio::time::sleep(wait.min(MAX_ASKED_WAIT)).await,
                resolved => return resolved,
            }
        }
        self.resolve(did).await
    }

    /// The result of [`Self::resolve`] when it is cached; `None` when it takes a look-up.
    pub async fn known(&self, did: &Did) -> Option<Resolved> {
        self.inner.cache.get(did).await.map(|entry| entry.resolved)
    }

    /// The result of [`Self::refresh`] when the cache has a recent one; `None` when it takes a look-up.
    pub async fn known_fresh(&self, did: &Did) -> Option<Resolved> {
        let entry = self.inner.cache.get(did).await?;
        self.inner.recent(&entry, MIN_REFRESH_SECONDS).is_some().then_some(entry.resolved)
    }

    /// Enters the pool for a look-up at a host that a caller named.
    pub(super) async fn enter_web_pool(&self, host: &str) -> Result<Permit, IdentityError> {
        Ok(self.pools()?.web(host).await?)
    }

    /// Fetches the document again, for example when a signature does not match the cached key. Returns the cached
    /// document when it was fetched less than `MIN_REFRESH_SECONDS` ago, or when the fetch fails.
    ///
    /// # Errors
    /// As [`Self::resolve`].
    pub async fn refresh(&self, did: &Did) -> Resolved {
        match self.no_older_than(did, MIN_REFRESH_SECONDS).await {
            Err(error) if error.is_temporary() => self.known(did).await.unwrap_or(Err(error)),
            resolved => resolved,
        }
    }

    /// The document, fetched at most `seconds` ago; with 0, fetched now. While an older document is cached, a failed
    /// fetch is not repeated for `MIN_REFRESH_SECONDS`.
    ///
    /// # Errors
    /// As [`Self::resolve`]; also when a fetch fails and an older document is cached, which stays.
    pub async fn no_older_than(&self, did: &Did, seconds: i64) -> Resolved {
        let inner = &self.inner;
        if let Some(entry) = inner.cache.get(did).await
            && let Some(resolved) = inner.recent(&entry, seconds)
        {
            return resolved;
        }
        let pools = self.pools()?;
        let result: Result<_, IdentityError> = inner
            .cache
            .entry_by_ref(did)
            .and_try_compute_with(async |old| {
                let old = old.map(moka::Entry::into_value);
                if old.as_ref().is_some_and(|old| inner.recent(old, seconds).is_some()) {
                    return Ok(Op::Nop);
                }
                let new = inner.fetch_entry(did, pools).await?;
                Ok(Op::Put(match (old, &new.resolved) {
                    (Some(old), Err(error @ IdentityError::Unavailable(_))) if old.resolved.is_ok() => {
                        Entry { failure: Some((new.fetched_at, error.clone())), ..old }
                    }
                    _ => new,
                }))
            })
            .await;
        match result? {
            CompResult::Inserted(entry) | CompResult::ReplacedWith(entry) | CompResult::Unchanged(entry) => {
                let Entry { resolved, failure, .. } = entry.into_value();
                failure.map_or(resolved, |(_, error)| Err(error))
            }
            // Unreachable: the closure never removes an entry, and leaves only existing ones unchanged.
            CompResult::Removed(_) | CompResult::StillNone(_) => self.resolve(did).await,
        }
    }

    /// Removes a DID from the cache, after an identity event. Look-ups in progress are repeated.
    pub async fn invalidate(&self, did: &Did) {
        let change = self.inner.last_change.fetch_add(1, Ordering::Relaxed);
        self.inner.changes.insert(did.clone(), change).await;
        self.inner.cache.invalidate(did).await;
        self.inner.pds.invalidate(did).await;
    }

    /// The number of the last change of a document that was announced within [`CHANGE_TIME`], for those who remember what they did with
    /// the document.
    pub async fn last_change(&self, did: &Did) -> Option<u64> {
        self.inner.changes.get(did).await
    }

    /// Lets a cached document expire.
    #[cfg(any(test, feature = "testing"))]
    pub async fn expire(&self, did: &Did) {
        self.inner.cache.invalidate(did).await;
    }
}

impl Inner {
    /// The result of a fetch at most `seconds` ago, or the failure of one that is not to be repeated yet.
    fn recent(&self, entry: &Entry, seconds: i64) -> Option<Resolved> {
        let now = self.clock.now();
        if now < entry.fetched_at.plus_seconds(seconds) {
            return Some(entry.resolved.clone());
        }
        let (failed_at, error) = entry.failure.as_ref()?;
        (now < failed_at.plus_seconds(MIN_REFRESH_SECONDS)).then(|| Err(error.clone()))
    }

    /// The cache entry for a look-up. Errors that say nothing about the DID are not cached, but returned as such.
    async fn fetch_entry(&self, did: &Did, pools: &LookupPools) -> Result<Entry, IdentityError> {
        let mut fetches = 0;
        let (resolved, fetched_at) = loop {
            let change = self.changes.get(did).await;
            let fetched_at = self.clock.now();
            let resolved = match self.fetch(did, pools).await {
                Err(error @ (IdentityError::Busy(_) | IdentityError::RateLimited(_))) => return Err(error),
                other => other.map(Arc::new),
            };
            fetches += 1;
            if fetches == MAX_FETCHES || self.changes.get(did).await == change {
                break (resolved, fetched_at);
            }
        };
        match &resolved {
            Ok(document) => match document.pds() {
                Some(pds) => {
                    let last = LastPds { origin: pds.into(), fetched_at };
                    self.pds.insert(did.clone(), last).await;
                }
                None => self.pds.invalidate(did).await,
            },
            Err(error) if error.is_temporary() => {}
            Err(_) => self.pds.invalidate(did).await,
        }
        Ok(Entry { resolved, fetched_at, failure: None })
    }

    async fn fetch(&self, did: &Did, pools: &LookupPools) -> Result<DidDocument, IdentityError> {
        let (net, url) = self.source(did)?;
        let _permit = match did.method() {
            "plc" => pools.plc().await?,
            _ => pools.web(did.identifier()).await?,
        };
        let is_directory = did.method() == "plc";
        let mut response = self.request(net, &url, is_directory).await;
        if let Err(IdentityError::RateLimited(wait)) = &response
            && *wait <= SHORT_MAX_WAIT
        {
            tokio::time::sleep(*wait).await;
            response = self.request(net, &url, is_directory).await;
        }
        let document: Value = match response?.and_then(|response| response.json()) {
            Ok(document) => document,
            Err(NetError::Status(StatusCode::GONE)) if did.method() == "plc" => {
                return Err(IdentityError::Tombstoned);
            }
            Err(NetError::Status(status)) if matches!(status.as_u16(), 404 | 410) => {
                return Err(IdentityError::NotFound);
            }
            Err(NetError::Malformed(_)) => return Err(IdentityError::Invalid("it is not JSON")),
            Err(NetError::TooLarge(_)) => return Err(IdentityError::Invalid("it is too large")),
            Err(error) => return Err(IdentityError::Unavailable(Arc::new(error))),
        };
        DidDocument::parse(did, &document)
    }

    /// Sends a request, unless the directory has asked for a pause. The inner error is that of the request.
    async fn request(
        &self,
        net: &net::Client,
        url: &str,
        is_directory: bool,
    ) -> Result<Result<FetchedResponse, NetError>, IdentityError> {
        if is_directory && let Some(left) = self.directory_pause.left() {
            return Err(IdentityError::RateLimited(left));
        }
        let response = net.get_document(url, Limits::DOCUMENT_BYTES).await;
        if let Ok(limited) = &response
            && is_directory
            && limited.status == StatusCode::TOO_MANY_REQUESTS
        {
            let wait = asked_wait(&limited.headers, self.clock.now()).unwrap_or(RATE_LIMIT_WAIT);
            self.directory_pause.begin(wait);
            return Err(IdentityError::RateLimited(wait));
        }
        Ok(response)
    }

    /// The URL of the document and the client to fetch it with: guarded for did:web, whose DID names the host, trusted
    /// for the directory, which the operator chose.
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

impl Expiry<Did, Entry> for CacheTimes {
    fn expire_after_create(&self, _: &Did, entry: &Entry, _: Instant) -> Option<Duration> {
        Some(match &entry.resolved {
            Ok(_) => CACHE_TIME,
            Err(IdentityError::Unavailable(_)) => CACHE_TIME_FAILED,
            Err(_) => CACHE_TIME_ABSENT,
        })
    }

    fn expire_after_update(
        &self,
        did: &Did,
        entry: &Entry,
        now: Instant,
        left: Option<Duration>,
    ) -> Option<Duration> {
        // A failure does not make the document newer.
        if entry.failure.is_some() { left } else { self.expire_after_create(did, entry, now) }
    }
}

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resolver").field("plc_url", &self.inner.plc_url).finish_non_exhaustive()
    }
}
