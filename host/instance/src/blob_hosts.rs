//! The servers with the blobs of a page of records: the PDS of each author.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;

use crate::identity::Resolver;
use belvedere_protocol::atproto::Did;
use belvedere_storage::render;
use belvedere_storage::store::records::RecordRow;

/// Maximum wait of an answer for DID documents that are not cached. After that, blobs have the URL of the author's last
/// known PDS, or none if the author is new (docs/adr/0040); the documents are there for the next request.
const MAX_WAIT: Duration = Duration::from_millis(1500);

/// PDS origins by DID. An author that can't be resolved is not among them.
#[derive(Debug, Default)]
pub struct BlobHosts(HashMap<String, Arc<str>>);

impl BlobHosts {
    /// Those of the authors whose records have blobs.
    pub async fn of(resolver: &Resolver, rows: &[RecordRow]) -> Self {
        Self::of_accounts(resolver, render::blob_authors(rows)).await
    }

    pub async fn of_accounts(resolver: &Resolver, dids: Vec<&str>) -> Self {
        let lookups = dids.into_iter().map(async |account| {
            let did = Did::try_from(account).ok()?;
            Some((account.to_owned(), resolver.pds_within(&did, MAX_WAIT).await?))
        });
        Self(join_all(lookups).await.into_iter().flatten().collect())
    }

    /// The origin of an account's PDS, if it is known.
    pub fn get(&self, did: &str) -> Option<&str> {
        self.0.get(did).map(|pds| &**pds)
    }
}

#[cfg(test)]
mod tests {
    use belvedere_standins::upstream::{Upstream, respond};
    use serde_json::json;
    use std::sync::atomic::{AtomicU16, Ordering};

    use super::*;
    use belvedere_base::clock::{Clock, Timestamp};
    use belvedere_web::net::testing::loopback;

    const GENEROUS: Duration = Duration::from_mins(1);

    #[tokio::test]
    async fn a_known_author_has_a_host_while_the_directory_fails() {
        let status = Arc::new(AtomicU16::new(200));
        let answered = Arc::clone(&status);
        let plc = Upstream::start(move |request| {
            let did = request.path_and_query.trim_start_matches('/');
            let document = json!({ "id": did, "service": [{ "id": "#atproto_pds",
                "type": "AtprotoPersonalDataServer", "serviceEndpoint": "https://pds.example" }] });
            respond(answered.load(Ordering::SeqCst), "application/json", document.to_string())
        })
        .await;
        let resolver = Resolver::new(loopback(), plc.url().parse().unwrap(), Clock::fixed(Timestamp(0)));
        let (known, new) = (Did::try_from("did:plc:known").unwrap(), Did::try_from("did:plc:new").unwrap());
        let host = async |did: &Did, max_wait| resolver.pds_within(did, max_wait).await;
        assert_eq!(host(&known, GENEROUS).await.as_deref(), Some("https://pds.example"));

        // The directory fails, or is too slow.
        status.store(503, Ordering::SeqCst);
        resolver.expire(&known).await;
        assert_eq!(host(&known, GENEROUS).await.as_deref(), Some("https://pds.example"));
        assert_eq!(host(&new, GENEROUS).await, None, "its PDS was never known");
        resolver.expire(&known).await;
        assert_eq!(host(&known, Duration::ZERO).await.as_deref(), Some("https://pds.example"));

        // Its last PDS is no longer its PDS: after an identity event, and when the account is gone.
        resolver.invalidate(&known).await;
        assert_eq!(host(&known, GENEROUS).await, None);
        status.store(200, Ordering::SeqCst);
        resolver.invalidate(&known).await;
        assert!(host(&known, GENEROUS).await.is_some());
        status.store(404, Ordering::SeqCst);
        resolver.expire(&known).await;
        assert_eq!(host(&known, GENEROUS).await, None);
        assert_eq!(host(&known, Duration::ZERO).await, None);
    }
}
