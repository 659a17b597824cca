//! `/oauth/sessions`

pub mod create;
pub mod delete;
pub mod devices;
pub mod get;

use std::borrow::Cow;

use crate::atproto::Did;
use crate::http::{Error, Request};

/// The DID in the path. Clients put it there as it is, and then `%3A` in a did:web is a part of it; or percent-encoded.
fn did(request: &Request) -> Result<Did, Error> {
    let raw = request.uri().path().split('/').nth(3).unwrap_or_default();
    let decoded = Cow::from(request.param("did"));
    Did::try_from(raw)
        .or_else(|_| Did::try_from(&*decoded))
        .map_err(|_| Error::bad_request("the path does not name a DID"))
}
