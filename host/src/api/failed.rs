//! What a caller is told when the store fails.

use crate::http::Error;
use crate::store::StoreError;

/// The answer to a failure of the store that the handler has no better word for: 500, with the cause in the log.
/// Conflicts and absences are the handlers' to name before it comes to this.
pub fn failed(error: StoreError) -> Error {
    Error::internal(error)
}
