//! The connections of this host, and what each change sends to them.

use std::cell::LazyCell;
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Weak};

use tokio::sync::Notify;

use belvedere_protocol::atproto::{LexiconKind, Nsid};
use belvedere_storage::store::record_changes::RecordChange;
use belvedere_web::http::websocket::Frame;

use super::queue::{Numbered, Sender};
use super::{Selection, Subprotocol, Wanted, render, selection};
use crate::lexicons::Snapshot;

/// The connections to one subscription.
#[derive(Debug, Default)]
struct Channel {
    everyone: Vec<Entry>,
    /// Connections that want some accounts, by each of them.
    by_did: HashMap<Box<str>, Vec<Entry>>,
}

#[derive(Clone, Debug)]
struct Entry {
    subprotocol: Subprotocol,
    selection: Arc<Selection>,
    queue: Arc<Sender>,
}

/// All connections that get new changes, and the number of the last change that they got.
#[derive(Debug, Default)]
pub(super) struct Hub {
    /// By the NSID of the subscription.
    channels: HashMap<Box<str>, Channel>,
    /// The live queries that read a collection, by its NSID.
    signals: HashMap<Box<str>, Vec<Weak<Notify>>>,
    pub(super) position: i64,
    pub(super) is_running: bool,
}

impl Hub {
    pub(super) fn add(&mut self, wanted: &Wanted, queue: Sender) {
        let Wanted { selection, subprotocol } = wanted;
        let channel = self.channels.entry(selection.nsid.as_str().into()).or_default();
        let (subprotocol, queue) = (*subprotocol, Arc::new(queue));
        let entry = Entry { subprotocol, selection: Arc::clone(selection), queue };
        match selection.accounts() {
            None => channel.everyone.push(entry),
            Some(dids) => {
                for did in dids {
                    channel.by_did.entry(did.as_str().into()).or_default().push(entry.clone());
                }
            }
        }
    }

    /// Adds a signal that is given after changes of these collections, while its owner has it.
    pub(super) fn signal(&mut self, collections: &BTreeSet<Nsid>, changed: &Arc<Notify>) {
        for collection in collections {
            self.signals.entry(collection.as_str().into()).or_default().push(Arc::downgrade(changed));
        }
    }

    /// Forgets connections that are gone, and closes those to subscriptions that are gone, or that have a script now. Returns
    /// whether any remain.
    pub(super) fn tidy(&mut self, lexicons: &Snapshot, is_scripted: impl Fn(&str) -> bool) -> bool {
        self.channels.retain(|nsid, channel| {
            let is_there =
                lexicons.get(nsid).is_some_and(|lexicon| lexicon.kind == LexiconKind::Subscription)
                    && !is_scripted(nsid);
            channel.everyone.retain(Entry::is_open);
            channel.by_did.retain(|_, entries| {
                entries.retain(Entry::is_open);
                !entries.is_empty()
            });
            is_there && !(channel.everyone.is_empty() && channel.by_did.is_empty())
        });
        self.signals.retain(|_, signals| {
            signals.retain(|changed| changed.strong_count() > 0);
            !signals.is_empty()
        });
        !(self.channels.is_empty() && self.signals.is_empty())
    }

    /// Passes a change to the connections that want it. Each form of it is encoded once.
    pub(super) fn pass_on(&mut self, lexicons: &Snapshot, change: &RecordChange) {
        for changed in self.signals.get(change.collection.as_str()).into_iter().flatten() {
            if let Some(changed) = changed.upgrade() {
                // It stays until it is waited for.
                changed.notify_one();
            }
        }
        let is_valid = LazyCell::new(|| selection::is_valid(lexicons, change));
        for (nsid, channel) in &mut self.channels {
            let Some(lexicon) = lexicons.get(nsid) else { continue };
            let is_target =
                lexicon.target_collection.as_ref().is_some_and(|target| target.as_str() == change.collection);
            if !is_target {
                continue;
            }
            let mut frames: HashMap<Subprotocol, Option<Arc<[Frame]>>> = HashMap::new();
            let mut send = |entry: &Entry| {
                if !entry.selection.shows(change, || *is_valid) {
                    return true;
                }
                let subprotocol = entry.subprotocol;
                let frame = frames.entry(subprotocol).or_insert_with(|| {
                    Some([render::change(lexicons, &lexicon.id, change, subprotocol)?].into())
                });
                let Some(frames) = frame.clone() else { return true };
                let is_taken = entry.queue.send(Numbered { seq: change.seq, frames });
                if is_taken {
                    metrics::counter!("belvedere_subscription_messages_total").increment(1);
                }
                is_taken
            };
            channel.everyone.retain(&mut send);
            if let Some(entries) = channel.by_did.get_mut(change.did.as_str()) {
                entries.retain(&mut send);
            }
        }
        self.position = change.seq;
    }
}

impl Entry {
    fn is_open(&self) -> bool {
        self.queue.is_open()
    }
}
