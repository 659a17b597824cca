//! Resolves handles to DIDs (atproto handle resolution): by DNS, then by the host's well-known document. The DID's
//! document has to list the handle too.

use std::time::Duration;

use http::StatusCode;
use moka::future::Cache;

use super::{IdentityError, Resolver};
use crate::atproto::{Did, Handle, HandleUri, InvalidRecordUri, RecordUri, typed};
use crate::http::Error;
use crate::net::Limits;

/// How long the account of a handle is cached for reads of records. Its document is checked each time.
const OWNER_TIME: Duration = Duration::from_mins(5);

/// Cached handles, of some 100 bytes each.
const OWNERS: u64 = 50_000;

/// Bytes of the well-known document, which contains only a DID.
const MAX_BYTES: usize = 4 << 10;

/// Why a handle could not be resolved to an account.
#[derive(Clone, Debug, thiserror::Error)]
pub enum HandleError {
    #[error("it is neither a handle nor a DID")]
    Malformed,
    #[error("the handle could not be resolved")]
    Unknown,
    #[error("the handle resolves to {0}, whose DID document does not list it")]
    Unclaimed(Did),
    #[error(transparent)]
    Identity(#[from] IdentityError),
}

/// Why a text does not name a record.
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
        matches!(self, Self::Handle(HandleError::Identity(error)) if error.is_temporary())
    }
}

impl From<RecordUriError> for Error {
    /// 400 with the reason, or 502 when the handle can't be resolved now.
    fn from(error: RecordUriError) -> Self {
        let status = if error.is_temporary() { StatusCode::BAD_GATEWAY } else { StatusCode::BAD_REQUEST };
        Self::new(status, error.to_string())
    }
}

/// The accounts of handles in the URIs of records.
pub(super) fn owners() -> Cache<String, Did> {
    Cache::builder().max_capacity(OWNERS).time_to_live(OWNER_TIME).build()
}

impl Resolver {
    /// The record that an AT URI names, whose authority may be a handle.
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

    async fn owner(&self, handle: &str) -> Result<Did, HandleError> {
        let handle = handle.to_ascii_lowercase();
        if let Some(did) = self.owners.get(&handle).await
            && self.resolve(&did).await?.handle() == Some(&handle)
        {
            return Ok(did);
        }
        let did = self.account(&handle).await?;
        self.owners.insert(handle, did.clone()).await;
        Ok(did)
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
            // Released before the DID is resolved, which may need a place for the same domain.
            let _place = self.enter_web_pool(&handle).await.map_err(IdentityError::Busy)?;
            match self.by_dns(&handle).await {
                Some(did) => did,
                None => self.by_host(&handle).await.ok_or(HandleError::Unknown)?,
            }
        };
        if self.resolve(&did).await?.handle() != Some(&handle)
            && self.refresh(&did).await?.handle() != Some(&handle)
        {
            return Err(HandleError::Unclaimed(did));
        }
        Ok(did)
    }

    /// The DID of the `_atproto` TXT records; `None` when they name different DIDs.
    async fn by_dns(&self, handle: &str) -> Option<Did> {
        let records = self.net().dns_txt(&format!("_atproto.{handle}")).await.ok()?;
        let mut dids = records.iter().filter_map(|text| text.strip_prefix("did="));
        let did = Did::try_from(dids.next()?).ok()?;
        dids.all(|other| other == did.as_str()).then_some(did)
    }

    async fn by_host(&self, handle: &str) -> Option<Did> {
        let limits = Limits { max_bytes: MAX_BYTES, ..Limits::DOCUMENT };
        let url = format!("https://{handle}/.well-known/atproto-did");
        let fetched =
            self.net().get(&url, limits).await.ok().filter(|fetched| fetched.status.is_success())?;
        Did::try_from(std::str::from_utf8(&fetched.body).ok()?.trim()).ok()
    }
}
