//! Errors of building the index of a record field.

use crate::store::StoreError;

/// The reason why building an index failed.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    #[error("the index was not completed")]
    Invalid,
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<sqlx::Error> for BuildError {
    fn from(error: sqlx::Error) -> Self {
        Self::Store(error.into())
    }
}
