//! Work that one host at a time does: refreshing the lexicons of the network, validating records again, reading their
//! references again, lifting expired moderation, checking alerts, and deleting old changes of records.

use std::sync::Arc;

use belvedere_instance::events::Event;
use belvedere_instance::indexing::rereading;
use belvedere_instance::lexicons::revalidation::{self, InvalidationReport};
use belvedere_instance::moderation::Moderator;
use belvedere_storage::store::lease::Lease;

use super::{App, moderation};

impl App {
    /// Does the work while this host has its lease, until the server drains.
    pub(super) async fn upkeep(self: Arc<Self>) {
        let mut lease = Lease::of_upkeep(&self.db);
        let drain = self.lifecycle.drain.clone();
        drain.run_until_cancelled(Box::pin(self.upkeep_with(&mut lease))).await;
        lease.release().await;
    }

    async fn upkeep_with(self: &Arc<Self>, lease: &mut Lease) {
        let drain = &self.lifecycle.drain;
        while let Some(term) = lease.acquire("upkeep", &self.clock, drain).await {
            // A host that hung and wakes up judges no records any more.
            let db = lease.fenced(&self.db, term);
            let report = |report: InvalidationReport| {
                let InvalidationReport { collection, checked, lost, reason } = report;
                let nsid = collection.to_string();
                self.events.record(Event::LexiconInvalidatesRecords {
                    nsid,
                    checked,
                    invalidated: lost,
                    reason,
                });
            };
            let moderator = Moderator::new(db.clone(), self.clock.clone(), self.events.clone());
            let work = async {
                tokio::join!(
                    self.network_lexicons.refresh_periodically(self),
                    rereading::run(&db),
                    moderation::lift_expired_periodically(&moderator),
                    self.alerts.check_periodically(&db),
                    self.subscriptions.prune_periodically(&db, &self.clock),
                    revalidation::run(db.clone(), Arc::clone(&self.registry), self.clock.clone(), &report),
                );
            };
            tokio::select! {
                () = lease.lost() => tracing::warn!("another host can take over the upkeep"),
                () = work => {}
            }
        }
    }
}
