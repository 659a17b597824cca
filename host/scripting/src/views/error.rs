//! The reasons why a view gives no answer.

use belvedere_storage::store::StoreError;

use crate::scripts::IndexError;

#[derive(Debug, thiserror::Error)]
pub enum ViewError {
    /// A parameter has a value that the view can't use.
    #[error("{0}")]
    Parameter(String),
    #[error("authentication required")]
    NoViewer,
    #[error("record not found")]
    NotFound,
    /// The tenant's share of reads is used up.
    #[error("{0}")]
    Busy(String),
    /// The view can't be answered as the instance is set up.
    #[error("{0}")]
    Setup(String),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl ViewError {
    pub(super) fn parameter(error: impl std::fmt::Display) -> Self {
        Self::Parameter(error.to_string())
    }
}

impl From<IndexError> for ViewError {
    fn from(error: IndexError) -> Self {
        match error {
            IndexError::Limit(text) => Self::Busy(text),
            IndexError::Unavailable(cause) => match cause.downcast::<StoreError>() {
                Ok(store) => Self::Store(*store),
                Err(other) => Self::Setup(other.to_string()),
            },
            other => Self::Setup(other.to_string()),
        }
    }
}
