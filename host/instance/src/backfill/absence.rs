//! Asks a PDS for records that its list lacks.

use futures_util::future::BoxFuture;
use futures_util::stream::{self, StreamExt as _};

use super::failure::Failure;
use super::request::Server;
use belvedere_protocol::atproto::{Did, Nsid, RecordKey};

/// Records that are requested from a PDS at the same time for one repo.
const CONCURRENT_REQUESTS: usize = 4;

/// The number of some records that the PDS denies, from the first one on, and whether it has the next one. `false`:
/// there is no next one. A failure leaves the denials before it true.
pub(super) async fn denied(
    server: &Server<'_>,
    did: &Did,
    collection: &Nsid,
    keys: Vec<RecordKey>,
) -> (usize, Result<bool, Failure>) {
    let mut requests: Vec<BoxFuture<'_, Result<bool, Failure>>> = Vec::new();
    for rkey in keys {
        requests.push(Box::pin(async move { server.has_record(did, collection, &rkey).await }));
    }
    let mut answers = stream::iter(requests).buffered(CONCURRENT_REQUESTS);
    let mut denied = 0;
    while let Some(has) = answers.next().await {
        if !matches!(has, Ok(false)) {
            return (denied, has);
        }
        denied += 1;
    }
    (denied, Ok(false))
}
