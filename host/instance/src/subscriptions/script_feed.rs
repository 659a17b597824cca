//! The messages that a subscription's script makes for one selection, once for all connections that have it (ADR 157).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use belvedere_protocol::atproto::event_stream::Subprotocol;
use belvedere_storage::store::StoreError;
use belvedere_storage::store::record_changes::{self, RecordChange};
use belvedere_web::fair_share::{Full, Tenant};
use belvedere_web::http::websocket::Frame;

use super::queue::{self, Numbered, Receiver, Sender};
use super::scripts::{self, Checked};
use super::sharing::{Place, Sharing};
use super::{Selection, Subscriptions, render, selection};

/// Selections of a host for which scripts run: each change costs a run of each.
const MAX_FEEDS: usize = 512;

/// Selections of one tenant.
const MAX_FEEDS_PER_TENANT: usize = 128;

/// Changes for which the script of one selection runs at the same time. Their messages stay in order.
const MAX_RUNS: usize = 4;

/// Time between two looks whether there are connections.
const TIDY_EVERY: Duration = Duration::from_secs(1);

/// Time after which a failed read is tried again.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The selections of this host for which scripts run.
#[derive(Debug)]
pub(super) struct ScriptFeeds(Sharing<Arc<Selection>, ScriptFeed>);

impl Default for ScriptFeeds {
    fn default() -> Self {
        Self(Sharing::new("subscription_scripts", MAX_FEEDS, MAX_FEEDS_PER_TENANT))
    }
}

impl ScriptFeeds {
    /// The feed of a selection. It is there while a connection has it.
    ///
    /// # Errors
    /// When there would be too many: of the tenant, or in total.
    pub(super) fn get(&self, selection: &Arc<Selection>, tenant: &Tenant) -> Result<Arc<ScriptFeed>, Full> {
        let make = |place| ScriptFeed { place, tenant: tenant.clone(), state: Mutex::default() };
        self.0.get(selection, tenant, make)
    }
}

/// One selection of a subscription with a script.
#[derive(Debug)]
pub(super) struct ScriptFeed {
    place: Place<Arc<Selection>, Self>,
    /// The tenant of its first connection, on whose behalf the script runs.
    tenant: Tenant,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    is_running: bool,
    connections: Vec<(Subprotocol, Sender)>,
}

impl ScriptFeed {
    /// The number of the last change, and the queue of a new connection, which gets the messages of every later change, and
    /// perhaps those of earlier ones.
    pub(super) async fn join(
        self: &Arc<Self>,
        subscriptions: &Subscriptions,
        subprotocol: Subprotocol,
    ) -> Result<(i64, Receiver), StoreError> {
        // The signal comes first: the table is read after it, so no change is missed.
        let (last, changed) = subscriptions.signal(&self.selection().collection).await?;
        let (sender, receiver) = queue::queue();
        let mut state = self.state();
        state.connections.push((subprotocol, sender));
        if !state.is_running {
            state.is_running = true;
            drop(state);
            let (feed, parts) = (Arc::clone(self), subscriptions.clone());
            subscriptions.spawn(async move { feed.run(parts, last, changed).await });
        }
        Ok((last, receiver))
    }

    async fn run(self: Arc<Self>, subscriptions: Subscriptions, mut position: i64, changed: Arc<Notify>) {
        while !self.is_over(&subscriptions) {
            let collection = Some(&self.selection().collection);
            match record_changes::page(subscriptions.db(), position, collection).await {
                Ok(Some(page)) => {
                    Box::pin(self.pass_on(&subscriptions, &page.changes)).await;
                    position = page.until;
                }
                Ok(None) => {
                    // An error means that the time is over.
                    let _ = timeout(TIDY_EVERY, changed.notified()).await;
                }
                Err(error) => {
                    tracing::warn!(%error, "changes can't be read for a subscription's script; it is tried again");
                    sleep(RETRY_AFTER).await;
                }
            }
        }
    }

    /// Forgets connections that are gone, and closes all when the script is gone. Ends the task if there are none; the next
    /// connection starts a new one.
    fn is_over(&self, subscriptions: &Subscriptions) -> bool {
        let mut state = self.state();
        if subscriptions.is_scripted(&self.selection().nsid) {
            state.connections.retain(|(_, queue)| queue.is_open());
        } else {
            state.connections.clear();
        }
        state.is_running = !state.connections.is_empty();
        !state.is_running
    }

    async fn pass_on(&self, subscriptions: &Subscriptions, changes: &[RecordChange]) {
        let (selection, tenant) = (self.selection(), &self.tenant);
        let wanted = wanted(subscriptions, selection, changes);

        let run = |change: RecordChange| async move {
            (change.seq, scripts::messages(subscriptions, (selection, tenant), &change).await)
        };
        let mut made = stream::iter(wanted).map(run).buffered(MAX_RUNS);
        while let Some((seq, messages)) = made.next().await {
            self.send(subscriptions, seq, &messages);
        }
    }

    /// Encodes messages once for each subprotocol.
    fn send(&self, subscriptions: &Subscriptions, seq: i64, messages: &[Checked]) {
        if messages.is_empty() {
            return;
        }
        let lexicons = subscriptions.registry().snapshot();
        let mut encoded: HashMap<Subprotocol, Arc<[Frame]>> = HashMap::new();
        self.state().connections.retain(|(subprotocol, queue)| {
            let frames = encoded.entry(*subprotocol).or_insert_with(|| {
                render::made_by_script(&lexicons, &self.selection().nsid, messages, *subprotocol).into()
            });
            let is_taken = queue.send(Numbered { seq, frames: Arc::clone(frames) });
            if is_taken {
                metrics::counter!("belvedere_subscription_messages_total").increment(frames.len() as u64);
            }
            is_taken
        });
    }

    fn selection(&self) -> &Selection {
        &self.place.key
    }

    /// The tenant on whose behalf the script runs.
    pub(super) fn tenant(&self) -> &Tenant {
        &self.tenant
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The changes that a selection shows.
pub(super) fn wanted(
    subscriptions: &Subscriptions,
    selection: &Selection,
    changes: &[RecordChange],
) -> Vec<RecordChange> {
    let lexicons = subscriptions.registry().snapshot();
    let shown = |change: &&RecordChange| selection.shows(change, || selection::is_valid(&lexicons, change));
    changes.iter().filter(shown).cloned().collect()
}

/// The messages of changes, for a connection that reads the table itself.
pub(super) async fn frames(
    subscriptions: Subscriptions,
    (selection, tenant): (Arc<Selection>, Tenant),
    subprotocol: Subprotocol,
    changes: Vec<RecordChange>,
) -> Vec<Frame> {
    let (parts, wanted) = (&subscriptions, (&*selection, &tenant));
    let run = |change: RecordChange| async move { scripts::messages(parts, wanted, &change).await };
    let made: Vec<Vec<Checked>> = stream::iter(changes).map(run).buffered(MAX_RUNS).collect().await;
    let lexicons = subscriptions.registry().snapshot();
    let of_change =
        |messages: &Vec<Checked>| render::made_by_script(&lexicons, &selection.nsid, messages, subprotocol);
    made.iter().flat_map(of_change).collect()
}
