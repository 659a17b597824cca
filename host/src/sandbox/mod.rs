//! What the engines of scripts and plugins share: turns of the processor, the unit of memory, compiled code that is kept on disk, shares of
//! the logs, and places for calls of other servers.

mod compiled_file;
mod log_shares;
mod outbound_places;
mod processor;

pub use compiled_file::CompiledFile;
pub use log_shares::{DroppedLines, LogShares, Verdict};
pub use outbound_places::outbound_places;
pub use processor::{ProcessorPool, RunBounds};

/// Bytes of a page of WebAssembly, by which memories grow: a place of the pool of memory.
pub const PAGE: usize = 64 << 10;
