//! Periodic work, and the tasks that follow identity events, until the server drains.

use std::sync::Arc;

use super::App;
use super::changed_identities::ChangedIdentities;
use crate::access::rate_limit;
use belvedere_instance::backfill;
use belvedere_instance::jobs::retention;
use belvedere_instance::pds::{revocation, sweep};
use belvedere_instance::people::People;
use belvedere_instance::repos::linked;
use belvedere_storage::store::fields::advice;

/// The state of the tasks that follow identity events.
pub(super) struct Followers {
    pub(super) identities: ChangedIdentities,
    pub(super) may_have_moved: ChangedIdentities,
    pub(super) renamed: ChangedIdentities,
    people: People,
}

impl Followers {
    pub(super) fn new(people: People) -> Self {
        let new = ChangedIdentities::default;
        Self { identities: new(), may_have_moved: new(), renamed: new(), people }
    }
}

impl App {
    pub(super) fn start_followers(&self, followers: Followers) {
        let Followers { identities, may_have_moved, renamed, people } = followers;
        let drain = &self.lifecycle.drain;
        self.tasks.spawn(identities.announce(self.db.clone(), drain.clone()));
        self.tasks.spawn(may_have_moved.check_sessions(self.sessions.vault.clone(), drain.clone()));
        self.tasks.spawn(renamed.refresh_handles(people.clone(), drain.clone()));
        self.tasks.spawn(drain.clone().run_until_cancelled_owned(people.look_up_unknown()));
    }

    /// Starts periodic work, which runs until the server drains.
    pub(super) fn start_sweeps(self: &Arc<Self>) {
        let (db, clock, drain) = (&self.db, &self.clock, &self.lifecycle.drain);
        let periods = self.retention.subscribe();
        self.tasks.spawn(retention::run(db.clone(), clock.clone(), periods, drain.clone()));
        let vault = self.sessions.vault.clone();
        self.tasks.spawn(sweep::run(db.clone(), vault.clone(), clock.clone(), drain.clone()));
        self.tasks.spawn(revocation::run(vault, drain.clone()));
        self.tasks.spawn(linked::keep_alive(self.linked_repos.clone(), drain.clone()));
        let limit = self.config.database.field_index_limit;
        self.tasks.spawn(advice::run(db.clone(), clock.clone(), limit, drain.clone()));
        self.tasks.spawn(Arc::clone(self).keep_history());
        self.tasks.spawn(Arc::clone(self).compare_rollouts());
        self.tasks.spawn(Arc::clone(self).store_recordings());
        self.tasks.spawn(Arc::clone(self).follow_changes());
        let (watched, ending) = (db.clone(), drain.clone());
        self.tasks.spawn(async move {
            tokio::join!(watched.watch_replicas(ending.clone()), watched.watch_nodes(ending));
        });
        let (app, ending) = (Arc::clone(self), drain.clone());
        self.tasks.spawn(async move {
            ending.run_until_cancelled(app.network_lexicons.follow_stream(&app)).await;
        });
        self.tasks.spawn(Arc::clone(self).upkeep());
        let app = Arc::clone(self);
        let days = move || app.settings.backfill().retention_days;
        self.tasks.spawn(backfill::retention::run(db.clone(), clock.clone(), days, drain.clone()));
        let (app, drain) = (Arc::clone(self), drain.clone());
        self.tasks.spawn(async move {
            let pause = || tokio::time::sleep(rate_limit::SWEEP_EVERY);
            while drain.run_until_cancelled(pause()).await.is_some() {
                app.access.buckets.sweep(app.clock.now());
                app.access.sender_buckets.sweep(app.clock.now());
                app.scripting.runtime.services.log.report_dropped(app.clock.now());
                app.plugins.calls.report_dropped_lines(app.clock.now());
            }
        });
    }
}
