//! Counts XRPC calls in the history, by method and by API client.

use std::time::Instant;

use crate::access::CalledMethod;
use crate::app::App;
use belvedere_web::http::{Error, Response};

/// The label of callers that name no client.
const NO_CLIENT: &str = "(none)";

/// The label of callers that were not admitted. Their client is not known for sure.
const REFUSED: &str = "(refused)";

/// A call that has not ended.
#[derive(Debug)]
pub(super) struct Call {
    method: String,
    began: Instant,
}

pub(super) fn begin(app: &App, method: CalledMethod<'_>) -> Call {
    Call { method: method.counted_name(&app.registry).to_owned(), began: Instant::now() }
}

impl Call {
    /// `client`: the id of the API client that the call named.
    pub(super) fn end(self, app: &App, client: Option<&str>, answer: &Result<Response, Error>) {
        self.count(app, client.unwrap_or(NO_CLIENT), answer);
    }

    pub(super) fn refused(self, app: &App, answer: &Result<Response, Error>) {
        self.count(app, REFUSED, answer);
    }

    fn count(self, app: &App, client: &str, answer: &Result<Response, Error>) {
        let status = answer.as_ref().map_or_else(|error| error.status, Response::status);
        app.history.request(&self.method, client, self.began.elapsed(), status.is_server_error());
    }
}
