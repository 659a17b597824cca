//! Answers a query with the view that is stored for it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use futures_util::future::try_join_all;
use http::StatusCode;
use serde_json::Value;

use super::scripted::report_output;
use super::{TypedCall, account_of, pay_for_handle};
use crate::app::App;
use belvedere_instance::events::Event;
use belvedere_instance::xrpc::{Answer, Call};
use belvedere_protocol::atproto::lexicon::Format;
use belvedere_protocol::atproto::{AtIdentifier, Did, HandleUri};
use belvedere_scripting::views::{Arguments, Form, Reads, StoredView, View, ViewError};
use belvedere_storage::store::replicas::ReadDb;
use belvedere_storage::store::{Db, StoreError};
use belvedere_web::http::Error;

/// Handles that one call may name: a page of them.
const MAX_HANDLES: usize = 100;

/// The view that answers a query, if one is stored.
pub(super) fn view_of(app: &App, call: &Call) -> Option<Arc<StoredView>> {
    app.scripting.views.get(call.nsid.as_str())
}

/// `may_lag`: whether a replica may answer.
pub(super) async fn answer(
    app: &App,
    stored: &StoredView,
    typed: &TypedCall<'_>,
    may_lag: bool,
) -> Result<Answer, Error> {
    let call = typed.call;
    let view = runnable(stored)?;
    let db = if may_lag { app.db.read_for(|| call.caller.writer()).await } else { ReadDb::primary(&app.db) };
    let started = Instant::now();
    let answer = run(app, &db, view, typed).await?;
    if stored.outputs.takes()
        && let Err(errors) = app.registry.snapshot().check_output(call.nsid.as_str(), &answer.body)
    {
        report_output(app, &stored.trigger, call, errors.to_string());
    }
    app.events.record_verbose(|| Event::ScriptExecuted {
        caller: call.caller.did.as_ref().map(Did::to_string),
        method: call.nsid.to_string(),
        duration: started.elapsed(),
        response_size: answer.body.len(),
    });
    Ok(answer)
}

/// Answers a call with a view, which need not be stored.
pub(super) async fn run(app: &App, db: &Db, view: &View, typed: &TypedCall<'_>) -> Result<Answer, Error> {
    let arguments = arguments(app, view, typed).await?;
    let reads = Reads {
        db,
        tenant: &typed.call.caller.tenant,
        profiles: app.scripting.profiles.as_ref(),
        resolver: &app.core.resolver,
        now: app.clock.now(),
    };
    let body = view.run(reads, &arguments).await.map_err(refused)?;
    Ok(Answer::json(StatusCode::OK, body))
}

/// # Errors
/// 500 for a stored view that does not fit its lexicon any more.
pub(super) fn runnable(stored: &StoredView) -> Result<&View, Error> {
    stored.view.as_ref().map_err(|offences| {
        Error::new(StatusCode::INTERNAL_SERVER_ERROR, "InternalServerError")
            .with_message(format!("the view of this method does not fit its lexicon: {offences}"))
    })
}

fn refused(error: ViewError) -> Error {
    let text = error.to_string();
    match error {
        ViewError::Parameter(_) => Error::bad_request("InvalidRequest").with_message(text),
        ViewError::NoViewer => Error::unauthorized(text),
        ViewError::NotFound => Error::not_found(text),
        ViewError::Setup(_) => {
            Error::new(StatusCode::INTERNAL_SERVER_ERROR, "InternalServerError").with_message(text)
        }
        ViewError::Busy(_) | ViewError::Store(StoreError::TooSlow) => {
            Error::new(StatusCode::SERVICE_UNAVAILABLE, text)
        }
        ViewError::Store(error) => error.into(),
    }
}

/// The parameters of a call, with DIDs in place of handles: where the view takes them for accounts or URIs, or the lexicon says that
/// they are.
async fn arguments(app: &App, view: &View, typed: &TypedCall<'_>) -> Result<Arguments, Error> {
    let call = typed.call;
    let mut values = typed.params.clone().unwrap_or_default();
    let lexicons = app.registry.snapshot();
    let uses = view.parameters();
    let names: BTreeSet<&str> = uses.iter().map(|used| used.name).collect();
    for name in names {
        let Some(value) = values.get_mut(name) else { continue };
        let is_used_as = |form: Form| uses.iter().any(|used| used.name == name && used.form == form);
        let format = lexicons.param_format(call.nsid.as_str(), name);
        let is_account = is_used_as(Form::Account) || format == Some(Format::AtIdentifier);
        if !is_account && !is_used_as(Form::Uri) && format != Some(Format::AtUri) {
            continue;
        }
        let texts = texts(name, value)?;
        let resolved = if is_account {
            try_join_all(texts.iter().map(|account| did_of(app, call, name, account))).await?
        } else {
            try_join_all(texts.iter().map(|uri| with_did(app, call, uri))).await?
        };
        let values = if let Value::Array(values) = value { values } else { std::slice::from_mut(value) };
        for (value, resolved) in values.iter_mut().zip(resolved) {
            *value = resolved.into();
        }
    }
    Ok(Arguments { values, viewer: call.caller.did.clone() })
}

/// The value of a parameter, or each of its values, with a bounded number of handles.
fn texts(name: &str, value: &Value) -> Result<Vec<String>, Error> {
    let values = if let Value::Array(values) = value { values } else { std::slice::from_ref(value) };
    let texts: Vec<String> =
        values.iter().map(|value| value.as_str().unwrap_or_default().to_owned()).collect();
    if texts.iter().filter(|text| !is_of_did(text)).count() > MAX_HANDLES {
        return Err(invalid(format!("{name} has more than {MAX_HANDLES} handles: use DIDs")));
    }
    Ok(texts)
}

/// Whether a text is a DID, or an AT URI that begins with one.
fn is_of_did(text: &str) -> bool {
    text.strip_prefix("at://").unwrap_or(text).starts_with("did:")
}

async fn did_of(app: &App, call: &Call, name: &str, account: &str) -> Result<String, Error> {
    let named = AtIdentifier::parse(account);
    let named = named.ok_or_else(|| invalid(format!("{name} is neither a DID nor a handle")))?;
    Ok(account_of(app, &call.caller, name, named).await?.to_string())
}

/// An AT URI with the DID in place of its handle. Others stay: what reads them names the mistake.
async fn with_did(app: &App, call: &Call, uri: &str) -> Result<String, Error> {
    let Some(named) = HandleUri::parse(uri) else { return Ok(uri.to_owned()) };
    pay_for_handle(app, &call.caller, &named.handle)?;
    Ok(app.core.resolver.record_uri(uri).await?.to_string())
}

fn invalid(text: String) -> Error {
    Error::bad_request("InvalidRequest").with_message(text)
}
