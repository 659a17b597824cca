//! The task that reads new changes for all connections of this host. It runs only while there are connections.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use belvedere_base::clock::Clock;
use belvedere_storage::store::record_changes::{self, Window};
use belvedere_storage::store::{Db, StoreError};

use super::Wanted;
use super::hub::Hub;
use super::places::AllPlaces;
use super::queue::{self, Receiver};
use super::script_feed::{ScriptFeed, ScriptFeeds};
use super::scripts::MessageScripts;
use super::stream::ChangeStream;
use crate::config;
use crate::core::Core;
use crate::lexicons::Registry;
use belvedere_protocol::atproto::Nsid;
use belvedere_web::fair_share::{Full, Tenant};

/// Time after which a failed read is tried again.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Interval at which connections that are gone are forgotten: all are looked at.
const TIDY_EVERY: Duration = Duration::from_secs(1);

/// Interval at which old changes are deleted.
const PRUNE_EVERY: Duration = Duration::from_mins(1);

/// Changes that one statement deletes: few enough not to delay requests that write.
const PRUNED_AT_ONCE: u32 = 1_000;

/// The subscriptions of this host. Cheap to clone.
#[derive(Clone)]
pub struct Subscriptions(Arc<Inner>);

struct Inner {
    db: Db,
    registry: Arc<Registry>,
    places: AllPlaces,
    config: config::Subscriptions,
    changed: Notify,
    hub: Mutex<Hub>,
    scripts: Arc<dyn MessageScripts>,
    script_feeds: ScriptFeeds,
    clock: Clock,
    tasks: TaskTracker,
    drain: CancellationToken,
}

impl Subscriptions {
    /// `drain` ends the task; `tasks` are waited for after that.
    pub fn new(
        core: &Core,
        config: config::Subscriptions,
        scripts: Arc<dyn MessageScripts>,
        (tasks, drain): (TaskTracker, CancellationToken),
    ) -> Self {
        Self(Arc::new(Inner {
            db: core.db.clone(),
            registry: Arc::clone(&core.registry),
            places: AllPlaces::new(&config),
            config,
            changed: Notify::new(),
            hub: Mutex::default(),
            scripts,
            script_feeds: ScriptFeeds::default(),
            clock: core.clock.clone(),
            tasks,
            drain,
        }))
    }

    /// The places of connections.
    pub fn places(&self) -> &AllPlaces {
        &self.0.places
    }

    /// The messages from a cursor on: those after the message with this number, or only new ones.
    ///
    /// # Errors
    /// When the subscription has a script, and it would run for too many different parameters: of the tenant, or in total.
    pub fn stream(&self, wanted: Wanted, cursor: Option<i64>, tenant: &Tenant) -> Result<ChangeStream, Full> {
        let is_scripted = self.is_scripted(&wanted.selection.nsid);
        let feed = if is_scripted { Some(self.0.script_feeds.get(&wanted.selection, tenant)?) } else { None };
        Ok(ChangeStream::new(self.clone(), wanted, feed, cursor))
    }

    /// Whether a script makes the messages of a subscription.
    pub(super) fn is_scripted(&self, nsid: &Nsid) -> bool {
        self.0.scripts.is_bound(nsid.as_str())
    }

    pub(super) fn scripts(&self) -> &dyn MessageScripts {
        &*self.0.scripts
    }

    /// Looks for changes now, because another host or this one has made some.
    pub fn wake(&self) {
        self.0.changed.notify_one();
    }

    /// Lets the database note the changes of the collections that subscriptions show.
    ///
    /// # Errors
    /// When the database fails. Then it is tried again with the next reload of lexicons.
    pub async fn follow(&self) -> Result<(), StoreError> {
        record_changes::follow(&self.0.db, record_changes::watched_since(self.0.clock.now())).await
    }

    /// A signal after changes of these collections, those of other hosts included, from now on.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn changes_of(&self, collections: &BTreeSet<Nsid>) -> Result<Arc<Notify>, StoreError> {
        let changed = Arc::new(Notify::new());
        if collections.is_empty() {
            return Ok(changed);
        }
        record_changes::watch(&self.0.db, collections.iter(), self.0.clock.now()).await?;
        self.follow().await?;
        let last = record_changes::last_seq(&self.0.db).await?;
        self.begin(last, |hub| hub.signal(collections, &changed));
        Ok(changed)
    }

    /// Stores that a live query still reads these collections.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn renew(&self, collections: &BTreeSet<Nsid>) -> Result<(), StoreError> {
        record_changes::watch(&self.0.db, collections.iter(), self.0.clock.now()).await
    }

    /// Deletes changes outside of the window every minute. One host at a time does this.
    pub async fn prune_periodically(&self, db: &Db, clock: &Clock) {
        loop {
            tokio::time::sleep(PRUNE_EVERY).await;
            let since = clock.now().plus_seconds(-i64::from(self.0.config.window_seconds));
            let max_bytes = i64::from(self.0.config.window_megabytes) << 20;
            let forgotten = async {
                record_changes::forget(db, clock.now()).await?;
                self.follow().await
            };
            if let Err(error) = forgotten.await {
                tracing::warn!(%error, "triggers for live queries can't be dropped; it is tried again");
            }
            loop {
                match record_changes::prune(db, Window { since, max_bytes }, PRUNED_AT_ONCE).await {
                    Ok(deleted) if deleted == u64::from(PRUNED_AT_ONCE) => {}
                    Ok(_) => break,
                    Err(error) => {
                        tracing::warn!(%error, "old changes of records can't be deleted; it is tried again");
                        break;
                    }
                }
            }
        }
    }

    pub(super) fn db(&self) -> &Db {
        &self.0.db
    }

    pub(super) fn registry(&self) -> &Registry {
        &self.0.registry
    }

    /// The number of the last change, and the queue of a new connection, which gets every later change, and perhaps a few earlier
    /// ones.
    pub(super) async fn join(
        &self,
        wanted: &Wanted,
        feed: Option<&Arc<ScriptFeed>>,
    ) -> Result<(i64, Receiver), StoreError> {
        if let Some(feed) = feed {
            return feed.join(self, wanted.subprotocol).await;
        }
        let last = record_changes::last_seq(&self.0.db).await?;
        let (sender, receiver) = queue::queue();
        self.begin(last, |hub| hub.add(wanted, sender));
        Ok((last, receiver))
    }

    /// The number of the last change, and a signal after changes of a collection, from then on.
    pub(super) async fn signal(&self, collection: &Nsid) -> Result<(i64, Arc<Notify>), StoreError> {
        let (changed, collections) = (Arc::new(Notify::new()), BTreeSet::from([collection.clone()]));
        let last = record_changes::last_seq(&self.0.db).await?;
        self.begin(last, |hub| hub.signal(&collections, &changed));
        Ok((last, changed))
    }

    /// Runs a task until the server drains.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let drain = self.0.drain.clone();
        self.0.tasks.spawn(async move { drain.run_until_cancelled(task).await });
    }

    /// Changes the hub, and starts its task after the change `last` if it does not run.
    fn begin(&self, last: i64, change: impl FnOnce(&mut Hub)) {
        let mut hub = self.0.hub();
        change(&mut hub);
        if !hub.is_running {
            (hub.is_running, hub.position) = (true, last);
            drop(hub);
            let inner = Arc::clone(&self.0);
            self.spawn(async move { inner.run().await });
        }
    }
}

impl Inner {
    fn hub(&self) -> MutexGuard<'_, Hub> {
        self.hub.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn run(&self) {
        let poll = record_changes::poll_interval(&self.db);
        let mut tidy_at = Instant::now();
        loop {
            if Instant::now() >= tidy_at {
                if self.retire() {
                    return;
                }
                tidy_at = Instant::now() + TIDY_EVERY;
            }
            let pause = match self.advance().await {
                Ok(true) => continue,
                Ok(false) => poll,
                Err(error) => {
                    tracing::warn!(%error, "changes can't be read for subscriptions; it is tried again");
                    RETRY_AFTER
                }
            };
            // An error means that the time is over.
            let _ = timeout(pause, self.changed.notified()).await;
        }
    }

    /// Ends the task if there are no connections. The next one starts a new one.
    fn retire(&self) -> bool {
        let lexicons = self.registry.snapshot();
        let mut hub = self.hub();
        hub.is_running = hub.tidy(&lexicons, |nsid| self.scripts.is_bound(nsid));
        metrics::gauge!("belvedere_subscription_sockets").set(self.places.used() as f64);
        !hub.is_running
    }

    /// Passes a page of new changes on. Returns whether there may be more.
    async fn advance(&self) -> Result<bool, StoreError> {
        let position = self.hub().position;
        let Some(page) = record_changes::page(&self.db, position, None).await? else { return Ok(false) };
        let lexicons = self.registry.snapshot();
        let mut hub = self.hub();
        for change in &page.changes {
            hub.pass_on(&lexicons, change);
        }
        hub.position = page.until;
        if let Some(last) = page.changes.last() {
            let lag = (self.clock.now().0 - last.changed_at.0).max(0);
            metrics::gauge!("belvedere_subscription_lag_seconds").set(lag as f64 / 1e6);
        }
        Ok(true)
    }
}

impl fmt::Debug for Subscriptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Subscriptions")
    }
}
