//! Sends the ids of revoked credentials to the hosts of the repos that these open (spaces-delta.md §3).
//!
//! They are sent at once, and not again after a failure: a credential lasts ten minutes, so its own end is the repair.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use serde_json::json;

use super::services::{ServiceCall, ServiceError};
use super::{MAX_REVOKED, Spaces};
use belvedere_protocol::atproto::Did;
use belvedere_protocol::spaces::SpaceUri;
use belvedere_protocol::spaces::access::ServiceRef;
use belvedere_storage::store::StoreError;
use belvedere_storage::store::spaces::credentials::Revoked;
use belvedere_storage::store::spaces::{SpaceId, space, writers};
use belvedere_web::net::Limits;

const METHOD: &str = "com.atproto.space.notifyCredentialRevoked";

/// The answer of a host says nothing.
const LIMITS: Limits = Limits { max_bytes: 64 << 10, total: Duration::from_secs(5) };

/// Hosts that are called at the same time.
const CONCURRENT: usize = 8;

/// Repos that are read at a time.
const PAGE: u32 = 500;

/// Time after which every credential that was revoked has expired by itself.
const MAX_TIME: Duration = Duration::from_mins(10);

impl Spaces {
    /// Sends the notices in the background.
    pub(super) fn announce_revoked(&self, revoked: Vec<Revoked>) {
        if revoked.is_empty() {
            return;
        }
        let mut by_space: BTreeMap<SpaceId, Vec<String>> = BTreeMap::new();
        for Revoked { space_id, jti } in revoked {
            by_space.entry(space_id).or_default().push(jti);
        }
        let spaces = self.clone();
        self.core().tasks.spawn(async move {
            let sending = async {
                for (space, jtis) in by_space {
                    if let Err(error) = spaces.send_revoked(space, &jtis).await {
                        tracing::warn!(%error, "the hosts of repos get no notice of revoked credentials");
                    }
                }
            };
            let drain = spaces.core().drain.clone();
            // After an early end the credentials expire by themselves.
            let _ = drain.run_until_cancelled(tokio::time::timeout(MAX_TIME, sending)).await;
        });
    }

    async fn send_revoked(&self, space: SpaceId, jtis: &[String]) -> Result<(), StoreError> {
        let db = &self.core().db;
        let Some(row) = space::by_id(db, space).await? else { return Ok(()) };
        let mut after = String::new();
        loop {
            let page = writers::elsewhere(db, space, &after, PAGE).await?;
            let Some(last) = page.last() else { return Ok(()) };
            after = last.to_string();
            let sends = page.iter().map(|author| self.send_to_host(&row.uri, author, jtis));
            stream::iter(sends).for_each_concurrent(CONCURRENT, |sent| sent).await;
        }
    }

    async fn send_to_host(&self, space: &SpaceUri, author: &Did, jtis: &[String]) {
        let send = async {
            let host = ServiceRef { did: author.clone(), fragment: None };
            let endpoint = self.0.services.endpoint(&host).await?;
            let call =
                ServiceCall { service: author.as_str(), endpoint: &endpoint, method: METHOD, limits: LIMITS };
            for jtis in jtis.chunks(MAX_REVOKED) {
                let body = json!({ "space": space.to_string(), "credentials": jtis });
                self.0.services.post(call, None, &body).await?;
            }
            Ok::<(), ServiceError>(())
        };
        if let Err(error) = send.await {
            tracing::info!(%author, %space, %error, "the host of a repo gets no notice of revoked credentials");
        }
    }
}
