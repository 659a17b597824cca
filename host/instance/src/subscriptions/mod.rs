//! Subscriptions: methods whose lexicon is of type `subscription`, fed by the changes of their target collection (ADR 165), and
//! live queries, whose answers are kept up to date (ADR 169).
//!
//! One task of this host reads the changes after their commit, encodes each message once for all connections that get the same
//! bytes, and passes it to their queues. A connection that resumes first reads the changes since its cursor from the table.

mod feed;
mod hub;
mod page;
mod places;
mod queue;
mod render;
mod script_feed;
mod scripts;
mod selection;
mod sharing;
mod stream;
mod watch;

use std::sync::Arc;

use belvedere_protocol::atproto::event_stream::Subprotocol;
use belvedere_web::http::websocket::Frame;

pub use feed::Subscriptions;
pub use places::{AllPlaces, Places};
pub use scripts::{MessageScripts, ScriptMessage, checked_messages};
pub use selection::Selection;
pub use stream::ChangeStream;
pub use watch::{End, MAX_ANSWER, PageStream, Watch, WatchKey, Watches};

/// The messages that a connection gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    pub selection: Arc<Selection>,
    pub subprotocol: Subprotocol,
}

/// The messages of a connection.
pub trait Messages: Send {
    /// Whether the caller is charged for each message. A live query charges its answers.
    const ARE_CHARGED: bool;

    /// Waits for messages. Cancel-safe.
    fn next(&mut self) -> impl Future<Output = Next> + Send;

    /// An error message, after which the connection is closed. Both texts are plain ASCII without quotes.
    fn error(&self, name: &'static str, message: &str) -> Next;
}

/// The next part of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Messages to send, perhaps none.
    Frames(Vec<Frame>),
    /// The last message, an error, and the name of it.
    Error(Frame, &'static str),
    /// The subscription is no longer there, or has changed.
    Closed,
    /// The database can't be read now.
    Unreadable,
}

/// The end of a connection that does not read as fast as messages come.
fn too_slow(messages: &impl Messages) -> Next {
    metrics::counter!("belvedere_subscription_sockets_dropped_total").increment(1);
    messages.error("ConsumerTooSlow", "the connection does not take its messages as fast as they come")
}
