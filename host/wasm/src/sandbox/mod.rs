//! What the engines of scripts and plugins share: pools of instances, turns of the processor, memory, compiled code that is kept on disk, shares of
//! the logs, and places for calls of other servers.

mod compiled_file;
mod log_shares;
mod memory;
mod outbound_places;
mod processor;
mod wasm_config;

pub use compiled_file::CompiledFile;
pub use log_shares::{DroppedLines, LogShares, Verdict};
pub use memory::{MemoryGroup, MemoryPool, NoMemory, RESERVE_BYTES, ResultMemory, RunMemory, WhenFull};
pub use outbound_places::outbound_places;
pub use processor::{ProcessorPool, RunBounds};
pub use wasm_config::{InstanceLimits, pooled_config};
