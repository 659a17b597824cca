//! `/oauth/sessions`

pub mod create;
pub mod delete;
pub mod devices;
pub mod get;

use crate::atproto::Did;
use crate::http::{Error, Request};

/// The DID in the path. Clients put it there as it is, and then `%3A` in a did:web is a part of it; or percent-encoded,
/// and then its percent sign is `%25`, which no DID has of its own.
fn did(request: &Request) -> Result<Did, Error> {
    let raw = request.uri().path().split('/').nth(3).unwrap_or_default();
    let as_it_is = !raw.contains("%25") && Did::try_from(raw).is_ok();
    Did::try_from(if as_it_is { raw } else { request.param("did") })
        .map_err(|_| Error::bad_request("the path does not name a DID"))
}
