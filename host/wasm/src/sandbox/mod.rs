//! The parts that the engines of scripts and plugins share: runs in fresh instances, pools of instances, turns of the
//! processor, memory, compiled code that is kept on disk, shares of the logs, and permits for calls of other servers.

mod compiled_file;
mod log_shares;
mod memory;
mod outbound;
mod processor;
mod refusal;
mod runner;
mod wasm_config;

pub use compiled_file::CompiledFile;
pub use log_shares::{DroppedLines, LogShares};
pub use memory::{
    GrowthLimits, InstanceMemory, MemoryGroup, MemoryPool, NoMemory, RESERVE_BYTES, ResultMemory, RunMemory,
    WhenFull,
};
pub use outbound::{outbound_headers, outbound_permits};
pub use processor::{ProcessorPool, RunBounds};
pub use refusal::Refusal;
pub use runner::{RunData, RunEnd, RunLimits, RunStore, Runner};
pub use wasm_config::{InstanceLimits, pooled_config};
