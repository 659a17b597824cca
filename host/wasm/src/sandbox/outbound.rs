//! Requests of runs and calls to other servers.

use std::time::Duration;

use belvedere_web::fair_share::{Bounds, FairPool};
use http::header::{
    CONNECTION, CONTENT_LENGTH, HOST, HeaderMap, HeaderName, HeaderValue, TE, TRAILER, TRANSFER_ENCODING,
    UPGRADE,
};

/// The longest wait for a permit. The waiting run occupies an instance meanwhile.
const PERMIT_WAIT: Duration = Duration::from_secs(5);

/// Headers that the client writes itself: with a program's headers about the message's framing, it could smuggle a request.
const RESERVED: [HeaderName; 7] = [HOST, CONTENT_LENGTH, TRANSFER_ENCODING, CONNECTION, UPGRADE, TE, TRAILER];

/// A pool of `permits`, half of them for one tenant, for runs in `instances` that wait for other servers. `name` is its label in
/// the metrics.
///
/// There is no bound per called server: a slow server already delays only the tenant that calls it, and with such a
/// bound one tenant could keep all others from a server.
pub fn outbound_permits(name: &'static str, permits: usize, instances: usize) -> FairPool {
    // A run waits for one place at a time, so no more wait than there are instances.
    FairPool::new(name, Bounds::half_per_tenant(permits, instances.max(1), PERMIT_WAIT))
}

/// The headers of a program's request.
///
/// # Errors
/// The reason why one of them can't be sent, for the program's author. The client writes some headers itself; `is_reserved`
/// names more.
pub fn outbound_headers<V: AsRef<[u8]>>(
    given: impl ExactSizeIterator<Item = (String, V)>,
    is_reserved: impl Fn(&HeaderName) -> bool,
) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::with_capacity(given.len());
    for (name, value) in given {
        let parsed = HeaderName::from_bytes(name.as_bytes());
        let parsed = parsed.map_err(|_| format!("{name:?} is not a header name"))?;
        if RESERVED.contains(&parsed) || is_reserved(&parsed) {
            return Err(format!("the header {parsed} can't be set"));
        }
        let value = HeaderValue::from_bytes(value.as_ref());
        headers.append(parsed, value.map_err(|_| format!("header {name}: not a header value"))?);
    }
    Ok(headers)
}
