//! Client connections over WebSocket: opens them, reads them in chunks, keeps them alive with pings, and tells how they
//! were lost. The Jetstream and the labelers are followed over such connections.

mod connect;
mod connection;
mod skip;

pub(crate) use connect::bounded_writes;
pub use connect::{Connect, Direct, Guarded};
pub use connection::{ChunkLimits, Connection, KeepAlive, Lost};
pub use skip::Skip;
