//! From stream to index.
//!
//! ```text
//! server ─▶ stream/ (connection) ─▶ intake (parse, filter) ─▶ shard × N (CID, references) ─▶ writer ─▶ store
//! ```
//!
//! Frames move in chunks over bounded queues, so a slow database is felt at the socket. Each repo belongs to one
//! shard, which keeps its order. One writer commits changes and the cursor in one transaction. What comes from
//! the stream is user input: dropped, counted, reported within bounds, never fatal.

mod apply;
mod batch;
mod commit;
mod envelope;
pub mod fetch;
pub mod frame;
mod handle;
mod intake;
mod lanes;
mod launch;
mod notice;
mod reader;
mod scripts;
mod settings;
mod shard;
mod status;
mod stream;
mod tally;
mod throttle;
mod watermark;
mod writer;

#[cfg(test)]
#[path = "../../../tests/support/jetstream.rs"]
mod standin;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub use handle::StreamHandle;
pub use launch::{Deps, start};
pub use notice::{Notice, Observer};
pub use scripts::{Action, NoScripts, RecordEvent, RecordScripts};
pub use settings::{StreamConfig, Timing};
pub use status::{Stall, StreamStatus};
pub use stream::address::{InvalidAddress, endpoint};
pub use writer::{CURSOR_SOURCE, WriterClosed, WriterHandle};
