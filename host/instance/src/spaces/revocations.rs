//! Sends the ids of revoked credentials to the hosts of the repos that these open (spaces-delta.md §3).
//!
//! They are sent at once, and not again after a failure: a credential lasts ten minutes, so its own end is the repair.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use serde_json::json;

use super::services::{Proof, ServiceCall, ServiceError};
use super::{MAX_REVOKED, Spaces};
use belvedere_protocol::spaces::SpaceUri;
use belvedere_protocol::spaces::access::ServiceRef;
use belvedere_protocol::spaces::r10::token::HOST;
use belvedere_storage::store::StoreError;
use belvedere_storage::store::spaces::credentials::Revoked;
use belvedere_storage::store::spaces::repos::RepoHost;
use belvedere_storage::store::spaces::writers::{self, WriterRow};
use belvedere_storage::store::spaces::{SpaceId, space};
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
            after = last.author.to_string();
            let hosts: BTreeSet<ServiceRef> = page.into_iter().filter_map(host_of_repo).collect();
            let sends = hosts.iter().map(|host| self.send_to_host(&row.uri, host, jtis));
            stream::iter(sends).for_each_concurrent(CONCURRENT, |sent| sent).await;
        }
    }

    async fn send_to_host(&self, space: &SpaceUri, host: &ServiceRef, jtis: &[String]) {
        let send = async {
            let endpoint = self.0.services.endpoint(host).await?;
            let service = host.to_string();
            let call = ServiceCall { service: &service, endpoint: &endpoint, method: METHOD, limits: LIMITS };
            for jtis in jtis.chunks(MAX_REVOKED) {
                let body = json!({ "space": space.to_string(), "credentials": jtis });
                self.0.services.post(call, Proof::Instance, &body).await?;
            }
            Ok::<(), ServiceError>(())
        };
        if let Err(error) = send.await {
            tracing::info!(%host, %space, %error, "the host of a repo gets no notice of revoked credentials");
        }
    }
}

/// The host of a repo, if it is another one: the PDS of the author unless it has named itself.
fn host_of_repo(writer: WriterRow) -> Option<ServiceRef> {
    match writer.host {
        RepoHost::Here => None,
        RepoHost::Named(did) => {
            Some(ServiceRef { did, fragment: Some(HOST.trim_start_matches('#').to_owned()) })
        }
        RepoHost::Unnamed => Some(ServiceRef { did: writer.author, fragment: None }),
    }
}
