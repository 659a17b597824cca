//! An NSID in a request.

use belvedere_protocol::atproto::Nsid;
use belvedere_web::http::Error;

/// Parses the NSID in the field or parameter `field`.
///
/// # Errors
/// 400 when it is none.
pub(super) fn parse(field: &str, text: &str) -> Result<Nsid, Error> {
    Nsid::try_from(text)
        .map_err(|_| Error::bad_request(format!("{field} is not an NSID, such as com.example.note")))
}
