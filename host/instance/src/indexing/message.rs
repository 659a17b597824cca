//! The messages of the writer's queue.

use std::sync::Arc;

use tokio::sync::oneshot;

use belvedere_protocol::atproto::RecordUri;
use belvedere_storage::store::cursors;
use belvedere_storage::store::index::{AccountChange, Change};
use belvedere_storage::store::lease::Term;

use super::change::IndexChange;
use super::watermark::Ticket;

/// The name under which the stream's cursor is stored. All servers share it, because their cursors are times.
pub const CURSOR_SOURCE: &str = cursors::STREAM;

#[derive(Debug)]
pub(super) enum Message {
    Part(Part),
    LocalWrite(Box<LocalWrite>),
    LocalAccount(LocalAccount),
    InitialCursor(InitialCursor),
}

/// The changes of one slice, or of one event that left its repo's queue.
#[derive(Debug)]
pub(super) struct Part {
    pub ticket: Ticket,
    /// The number of events of the slice that went to their repos' queues; each arrives later as a part of its own.
    pub deferred: u32,
    pub changes: Vec<IndexChange>,
}

/// Changes made by this server. Their caller waits for the commit.
#[derive(Debug)]
pub(super) struct LocalWrite {
    pub changes: Vec<Change>,
    pub urgency: Urgency,
    pub ack: oneshot::Sender<Refused>,
}

/// An account's status that this server found out by itself. Its caller waits for the commit.
#[derive(Debug)]
pub(super) struct LocalAccount {
    pub change: AccountChange,
    pub ack: oneshot::Sender<Refused>,
}

/// The records of a batch that the database can't store.
pub(super) type Refused = Arc<[RecordUri]>;

/// The time that a local write waits for other changes to share its transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Urgency {
    /// Not at all: a user waits for it.
    Immediate,
    /// The time that changes of the stream wait.
    Shared,
}

/// The cursor at which a stream without a stored cursor starts. Committed before connecting: if the process is killed
/// before its first batch, the next start uses the same cursor instead of a later "now", so nothing is missed.
#[derive(Debug)]
pub(super) struct InitialCursor {
    pub term: Term,
    pub cursor: i64,
    pub ack: oneshot::Sender<()>,
}
