//! The task that reads new changes for all connections of this host. It runs only while there are connections.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use belvedere_base::clock::Clock;
use belvedere_storage::store::record_changes::{self, Window};
use belvedere_storage::store::{Db, StoreError};
use belvedere_web::fair_share::{Bounds, FairPool, Full, Permit, Tenant};

use super::Wanted;
use super::hub::Hub;
use super::queue::{self, Receiver};
use super::stream::ChangeStream;
use crate::config;
use crate::core::Core;
use crate::lexicons::Registry;
use belvedere_protocol::atproto::Nsid;

/// Time after which a failed read is tried again.
const RETRY_AFTER: Duration = Duration::from_secs(1);

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
    /// Open connections by client, and by address.
    by_client: FairPool,
    by_address: FairPool,
    config: config::Subscriptions,
    changed: Notify,
    hub: Mutex<Hub>,
    clock: Clock,
    tasks: TaskTracker,
    drain: CancellationToken,
}

/// Permits of a connection.
#[derive(Debug)]
pub struct Places(#[expect(dead_code, reason = "held while the connection is open")] [Permit; 2]);

impl Subscriptions {
    /// `drain` ends the task; `tasks` are waited for after that.
    pub fn new(
        core: &Core,
        config: config::Subscriptions,
        (tasks, drain): (TaskTracker, CancellationToken),
    ) -> Self {
        let bounds = |per_tenant: u32| Bounds {
            permits: config.sockets as usize,
            per_tenant: per_tenant as usize,
            // A connection lasts: waiting for the end of another makes no sense.
            waiting: 0,
            waiting_per_tenant: 0,
            max_wait: Duration::ZERO,
        };
        Self(Arc::new(Inner {
            db: core.db.clone(),
            registry: Arc::clone(&core.registry),
            by_client: FairPool::new("subscriptions", bounds(config.sockets_per_client)),
            by_address: FairPool::new("subscriptions_by_address", bounds(config.sockets_per_address)),
            config,
            changed: Notify::new(),
            hub: Mutex::default(),
            clock: core.clock.clone(),
            tasks,
            drain,
        }))
    }

    /// Takes the places of a connection.
    ///
    /// # Errors
    /// When too many connections are open: of the client, of the address, or in total.
    pub fn enter(&self, client: &Tenant, address: &Tenant) -> Result<Places, Full> {
        Ok(Places([self.0.by_address.try_enter(address)?, self.0.by_client.try_enter(client)?]))
    }

    /// The messages from a cursor on: those after the message with this number, or only new ones.
    pub fn stream(&self, wanted: Wanted, cursor: Option<i64>) -> ChangeStream {
        ChangeStream::new(self.clone(), wanted, cursor)
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
        let lexicons = self.0.registry.snapshot();
        let targets: Vec<Nsid> =
            lexicons.subscriptions().filter_map(|lexicon| lexicon.target_collection.clone()).collect();
        record_changes::follow(&self.0.db, &targets).await
    }

    /// Deletes changes outside of the window every minute. One host at a time does this.
    pub async fn prune_periodically(&self, db: &Db, clock: &Clock) {
        loop {
            tokio::time::sleep(PRUNE_EVERY).await;
            let since = clock.now().plus_seconds(-i64::from(self.0.config.window_seconds));
            let max_bytes = i64::from(self.0.config.window_megabytes) << 20;
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

    /// The queue of a new connection. It gets every change that is committed from now on, and perhaps a few earlier ones.
    pub(super) async fn join(&self, wanted: &Wanted) -> Result<Receiver, StoreError> {
        let last = record_changes::last_seq(&self.0.db).await?;
        let (sender, receiver) = queue::queue();
        let mut hub = self.0.hub();
        hub.add(wanted, sender);
        if !hub.is_running {
            (hub.is_running, hub.position) = (true, last);
            drop(hub);
            let (inner, drain) = (Arc::clone(&self.0), self.0.drain.clone());
            self.0.tasks.spawn(async move { drain.run_until_cancelled(inner.run()).await });
        }
        Ok(receiver)
    }
}

impl Inner {
    fn hub(&self) -> MutexGuard<'_, Hub> {
        self.hub.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn run(&self) {
        let poll = record_changes::poll_interval(&self.db);
        while !self.retire() {
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
        hub.is_running = hub.tidy(&lexicons);
        metrics::gauge!("belvedere_subscription_sockets").set(self.by_client.used() as f64);
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
