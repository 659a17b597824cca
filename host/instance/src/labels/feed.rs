//! Wakes subscriptions when there are new labels.
//!
//! However many subscriptions there are, one task looks for the number of the newest label: when this host has issued some, and
//! each second for those of other hosts. It runs only while there are subscriptions.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::LabelIssuer;
use belvedere_storage::store::{Db, issued_labels};
use belvedere_web::fair_share::{Bounds, FairPool, Full, Permit, Tenant};

/// Open subscriptions. Tenants are addresses. Each keeps a connection open.
const SUBSCRIPTIONS: Bounds =
    Bounds { permits: 128, per_tenant: 8, waiting: 0, waiting_per_tenant: 0, max_wait: Duration::ZERO };

/// Interval at which the task looks for labels of other hosts.
const POLL_EVERY: Duration = Duration::from_secs(1);

/// The least time between two looks, so that many labels are sent after few of them.
const PAUSE: Duration = Duration::from_millis(100);

/// The feed of this host. Cheap to clone.
#[derive(Clone)]
pub struct LabelFeed(Arc<Inner>);

struct Inner {
    db: Db,
    issued: Arc<Notify>,
    subscriptions: FairPool,
    tasks: TaskTracker,
    drain: CancellationToken,
    /// The number of the newest label. `None` while there are no subscriptions.
    newest: Mutex<Option<watch::Sender<i64>>>,
}

/// A subscription; it ends when it is dropped.
#[derive(Debug)]
pub struct LabelSubscription {
    newest: watch::Receiver<i64>,
    _permit: Permit,
}

impl LabelFeed {
    /// `drain` ends the task; `tasks` are waited for after that.
    pub fn new(db: Db, issuer: &LabelIssuer, (tasks, drain): (TaskTracker, CancellationToken)) -> Self {
        let subscriptions = FairPool::new("label_subscriptions", SUBSCRIPTIONS);
        let (issued, newest) = (issuer.issued(), Mutex::default());
        Self(Arc::new(Inner { db, issued, subscriptions, tasks, drain, newest }))
    }

    /// # Errors
    /// When too many subscriptions are open, of this tenant or in total.
    pub fn subscribe(&self, tenant: &Tenant) -> Result<LabelSubscription, Full> {
        let permit = self.0.subscriptions.try_enter(tenant)?;
        Ok(LabelSubscription { newest: self.0.join(), _permit: permit })
    }
}

impl LabelSubscription {
    /// Waits until there may be labels that were not there at the last call. Never returns while the server drains.
    pub async fn changed(&mut self) {
        if self.newest.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl Inner {
    /// Subscribes, and starts the task for the first subscription.
    fn join(self: &Arc<Self>) -> watch::Receiver<i64> {
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = &*newest {
            return sender.subscribe();
        }
        let (sender, receiver) = watch::channel(0);
        *newest = Some(sender.clone());
        drop(newest);
        let (feed, drain) = (Arc::clone(self), self.drain.clone());
        self.tasks.spawn(async move { drain.run_until_cancelled(feed.run(sender)).await });
        receiver
    }

    async fn run(&self, newest: watch::Sender<i64>) {
        while !self.retire(&newest) {
            match issued_labels::last_seq(&self.db).await {
                Ok(seq) => {
                    newest.send_if_modified(|known| std::mem::replace(known, seq) != seq);
                }
                Err(error) => tracing::warn!(%error, "new labels can't be looked for; it is tried again"),
            }
            tokio::time::sleep(PAUSE).await;
            // An error means that the time is over.
            let _ = timeout(POLL_EVERY, self.issued.notified()).await;
        }
    }

    /// Ends the task if there are no subscriptions. The next one starts a new one.
    fn retire(&self, sender: &watch::Sender<i64>) -> bool {
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        let is_unused = sender.receiver_count() == 0;
        if is_unused {
            *newest = None;
        }
        is_unused
    }
}

impl fmt::Debug for LabelFeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LabelFeed")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::Core;
    use belvedere_base::clock::{Clock, Timestamp};
    use belvedere_storage::store::labels::Label;

    async fn issue(db: &Db, val: &str) {
        let (uri, src, val) = ("did:plc:a".to_owned(), "did:plc:l".to_owned(), val.to_owned());
        let label = Label { uri, src, val, cid: None, neg: false, cts: Timestamp(1), exp: None };
        issued_labels::issue(db, &[label], "did:plc:op", Timestamp(1)).await.unwrap();
    }

    #[tokio::test]
    async fn one_task_wakes_all_while_there_are_some() {
        let directory = tempfile::tempdir().unwrap();
        let db = Db::open(&format!("sqlite://{}/test.db", directory.path().display()), 2).await.unwrap();
        db.migrate().await.unwrap();
        let core = Core::testing(&db, &Clock::fixed(Timestamp(1)));
        let (issued, drain) = (Arc::<Notify>::default(), CancellationToken::new());
        let feed = LabelFeed(Arc::new(Inner {
            db: db.clone(),
            issued: Arc::clone(&issued),
            subscriptions: FairPool::new("label_subscriptions", SUBSCRIPTIONS),
            tasks: core.tasks.clone(),
            drain: drain.clone(),
            newest: Mutex::default(),
        }));
        let follow = || feed.subscribe(&Tenant::Instance);
        let (mut first, mut second) = (follow().unwrap(), follow().unwrap());
        assert_eq!(core.tasks.len(), 1);
        // One of another host, which nothing announces, then one of this host.
        for val in ["a", "b"] {
            issue(&db, val).await;
            if val == "b" {
                issued.notify_one();
            }
            first.changed().await;
            second.changed().await;
        }
        let more: Vec<_> = (2..SUBSCRIPTIONS.per_tenant).map(|_| follow().unwrap()).collect();
        assert!(follow().is_err(), "a tenant has a share");
        drop((first, second, more));
        issued.notify_one();
        while !core.tasks.is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let mut later = follow().unwrap();
        later.changed().await;
        drain.cancel();
        assert!(timeout(Duration::from_millis(50), later.changed()).await.is_err());
    }
}
