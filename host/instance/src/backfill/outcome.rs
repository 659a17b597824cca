//! The reason why a job does not go on.

use belvedere_storage::store::StoreError;

#[derive(Debug, thiserror::Error)]
pub(super) enum RunError {
    /// The job was asked to stop, this host has lost the lease, or the server shuts down.
    #[error("the job was stopped")]
    Stopped,
    /// The job fails for good.
    #[error("{0}")]
    Failed(String),
    /// The job is taken up again after a while.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A defect of ours. The job is taken up again after a while.
    #[error("a task of the backfill has ended unexpectedly: {0}")]
    Task(#[from] tokio::task::JoinError),
}
