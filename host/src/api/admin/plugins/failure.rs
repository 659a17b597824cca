//! How a plugin that was not installed is answered and recorded.

use http::StatusCode;
use serde::Serialize;

use super::view::PermissionView;
use crate::access::Admin;
use crate::app::App;
use crate::events::{Event, PluginEvent};
use crate::http::{Error, Response, response};
use crate::plugins::install::{Changes, InstallError};
use crate::plugins::shown_url;

/// Which plugin a request was about, as far as it is known.
#[derive(Debug, Default)]
pub(super) struct Attempt {
    pub(super) id: Option<String>,
    pub(super) url: Option<String>,
}

/// The body of the 400 that asks for consent.
#[derive(Serialize)]
struct ConsentRequired {
    error: &'static str,
    message: String,
    permissions: Vec<PermissionView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    changes: Option<Box<Changes>>,
}

/// Answers a plugin that was not installed. One that can't be used is an event.
///
/// # Errors
/// All but the question for consent.
pub(super) fn answer(
    app: &App,
    admin: &Admin,
    attempt: Attempt,
    error: InstallError,
) -> Result<Response, Error> {
    let text = error.to_string();
    match error {
        InstallError::Invalid(_) => {
            let event = PluginEvent::Refused {
                actor: Some(admin.did.to_string()),
                id: attempt.id,
                url: attempt.url.as_deref().map(shown_url),
                error: text.clone(),
            };
            app.events.record(Event::Plugin(event));
            Err(Error::bad_request(text))
        }
        InstallError::Conflict(_) => Err(Error::conflict(text)),
        InstallError::Busy => Err(Error::new(StatusCode::SERVICE_UNAVAILABLE, text)),
        InstallError::Consent(permissions, changes) => {
            let body = ConsentRequired {
                error: "ConsentRequired",
                message: text,
                permissions: permissions.iter().map(PermissionView::undecided).collect(),
                changes,
            };
            Ok(response::json(StatusCode::BAD_REQUEST, &body))
        }
        InstallError::Store(error) => Err(error.into()),
    }
}
