//! Background work that runs on a timer or as a job of a script: the job queue, retention, purges of
//! the event log.

pub mod purge;
mod queue;
pub mod retention;
mod running;

pub use queue::{CreateError, JobQueue};
pub use running::RunningJob;
