//! Follows the Jetstream and writes what happens to records of tracked collections into the index.
//!
//! The table lists the stages of the pipeline. All comments of this module use its words in these meanings only.
//!
//! | Stage | File | In | Out |
//! |---|---|---|---|
//! | receive | `stream/` | WebSocket message | frame: the message's bytes. Up to 256 frames form a chunk |
//! | parse | `intake`, `frame` | frame | event (`Event`): what happened to a record, an account, an identity or a repo |
//! | filter | `intake`, `filter`, `submitted` | event | change (`IndexChange`) of a record in a tracked collection, of an account's status, or a mark to read a repo again; with valid identifiers, and not submitted before |
//! | split | `shard` | changes of a chunk | slices, one per shard: all changes of a DID go to the same shard |
//! | apply | `apply` | change with a `ClaimedRecord` | change with a `CheckedRecord` |
//! | queue | `repo_queues` | change with a large record or a record script | the change, or what the script made of it, or none |
//! | gather | `writer`, `batch` | part: changes of one slice, in order | batch: changes of many parts, and the cursor |
//! | commit | `commit` | batch | one database transaction |
//!
//! The cursor is the time of the last event before which nothing is missing in the index; `watermark` computes it.
//! Local writes are changes made by this server itself; they enter at the gather stage. All other changes belong to a
//! term: one lease under which this host follows the stream.
//!
//! All queues are bounded: when the database is slow, they fill up and the socket is not read. One writer commits all
//! changes. Data from the stream is untrusted input: what is invalid is dropped, counted and logged within bounds, and
//! never stops the stream.
//!
//! In this module, an event is never a row of the event log ([`crate::events`]). For such rows, the stream emits a
//! [`StreamReport`].

mod apply;
mod batch;
mod change;
mod commit;
mod early;
pub mod fetch;
mod filter;
pub mod frame;
mod gaps;
mod handle;
mod intake;
mod launch;
mod message;
mod observer;
mod position;
mod published;
mod reader;
mod repo_queues;
pub mod rereading;
mod resumption;
mod scripts;
mod settings;
mod shard;
mod status;
mod stream;
mod submitted;
mod tally;
mod throttle;
mod watermark;
mod writer;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub use apply::{RecordChecker, RefusedRecord};
pub use change::{Claim, ClaimedRecord};
pub use early::{EarlyDecision, EarlyEvents};
pub use handle::StreamHandle;
pub use launch::start;
pub use message::CURSOR_SOURCE;
pub use observer::{Observer, StreamReport};
pub use published::PublishedLexicon;
pub use scripts::{NoScripts, RecordAction, RecordEvent, RecordScriptRunner};
pub use settings::StreamConfig;
pub use status::Stall;
pub use throttle::Throttle;
pub use writer::{WriterClosed, WriterHandle};
