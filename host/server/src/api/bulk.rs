//! The results of requests that change many things: a failure does not stop the rest.

use schemars::JsonSchema;
use serde::Serialize;

use belvedere_web::http::Error;

/// The result for one of them.
#[derive(Debug, Serialize, JsonSchema)]
pub struct BulkOutcome {
    /// The URI, DID or id from the request.
    pub id: String,
    pub ok: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct BulkOutcomes {
    /// Whether all succeeded.
    ok: bool,
    results: Vec<BulkOutcome>,
}

impl BulkOutcome {
    /// The result; the cause of a failure is logged.
    pub fn new(id: String, done: Result<(), Error>) -> Self {
        if let Err(Error { cause: Some(cause), .. }) = &done {
            tracing::warn!(id, error = %cause, "a part of a bulk operation failed");
        }
        Self { id, ok: done.is_ok(), error: done.err().map(|error| error.error.into_owned()) }
    }
}

impl From<Vec<BulkOutcome>> for BulkOutcomes {
    fn from(results: Vec<BulkOutcome>) -> Self {
        Self { ok: results.iter().all(|result| result.ok), results }
    }
}

/// Checks the number of things that a request names in `field`.
///
/// # Errors
/// 400 for none, and for more than `max`.
pub fn check_number(field: &str, number: usize, max: usize) -> Result<(), Error> {
    if (1..=max).contains(&number) {
        return Ok(());
    }
    Err(Error::bad_request(format!("{field} must have 1 to {max} elements")))
}
