//! Background work: what runs by the clock, or because a script asked for it, rather than for a request or an event.

pub mod field_indexes;
mod queue;
pub mod retention;
mod running;

pub use queue::{CreateError, JobQueue};
pub use running::RunningJob;
