//! Follows the Jetstream and writes what happens to records of tracked collections into the index.
//!
//! The table lists the stages of the pipeline. All comments of this module use its words in these meanings only.
//!
//! | Stage | File | In | Out |
//! |---|---|---|---|
//! | receive | `stream/` | WebSocket message | frame: the message's bytes. Up to 256 frames form a chunk |
//! | parse | `intake`, `frame` | frame | event (`Event`): what happened to a record, an account, an identity or a repo |
//! | filter | `intake`, `envelope`, `submitted` | event | event (`Envelope`) of a tracked collection, with valid identifiers, that was not submitted before |
//! | split | `shard` | events of a chunk | slices, one per shard: all events of a DID go to the same shard |
//! | apply | `apply` | event | change (`IndexChange`): a record's upsert or delete, an account's new status, or a mark to read a repo again |
//! | queue | `repo_queues` | event with a large record, change with a record script | the change, or what the script made of it, or none |
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
//! [`Notice`].

mod apply;
mod batch;
mod commit;
mod early;
mod envelope;
pub mod fetch;
pub mod frame;
mod gaps;
mod handle;
mod intake;
mod launch;
mod message;
mod notice;
mod position;
mod published;
mod reader;
mod repo_queues;
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

pub use apply::RecordChecker;
pub use early::{EarlyDecision, EarlyEvents};
pub use envelope::{Candidate, Claim};
pub use handle::StreamHandle;
pub use launch::start;
pub use message::CURSOR_SOURCE;
pub use notice::{Notice, Observer};
pub use published::PublishedLexicon;
pub use scripts::{NoScripts, RecordAction, RecordEvent, RecordScriptRunner};
pub use settings::StreamConfig;
pub use status::Stall;
pub use throttle::Throttle;
pub use writer::WriterHandle;
