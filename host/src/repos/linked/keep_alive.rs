//! Sessions of grants are refreshed while nobody uses them, so that they are there when somebody does.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::LinkedRepos;
use crate::pds::RenewError;
use crate::store::linked_repos::{self, GrantRow};

/// The first round comes soon after the start: a server that is restarted often must not let its grants run out.
const FIRST: Duration = Duration::from_secs(5);

/// Between rounds.
const EVERY: Duration = Duration::from_mins(30);

/// A session that was refreshed within this is left alone.
const IDLE_SECONDS: i64 = 3600;

/// Refreshes what has been idle, until `stop`.
pub async fn run(grants: LinkedRepos, stop: CancellationToken) {
    let mut pause = FIRST;
    while stop.run_until_cancelled(tokio::time::sleep(pause)).await.is_some() {
        grants.round().await;
        pause = EVERY;
    }
}

impl LinkedRepos {
    /// One round over all grants that have been idle.
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
        let Parts { db, vault, clock, .. } = &*self.0;
        let renewed = match &grant.session_id {
            Some(session) => vault.keep_alive(session).await,
            None => Err(RenewError::Ended),
        };
        let noted = match renewed {
            Ok(()) => linked_repos::refreshed(db, &grant.id, clock.now()).await,
            // Only an end is one: a server that is away is asked again in the next round.
            Err(error @ (RenewError::Ended | RenewError::NoClientKey)) => {
                linked_repos::lost(db, &grant.id, grant.session_id.as_deref(), &error.to_string()).await
            }
            Err(error) => {
                tracing::info!(grant = grant.id, %error, "a linked repo's session could not be refreshed now");
                Ok(())
            }
        };
        if let Err(error) = noted {
            tracing::warn!(grant = grant.id, %error, "a linked repo's state could not be written");
        }
    }
}

use super::Parts;
