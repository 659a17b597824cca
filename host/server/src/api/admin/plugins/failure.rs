//! The answers and events about a plugin that was not installed.

use futures_util::future::Either;
use http::StatusCode;
use serde::Serialize;

use super::upload::Unreadable;
use super::view::PluginPermission;
use crate::access::Admin;
use crate::api::answer::Json;
use crate::app::App;
use belvedere_instance::events::Event;
use belvedere_scripting::plugins::changes::Changes;
use belvedere_scripting::plugins::install::{InstallError, Origin};
use belvedere_scripting::plugins::{manifest_id, shortened, shown_url};
use belvedere_web::http::{Error, Response, response};

/// The answer of an endpoint that installs a plugin, or the question for consent.
pub type Attempted<T> = Result<Either<Json<T>, Response>, Error>;

/// The plugin of a request; parts that are not known are `None`.
#[derive(Debug, Default)]
pub(super) struct Attempt {
    pub(super) id: Option<String>,
    pub(super) url: Option<String>,
}

impl Attempt {
    /// The id is that of an uploaded manifest.
    pub(super) fn of(origin: &Origin) -> Self {
        match origin {
            Origin::Url(url) => Self { id: None, url: Some(url.clone()) },
            Origin::Upload { manifest, .. } => Self { id: manifest_id(manifest), url: None },
        }
    }
}

/// The body of the 400 that asks for consent.
#[derive(Serialize)]
struct ConsentRequired {
    error: &'static str,
    message: String,
    permissions: Vec<PluginPermission>,
    #[serde(skip_serializing_if = "Option::is_none")]
    changes: Option<Box<Changes>>,
}

/// Answers a plugin that was not installed. One that can't be used is an event.
///
/// # Errors
/// All but the question for consent.
pub(super) fn answer<T>(app: &App, admin: &Admin, attempt: Attempt, error: InstallError) -> Attempted<T> {
    let text = shortened(error.to_string());
    match error {
        InstallError::Invalid(_) => {
            record(app, admin, attempt, text.clone());
            Err(Error::bad_request(text))
        }
        InstallError::Conflict(_) => Err(Error::conflict(text)),
        InstallError::Busy => Err(Error::new(StatusCode::SERVICE_UNAVAILABLE, text)),
        InstallError::Consent(permissions, changes) => {
            let body = ConsentRequired {
                error: "ConsentRequired",
                message: text,
                permissions: permissions.iter().map(PluginPermission::undecided).collect(),
                changes,
            };
            Ok(Either::Right(response::json(StatusCode::BAD_REQUEST, &body)))
        }
        InstallError::Store(error) => Err(error.into()),
    }
}

/// The answer to a body that can't be read. It is an event as well.
pub(super) fn unreadable(app: &App, admin: &Admin, broken: Unreadable) -> Error {
    let Unreadable { id, error } = broken;
    let error = Error { error: shortened(error.error.into_owned()).into(), ..error };
    record(app, admin, Attempt { id, url: None }, error.error.to_string());
    error
}

fn record(app: &App, admin: &Admin, attempt: Attempt, error: String) {
    app.events.record(Event::PluginRefused {
        actor: Some(admin.did.to_string()),
        id: attempt.id,
        url: attempt.url.as_deref().map(shown_url).map(shortened),
        error,
    });
}
