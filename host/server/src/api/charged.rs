//! Answers to calls that were charged: they say what is left of the caller's budget.

use crate::access::rate_limit::Budget;
use belvedere_web::http::{Error, Response};

/// Adds the remaining budget to a response that was charged.
pub(super) fn with_budget(
    answer: Result<Response, Error>,
    budget: Option<Budget>,
) -> Result<Response, Error> {
    let mut response = answer.map_err(|error| paid(error, budget))?;
    if let Some(budget) = budget {
        response.headers_mut().extend(budget.headers());
    }
    Ok(response)
}

/// Adds the remaining budget to an error that was charged.
pub(super) fn paid(mut error: Error, budget: Option<Budget>) -> Error {
    if let Some(budget) = budget {
        error.headers.extend(budget.headers());
    }
    error
}
