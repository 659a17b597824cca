//! Resolves handles to DIDs (atproto handle resolution): by DNS, then by the host's well-known document. The DID's
//! document has to list the handle too.

use super::{IdentityError, Resolver};
use crate::atproto::{Did, Handle};
use crate::net::Limits;

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

impl Resolver {
    /// The account that a text names: a handle, with or without a leading `@`, or a DID.
    ///
    /// # Errors
    /// When the text is neither, or the handle does not resolve.
    pub async fn account(&self, text: &str) -> Result<Did, HandleError> {
        let text = text.trim();
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
