//! Refreshes lexicons: after events of the stream on the host that follows it, and at the start and daily on the host
//! that has the lease of upkeep.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;

use crate::events::Event;
use belvedere_protocol::atproto::Nsid;
use belvedere_storage::store::lexicons::NETWORK;
use belvedere_storage::store::{StoreError, lexicons};

use super::NetworkLexicons;
use super::refresh::{Kept, Outcome};

/// Time between two refreshes of all lexicons: the stream delivers most changes, but not those of DNS.
const PERIOD: Duration = Duration::from_hours(24);

/// Up to this much is added to each period, so that servers that started together do not stay together.
const PERIOD_JITTER: Duration = Duration::from_hours(1);

/// The first refresh waits up to this long, so that it does not slow the start.
const START_JITTER: Duration = Duration::from_secs(2);

/// A lexicon that was fetched less than this before a refresh of all is left out.
const FRESH_SECONDS: i64 = 60;

/// Pause between two refreshes, which spares name servers and PDSs. A publisher who changes a lexicon again and again
/// causes no more than this.
const PAUSE: Duration = Duration::from_millis(200);

/// Makes all hosts reload the lexicons.
pub trait Reload: Send + Sync {
    /// Called after the lexicons in the store changed.
    fn lexicons_changed(&self) -> BoxFuture<'_, ()>;
}

impl<R: Reload> Reload for Arc<R> {
    fn lexicons_changed(&self) -> BoxFuture<'_, ()> {
        R::lexicons_changed(self)
    }
}

/// The last recorded reason for each lexicon that can't be refreshed, so that it is not recorded again and again.
type Reported = HashMap<Nsid, String>;

impl NetworkLexicons {
    /// Refreshes what the stream says was changed. Does not return.
    pub async fn follow_stream(&self, reload: &impl Reload) {
        let mut reported = Reported::default();
        loop {
            self.noticed.added.notified().await;
            for (nsid, was_deleted) in self.take_noticed() {
                self.refresh_and_report(&nsid, was_deleted, reload, &mut reported).await;
            }
        }
    }

    /// Refreshes all lexicons soon and then daily. For the host that has the lease of upkeep. Does not return.
    pub async fn refresh_periodically(&self, reload: &impl Reload) {
        tokio::time::sleep(self.up_to(START_JITTER)).await;
        let mut reported = Reported::default();
        loop {
            match self.due().await {
                Ok(due) => {
                    for nsid in due {
                        self.refresh_and_report(&nsid, false, reload, &mut reported).await;
                    }
                }
                Err(error) => tracing::warn!(%error, "can't read the lexicons to refresh"),
            }
            tokio::time::sleep(PERIOD + self.up_to(PERIOD_JITTER)).await;
        }
    }

    /// The lexicons to refresh: all but those that were fetched a moment ago, since the server's start.
    async fn due(&self) -> Result<Vec<Nsid>, StoreError> {
        let fresh = self.started_at.max(self.core.clock.now().plus_seconds(-FRESH_SECONDS));
        let rows = lexicons::list(&self.core.db).await?;
        let due = rows.iter().filter(|row| row.source == NETWORK && row.last_fetched_at < Some(fresh));
        Ok(due.filter_map(|row| Nsid::try_from(row.id.as_str()).ok()).collect())
    }

    async fn refresh_and_report(
        &self,
        nsid: &Nsid,
        was_deleted: bool,
        reload: &impl Reload,
        reported: &mut Reported,
    ) {
        match self.refresh(nsid, was_deleted).await {
            Ok(Outcome::Changed) => {
                reported.remove(nsid);
                reload.lexicons_changed().await;
            }
            Ok(Outcome::Unchanged) => drop(reported.remove(nsid)),
            Ok(Outcome::Kept(why)) => self.report(nsid, why, reported),
            Err(error) => tracing::warn!(%error, %nsid, "a lexicon of the network could not be refreshed"),
        }
        tokio::time::sleep(PAUSE).await;
    }

    /// Records why the last document stays, unless that is recorded already.
    fn report(&self, nsid: &Nsid, why: Kept, reported: &mut Reported) {
        let (Kept::Failed(reason) | Kept::Refused(_, reason)) = &why;
        if reported.get(nsid) == Some(reason) {
            return;
        }
        tracing::warn!(%nsid, reason, "the last document of a lexicon of the network stays in force");
        reported.insert(nsid.clone(), reason.clone());
        let (actor, nsid) = (None, nsid.clone());
        self.core.events.record(match why {
            Kept::Failed(reason) => Event::NetworkLexiconRefreshFailed { actor, nsid, reason },
            Kept::Refused(authority, reason) => {
                Event::NetworkLexiconChangeRefused { actor, nsid, authority, reason }
            }
        });
    }

    fn up_to(&self, most: Duration) -> Duration {
        let micros = u64::try_from(most.as_micros()).unwrap_or(u64::MAX).max(1);
        Duration::from_micros(self.core.random.u64() % micros)
    }
}
