//! Resolves handles to DIDs (atproto handle resolution): by DNS, then by the host's well-known document. The DID's
//! document has to list the handle too.

use std::time::{Duration, Instant};

use http::StatusCode;
use moka::Expiry;
use moka::future::Cache;

use super::{IdentityError, Resolver};
use belvedere_protocol::atproto::{AtIdentifier, Did, Handle, HandleUri, InvalidRecordUri, RecordUri, typed};
use belvedere_web::http::Error;
use belvedere_web::net::{Limits, NetError};

/// Time for which the account of a handle is cached for reads of records. Its document is checked each time.
const OWNER_TIME: Duration = Duration::from_mins(5);

/// Time for which it is cached for reads that a handle has no account. Each look-up costs the handle's domain a DNS
/// query and a request.
const OWNER_TIME_FAILED: Duration = Duration::from_mins(1);

/// The same when the DID document could not be fetched, which says nothing about the handle: as long as the failed
/// fetch itself is not repeated.
const OWNER_TIME_UNAVAILABLE: Duration = Duration::from_secs(5);

/// Time that a read of a record waits for the account of a handle. DNS and the host of a handle answer within a second.
pub(super) const OWNER_MAX_WAIT: Duration = Duration::from_secs(5);

/// Cached handles, of some 100 bytes each.
const OWNERS: u64 = 50_000;

/// Bytes of the well-known document, which contains only a DID.
const MAX_BYTES: usize = 4 << 10;

/// The reason why a handle could not be resolved to an account.
#[derive(Clone, Debug, thiserror::Error)]
pub enum HandleError {
    #[error("it is neither a handle nor a DID")]
    Malformed,
    #[error("the handle could not be resolved")]
    Unknown,
    #[error("the handle resolves to {0}, whose DID document does not list it")]
    Unclaimed(Did),
    /// Neither DNS nor the host of the handle says whether it has an account.
    #[error("the handle could not be resolved: its domain does not answer")]
    Unreachable,
    #[error("the handle could not be resolved in time")]
    Slow,
    /// It was not looked up, because its caller has used up the budget for that.
    #[error("too many handles were looked up lately")]
    TooMany,
    #[error(transparent)]
    Identity(#[from] IdentityError),
}

impl HandleError {
    /// Whether a retry may succeed.
    pub fn is_temporary(&self) -> bool {
        match self {
            Self::Slow | Self::Unreachable | Self::TooMany => true,
            Self::Identity(error) => error.is_temporary(),
            Self::Malformed | Self::Unknown | Self::Unclaimed(_) => false,
        }
    }
}

/// The reason why a text does not name a record.
#[derive(Clone, Debug, thiserror::Error)]
pub enum RecordUriError {
    #[error(transparent)]
    Invalid(#[from] InvalidRecordUri),
    #[error("the account in the AT URI: {0}")]
    Handle(#[from] HandleError),
}

impl RecordUriError {
    /// Whether a retry may succeed.
    pub fn is_temporary(&self) -> bool {
        matches!(self, Self::Handle(error) if error.is_temporary())
    }
}

impl HandleError {
    /// Like [`Error::from`], with the name of the parameter.
    pub fn of_parameter(self, name: &str) -> Error {
        Error::new(status(self.is_temporary()), format!("{name}: {self}"))
    }
}

impl From<HandleError> for Error {
    /// 400 with the reason, or 502 when the handle can't be resolved now.
    fn from(error: HandleError) -> Self {
        Self::new(status(error.is_temporary()), error.to_string())
    }
}

impl From<RecordUriError> for Error {
    /// The status is that of the handle's error.
    fn from(error: RecordUriError) -> Self {
        Self::new(status(error.is_temporary()), error.to_string())
    }
}

fn status(is_temporary: bool) -> StatusCode {
    if is_temporary { StatusCode::BAD_GATEWAY } else { StatusCode::BAD_REQUEST }
}

/// The accounts of handles in the URIs of records, by lower-case handle.
pub(super) type Owners = Cache<String, Result<Did, HandleError>>;

pub(super) fn owners() -> Owners {
    Cache::builder().max_capacity(OWNERS).expire_after(OwnerTimes).build()
}

struct OwnerTimes;

impl OwnerTimes {
    fn time(owner: &Result<Did, HandleError>) -> Duration {
        match owner {
            Ok(_) => OWNER_TIME,
            Err(HandleError::Identity(IdentityError::Unavailable(_))) => OWNER_TIME_UNAVAILABLE,
            Err(_) => OWNER_TIME_FAILED,
        }
    }
}

impl Expiry<String, Result<Did, HandleError>> for OwnerTimes {
    fn expire_after_create(
        &self,
        _: &String,
        owner: &Result<Did, HandleError>,
        _: Instant,
    ) -> Option<Duration> {
        Some(Self::time(owner))
    }

    fn expire_after_update(
        &self,
        _: &String,
        owner: &Result<Did, HandleError>,
        _: Instant,
        _: Option<Duration>,
    ) -> Option<Duration> {
        Some(Self::time(owner))
    }
}

impl Resolver {
    /// The record that an AT URI names, whose authority may be a handle. Looks it up in the pools for reads.
    ///
    /// # Errors
    /// When the text is no such URI, or the handle does not resolve.
    pub async fn record_uri(&self, text: &str) -> Result<RecordUri, RecordUriError> {
        match HandleUri::parse(text) {
            None => Ok(RecordUri::parse(text)?),
            Some(named) => {
                let did = self.owner(named.handle.as_str()).await?;
                Ok(named.of(did))
            }
        }
    }

    /// Like [`Self::account`], for reads: the account of a handle is cached and looked up in the pools for reads.
    ///
    /// # Errors
    /// As [`Self::account`].
    pub async fn account_for_read(&self, text: &str) -> Result<Did, HandleError> {
        match AtIdentifier::parse(text) {
            Some(AtIdentifier::Did(did)) => Ok(did),
            Some(AtIdentifier::Handle(handle)) => self.owner(handle.as_str()).await,
            None => Err(HandleError::Malformed),
        }
    }

    /// Whether [`Self::record_uri`] asks the handle's domain for the account of a handle.
    pub fn asks_domain_of(&self, handle: &Handle) -> bool {
        self.looks_up() && !self.owners.contains_key(&handle.as_str().to_ascii_lowercase())
    }

    pub(super) async fn owner(&self, handle: &str) -> Result<Did, HandleError> {
        let handle = handle.to_ascii_lowercase();
        let reads = self.for_reads();
        match self.owners.get(&handle).await {
            Some(Ok(did)) => {
                let document = tokio::time::timeout(OWNER_MAX_WAIT, reads.resolve(&did)).await;
                if document.map_err(|_| HandleError::Slow)??.handle() == Some(&handle) {
                    return Ok(did);
                }
                self.owners.invalidate(&handle).await;
            }
            Some(Err(error)) => return Err(error),
            None => {}
        }
        reads.pools()?;
        let look_up = async {
            let found = tokio::time::timeout(OWNER_MAX_WAIT, reads.account(&handle)).await;
            match found.unwrap_or(Err(HandleError::Slow)) {
                // The handle was not looked up.
                Err(HandleError::Identity(
                    error @ (IdentityError::Busy(_) | IdentityError::RateLimited(_)),
                )) => Err(HandleError::Identity(error)),
                found => Ok(found),
            }
        };
        // Concurrent calls cause one look-up.
        match self.owners.try_get_with_by_ref(&handle, look_up).await {
            Ok(owner) => owner,
            Err(error) => Err(HandleError::clone(&error)),
        }
    }

    /// The account that a person names: by a handle, with or without a leading `@`, or by a DID.
    ///
    /// # Errors
    /// When the text is neither, or the handle does not resolve.
    pub async fn account(&self, text: &str) -> Result<Did, HandleError> {
        let text = &*typed(text);
        if let Ok(did) = Did::try_from(text) {
            return Ok(did);
        }
        let handle = text.strip_prefix('@').unwrap_or(text).to_ascii_lowercase();
        if Handle::try_from(handle.as_str()).is_err() {
            return Err(HandleError::Malformed);
        }
        let did = {
            // Released before the DID is resolved, which may need a permit for the same domain.
            let _permit = self.enter_web_pool(&handle).await?;
            match self.by_dns(&handle).await {
                Ok(Some(did)) => did,
                by_dns => match self.by_host(&handle).await {
                    Ok(Some(did)) => did,
                    // A name that does not exist has no host, if DNS answers.
                    Ok(None) | Err(NetError::Dns(_)) if by_dns.is_ok() => return Err(HandleError::Unknown),
                    _ => return Err(HandleError::Unreachable),
                },
            }
        };
        if self.resolve(&did).await?.handle() != Some(&handle)
            && self.refresh(&did).await?.handle() != Some(&handle)
        {
            return Err(HandleError::Unclaimed(did));
        }
        Ok(did)
    }

    /// The DID of the `_atproto` TXT records; `None` when there are none, or they name different DIDs.
    async fn by_dns(&self, handle: &str) -> Result<Option<Did>, NetError> {
        let records = self.net().dns_txt(&format!("_atproto.{handle}")).await?;
        let mut dids = records.iter().filter_map(|text| text.strip_prefix("did="));
        let Some(did) = dids.next().and_then(|did| Did::try_from(did).ok()) else { return Ok(None) };
        Ok(dids.all(|other| other == did.as_str()).then_some(did))
    }

    /// The DID in the well-known document; `None` when the host has no such document.
    async fn by_host(&self, handle: &str) -> Result<Option<Did>, NetError> {
        let limits = Limits { max_bytes: MAX_BYTES, ..Limits::DOCUMENT };
        let url = format!("https://{handle}/.well-known/atproto-did");
        let fetched = match self.net().get(&url, limits).await {
            Ok(fetched) => fetched,
            // The host answered, or has an address that may not be connected to: it has no document.
            Err(
                NetError::TooLarge(_)
                | NetError::Redirects(_)
                | NetError::Malformed(_)
                | NetError::Refused(_),
            ) => {
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        match fetched.status {
            status if status.is_success() => {
                let text = std::str::from_utf8(&fetched.body).ok();
                Ok(text.and_then(|text| Did::try_from(text.trim()).ok()))
            }
            StatusCode::NOT_FOUND | StatusCode::GONE => Ok(None),
            // A limit of requests, or a wall before the host: neither says that there is no document.
            status => Err(NetError::Status(status)),
        }
    }
}
