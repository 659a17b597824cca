//! Where the blobs of a page of records can be fetched: the PDS of each author.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;

use crate::app::App;
use crate::atproto::Did;
use crate::records::render;
use crate::store::records::RecordRow;

/// How long an answer waits for DID documents that are not cached. After that, blobs have no `url`, and the
/// documents are there for the next request.
const PATIENCE: Duration = Duration::from_millis(1500);

/// PDS origins by DID. An author that can't be resolved is not among them.
#[derive(Debug, Default)]
pub(super) struct BlobHosts(HashMap<String, String>);

impl BlobHosts {
    pub(super) async fn of(app: &Arc<App>, rows: &[RecordRow]) -> Self {
        let authors = render::blob_authors(rows);
        if authors.is_empty() {
            return Self::default();
        }
        let lookups = authors.into_iter().filter_map(|author| {
            let did = Did::try_from(author).ok()?;
            let app = Arc::clone(app);
            // In tasks of their own, so that a slow look-up still fills the cache after we stopped waiting.
            let lookup = tokio::spawn(async move {
                let document = app.outbound.resolver.resolve(&did).await.ok()?;
                Some((did.as_str().to_owned(), document.pds()?.to_owned()))
            });
            Some(async move { tokio::time::timeout(PATIENCE, lookup).await.ok()?.ok()? })
        });
        Self(join_all(lookups).await.into_iter().flatten().collect())
    }

    pub(super) fn get(&self, did: &str) -> Option<&str> {
        self.0.get(did).map(String::as_str)
    }
}
