//! What the stream asks of the scripts for record events.

use std::fmt;

use futures_util::future::BoxFuture;

use crate::store::index::Change;

/// What happened to a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    Create,
    Update,
    Delete,
}

impl Action {
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

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One change on its way to the index, before any script.
#[derive(Clone, Debug)]
pub struct RecordEvent {
    pub action: Action,
    pub change: Change,
}

/// Decides about events before they are indexed.
pub trait RecordScripts: Send + Sync + 'static {
    /// Whether nothing ever has to be asked; then the stream takes its shortest way.
    fn is_idle(&self) -> bool;

    /// Whether a script waits for this event.
    fn wants(&self, action: Action, change: &Change) -> bool;

    /// Runs the script, as often as it takes. `None`: nothing is indexed. Never fails: what can't be decided goes on
    /// as it came.
    fn decide(&self, event: RecordEvent) -> BoxFuture<'_, Option<Change>>;

    /// The event goes on as it came, because its script did not keep up.
    fn give_up(&self, event: RecordEvent) -> BoxFuture<'_, Change>;
}

/// No scripts at all.
#[derive(Clone, Copy, Debug)]
pub struct NoScripts;

impl RecordScripts for NoScripts {
    fn is_idle(&self) -> bool {
        true
    }

    fn wants(&self, _action: Action, _change: &Change) -> bool {
        false
    }

    fn decide(&self, event: RecordEvent) -> BoxFuture<'_, Option<Change>> {
        Box::pin(async move { Some(event.change) })
    }

    fn give_up(&self, event: RecordEvent) -> BoxFuture<'_, Change> {
        Box::pin(async move { event.change })
    }
}
