//! Keeps linked repos usable: refreshes the sessions of grants that have been idle, before their refresh tokens expire.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::LinkedRepos;
use crate::pds::RenewError;
use belvedere_storage::store::linked_repos::{self, GrantRow};

/// Delay of the first round. It is short, so that grants don't expire on a server that is restarted often.
const FIRST_DELAY: Duration = Duration::from_secs(5);

/// Time between rounds.
const INTERVAL: Duration = Duration::from_mins(30);

/// A session that was refreshed within this time is skipped.
const IDLE_SECONDS: i64 = 3600;

/// Refreshes idle sessions until `stop` is cancelled.
pub async fn run(grants: LinkedRepos, stop: CancellationToken) {
    let mut delay = FIRST_DELAY;
    while stop.run_until_cancelled(tokio::time::sleep(delay)).await.is_some() {
        grants.round().await;
        delay = INTERVAL;
    }
}

impl LinkedRepos {
    /// Refreshes the sessions of all grants that have been idle.
    pub async fn round(&self) {
        let before = self.0.clock.now().plus_seconds(-IDLE_SECONDS);
        match linked_repos::idle(&self.0.db, before).await {
            Err(error) => tracing::warn!(%error, "the linked repos can't be read"),
            Ok(idle) => {
                for grant in idle {
                    self.refresh(&grant).await;
                }
            }
        }
    }

    async fn refresh(&self, grant: &GrantRow) {
        let Inner { db, vault, clock, .. } = &*self.0;
        let renewed = match &grant.session_id {
            Some(session) => vault.keep_alive(session).await,
            None => Err(RenewError::Ended),
        };
        let stored = match renewed {
            Ok(()) => linked_repos::mark_refreshed(db, &grant.id, clock.now()).await,
            // Other errors may be temporary, so the next round tries again.
            Err(error @ (RenewError::Ended | RenewError::Moved | RenewError::NoClientKey)) => {
                linked_repos::mark_needs_reauth(
                    db,
                    &grant.id,
                    grant.session_id.as_deref(),
                    &error.to_string(),
                )
                .await
            }
            Err(error) => {
                tracing::info!(grant = grant.id, %error, "a linked repo's session could not be refreshed now");
                Ok(())
            }
        };
        if let Err(error) = stored {
            tracing::warn!(grant = grant.id, %error, "a linked repo's state could not be written");
        }
    }
}

use super::Inner;
