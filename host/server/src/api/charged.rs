//! Calls that are charged: their answers say what is left of the caller's budget.

use std::sync::Arc;

use super::answer::{Answer, Outcome};
use super::input::Input;
use crate::access::rate_limit::Budget;
use crate::access::{PublicLimit, Sender};
use crate::app::App;
use belvedere_web::http::body::UnreadBody;
use belvedere_web::http::{Error, Request, Response, limits};

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

/// The answer of a public route to a request that is within its limit.
pub(super) async fn paid_answer<I: Input, H, F>(
    limit: &'static PublicLimit,
    handler: H,
    app: Arc<App>,
    mut request: Request,
    unread: UnreadBody,
) -> Result<Response, Error>
where
    H: Fn(Arc<App>, I) -> F,
    F: Outcome,
{
    Sender::of(&app.access, &request).pay(limit, &request)?;
    request.body = unread.read(limits::JSON_BODY).await?;
    handler(app, I::from(request)).await.map(Answer::respond)
}
