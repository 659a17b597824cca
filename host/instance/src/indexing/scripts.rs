//! The interface through which the stream runs record scripts; `event_scripts` implements it.

use std::fmt;

use futures_util::future::BoxFuture;

use super::early::EarlyDecision;
use belvedere_storage::store::index::{Change, CheckedRecord};

/// The action on a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RecordAction {
    Create,
    Update,
    Delete,
}

impl RecordAction {
    const ALL: [Self; 3] = [Self::Create, Self::Update, Self::Delete];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Update => "update",
            Self::Delete => "delete",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|action| action.as_str() == text)
    }
}

impl fmt::Display for RecordAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A change as it came from the stream, and the action that its script is bound to. `R`: what is known of the record.
#[derive(Clone, Debug)]
pub struct RecordEvent<R = CheckedRecord> {
    pub action: RecordAction,
    pub change: Change<R>,
}

/// Runs record scripts, which decide on changes before they are indexed.
pub trait RecordScriptRunner: Send + Sync + 'static {
    /// Whether no record script is bound at all; then the stream does not call [`RecordScriptRunner::wants`] for each
    /// change.
    fn is_idle(&self) -> bool;

    /// Whether a script is bound to the action on this change.
    fn wants(&self, action: RecordAction, change: &Change) -> bool;

    /// Runs the script, with retries. `None`: nothing is indexed. Never fails: when the script fails for good, the
    /// event is dead-lettered and its change returned unmodified.
    fn decide(&self, event: RecordEvent) -> BoxFuture<'_, Option<Change>>;

    /// Runs the script once on a write that this server made itself, before the stream delivers it. `None` when it fails
    /// or takes long: the stream's event runs it again, with retries.
    fn decide_early(&self, event: RecordEvent) -> BoxFuture<'_, Option<EarlyDecision>>;

    /// Whether the same script, or none, decides on creates and updates of this record. A put may be either.
    fn puts_are_alike(&self, change: &Change) -> bool;

    /// Whether [`RecordScriptRunner::decide_early`] has decided on this change and the decision is indexed. Waits for a
    /// decision in progress.
    fn was_decided_early<'a>(&'a self, _change: &'a Change) -> BoxFuture<'a, bool> {
        Box::pin(async { false })
    }

    /// Dead-letters the event and returns its change unmodified. Called when too many changes are queued.
    fn bypass(&self, event: RecordEvent) -> BoxFuture<'_, Option<Change>>;
}

/// An implementation without any scripts.
#[derive(Clone, Copy, Debug)]
pub struct NoScripts;

impl RecordScriptRunner for NoScripts {
    fn is_idle(&self) -> bool {
        true
    }

    fn wants(&self, _action: RecordAction, _change: &Change) -> bool {
        false
    }

    fn decide(&self, event: RecordEvent) -> BoxFuture<'_, Option<Change>> {
        Box::pin(async move { Some(event.change) })
    }

    fn decide_early(&self, _event: RecordEvent) -> BoxFuture<'_, Option<EarlyDecision>> {
        Box::pin(async { None })
    }

    fn puts_are_alike(&self, _change: &Change) -> bool {
        true
    }

    fn bypass(&self, event: RecordEvent) -> BoxFuture<'_, Option<Change>> {
        Box::pin(async move { Some(event.change) })
    }
}
