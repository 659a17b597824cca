//! Why an index of a record field can't be built.

use crate::store::StoreError;

/// Why building an index failed.
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
