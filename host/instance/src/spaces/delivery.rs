//! Delivers notices to the services that are registered (spaces.md §11): of writes, and that a space is deleted.
//!
//! The database has the queue and the time of each service's next attempt. A host that begins an attempt moves that time on, so
//! that no other one begins it too; if the host ends before the attempt does, another begins one after the lease.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;
use url::Url;

use super::Spaces;
use super::services::{Proof, ServiceCall, ServiceError};
use belvedere_base::clock::Timestamp;
use belvedere_protocol::spaces::r10::json_bytes::bytes_json;
use belvedere_storage::store::StoreError;
use belvedere_storage::store::spaces::deliveries::{self, DueService, Notice};
use belvedere_storage::store::spaces::registrations::{self, RegistrationRow};
use belvedere_storage::store::spaces::space::{self, SpaceRow};
use belvedere_web::fair_share::{Bounds, FairPool, Full, Permit, Tenant};
use belvedere_web::net::Limits;

const WRITE: &str = "com.atproto.space.notifyWrite";
const DELETED: &str = "com.atproto.space.notifySpaceDeleted";

/// Attempts at the same time, each with one connection. A domain that does not answer holds an eighth of them.
const BOUNDS: Bounds =
    Bounds { permits: 32, per_tenant: 4, waiting: 0, waiting_per_tenant: 0, max_wait: Duration::ZERO };

/// A service has to answer in this time. Its answer says nothing, so that it may be short.
const LIMITS: Limits = Limits { max_bytes: 64 << 10, total: Duration::from_secs(5) };

/// Time after which an attempt sends no further notice, so that one that has many does not hold its permit.
const ATTEMPT_TIME: Duration = Duration::from_secs(10);

/// Time after which another host may begin an attempt: longer than an attempt with its last call takes.
const LEASE_SECONDS: i64 = 20;

const _: () = assert!(
    ATTEMPT_TIME.as_secs() + LIMITS.total.as_secs() < LEASE_SECONDS as u64,
    "no attempt begins during another one"
);

/// Time for which a service waits whose domain has no free permit. It moves behind the others, so that it does not hide them.
const DEFERRED_SECONDS: i64 = 5;

/// Services that are looked at in one step.
const MAX_DUE: u32 = 200;

/// Notices of one attempt.
const MAX_NOTICES: u32 = 200;

/// The longest pause after failures. The first is one second, and each further one twice the one before.
const MAX_PAUSE_SECONDS: i64 = 15 * 60;

/// The permits for attempts.
pub(super) fn pool() -> FairPool {
    FairPool::new("space_notices", BOUNDS)
}

impl Spaces {
    /// Begins an attempt for each service that is due, as long as there are permits.
    pub(super) async fn deliver(&self) -> Result<(), StoreError> {
        let core = self.core();
        let now = core.clock.now();
        for due in deliveries::due(&core.db, now, MAX_DUE).await? {
            match self.0.deliveries.try_enter(&tenant(&due.service)) {
                Ok(permit) => self.begin(due, permit).await?,
                Err(Full::Tenant) => {
                    deliveries::begin(&core.db, &due.service, now.plus_seconds(DEFERRED_SECONDS)).await?;
                }
                Err(Full::Pool | Full::Timeout) => break,
            }
        }
        Ok(())
    }

    async fn begin(&self, due: DueService, permit: Permit) -> Result<(), StoreError> {
        let core = self.core();
        let until = core.clock.now().plus_seconds(LEASE_SECONDS);
        if !deliveries::begin(&core.db, &due.service, until).await? {
            return Ok(());
        }
        let spaces = self.clone();
        self.spawn_attempt(permit, async move { spaces.attempt(&due, until).await });
        Ok(())
    }

    /// Sends what waits for a service, until one call fails.
    async fn attempt(&self, due: &DueService, until: Timestamp) -> Result<(), StoreError> {
        let (db, row) = (&self.core().db, &due.service);
        let Some(space) = space::by_id(db, row.space_id).await? else { return Ok(()) };
        let sent = match self.endpoint(&space, row).await {
            Err(error) => Err(error),
            Ok(endpoint) if due.is_space_deleted => {
                let body = json!({ "space": space.uri.to_string() });
                let sent = self.send(row, &endpoint, DELETED, Proof::Instance, body).await;
                if sent.is_ok() {
                    registrations::unregister(db, space.id, &row.service).await?;
                }
                sent
            }
            Ok(endpoint) => self.send_waiting(&space, row, &endpoint).await?,
        };
        let now = self.core().clock.now();
        let next = match &sent {
            Ok(()) => now,
            Err(error) => {
                count("failed", 1);
                tracing::info!(service = row.service, space = %space.uri, %error, "a notice is not delivered");
                now.plus_seconds(pause_seconds(row.failures))
            }
        };
        deliveries::end(db, space.id, &row.service, until, sent.is_err(), next).await
    }

    /// The origin of a service's server. That of an authority is not stored.
    async fn endpoint(&self, space: &SpaceRow, row: &RegistrationRow) -> Result<String, ServiceError> {
        if space.is_hosted {
            Ok(row.endpoint.clone())
        } else {
            self.0.services.space_host(&space.uri.did).await
        }
    }

    async fn send_waiting(
        &self,
        space: &SpaceRow,
        row: &RegistrationRow,
        endpoint: &str,
    ) -> Result<Result<(), ServiceError>, StoreError> {
        let (db, began) = (&self.core().db, Instant::now());
        for notice in deliveries::waiting(db, space.id, &row.service, MAX_NOTICES).await? {
            if began.elapsed() > ATTEMPT_TIME {
                break;
            }
            // An authority accepts notices in the name of the author. Without a session of the author it has to accept this
            // instance, or refuses.
            let token = if space.is_hosted {
                None
            } else {
                self.author_token(&notice.author, &space.uri.did, WRITE).await?
            };
            let proof = token.as_deref().map_or(Proof::Instance, Proof::Token);
            let body = self.write_json(space, &notice);
            let sent = self.send(row, endpoint, WRITE, proof, body).await;
            match sent {
                Ok(()) => count("delivered", 1),
                // The author is not a writer there, or the space is gone: another attempt ends in the same way.
                Err(ServiceError::Refused { status: 400 | 403 | 404, .. }) if !space.is_hosted => {
                    count("refused", 1);
                }
                Err(error) => return Ok(Err(error)),
            }
            deliveries::delivered(db, space.id, &row.service, &notice).await?;
        }
        Ok(Ok(()))
    }

    async fn send(
        &self,
        row: &RegistrationRow,
        endpoint: &str,
        method: &str,
        proof: Proof<'_>,
        body: Value,
    ) -> Result<(), ServiceError> {
        let call = ServiceCall { service: &row.service, endpoint, method, limits: LIMITS };
        self.0.services.post(call, proof, &body).await.map(drop)
    }

    /// The body of a notice, with the rev by its two names.
    fn write_json(&self, space: &SpaceRow, notice: &Notice) -> Value {
        let rev = notice.rev.to_string();
        let mut body = json!({
            "space": space.uri.to_string(), "repo": notice.author.as_str(), "rev": rev, "repoRev": rev,
            "hash": bytes_json(&notice.hash),
        });
        let host = self.named_host(notice.host.clone()).map(|host| host.to_string());
        let revs = [("spaceRev", notice.space_rev), ("prevSpaceRev", notice.prev_space_rev)];
        let revs = revs.map(|(name, rev)| (name, rev.map(|rev| rev.to_string())));
        for (name, value) in revs.into_iter().chain([("host", host)]) {
            if let Some(value) = value {
                body[name] = value.into();
            }
        }
        body
    }
}

/// Counts notices by what became of them.
pub(super) fn count(result: &'static str, notices: u64) {
    metrics::counter!("belvedere_space_notices_total", "result" => result).increment(notices);
}

/// The party whose share of the permits an attempt takes.
fn tenant(row: &RegistrationRow) -> Tenant {
    let host = Url::parse(&row.endpoint).ok();
    host.as_ref().and_then(Url::host_str).map_or_else(|| Tenant::of_did(&row.service), Tenant::of_host)
}

/// The pause after an attempt that failed. `failures`: those before it.
pub(super) fn pause_seconds(failures: i64) -> i64 {
    (1 << failures.clamp(0, 10)).min(MAX_PAUSE_SECONDS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_up_to_a_limit() {
        let pauses = [0, 1, 2, 9, 10, 1_000].map(pause_seconds);
        assert_eq!(pauses, [1, 2, 4, 512, MAX_PAUSE_SECONDS, MAX_PAUSE_SECONDS]);
    }
}
