//! Counts XRPC calls in the history, by method and by API client.

use std::time::Instant;

use http::StatusCode;

use crate::access::CalledMethod;
use crate::app::App;
use belvedere_instance::history::Measure;
use belvedere_web::http::{Error, Request, Response};

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

    /// A call that was not admitted. One that was refused for its rate is counted for the client that it names.
    pub(super) fn refused(self, app: &App, request: &Request, answer: &Result<Response, Error>) {
        if status(answer) == StatusCode::TOO_MANY_REQUESTS {
            let named = app.access.clients.named_by(request).ok().flatten();
            let client = named.as_deref().map_or(NO_CLIENT, |client| &client.id);
            app.history.record(Measure::ClientRateLimited, client, 1, 0.0);
        }
        self.count(app, REFUSED, answer);
    }

    fn count(self, app: &App, client: &str, answer: &Result<Response, Error>) {
        let status = status(answer);
        app.history.request(&self.method, client, self.began.elapsed(), status.is_server_error());
    }
}

fn status(answer: &Result<Response, Error>) -> StatusCode {
    answer.as_ref().map_or_else(|error| error.status, Response::status)
}
