//! Answers a query with the view that is stored for it.

use std::collections::BTreeSet;
use std::time::Instant;

use futures_util::future::try_join_all;
use http::StatusCode;
use serde_json::Value;

use super::reading::Reading;
use super::scripted::report_output;
use super::{TypedCall, pay_for_handle};
use crate::app::App;
use belvedere_instance::events::Event;
use belvedere_instance::xrpc::{Answer, Call};
use belvedere_protocol::atproto::lexicon::Format;
use belvedere_protocol::atproto::{AtIdentifier, Did, HandleUri};
use belvedere_scripting::views::{Arguments, Form, Reads, StoredView, View, ViewError};
use belvedere_storage::store::StoreError;
use belvedere_web::http::Error;

/// Handles that one call may name: a page of them.
const MAX_HANDLES: usize = 100;

/// Answers a call with the view that is stored for its method.
///
/// # Errors
/// Those of the call; 500 when the view does not fit its lexicon any more.
pub(super) async fn answer(
    app: &App,
    stored: &StoredView,
    typed: &TypedCall<'_>,
    reading: &Reading,
) -> Result<Answer, Error> {
    let call = typed.call;
    let view = stored.view.as_ref().map_err(|offences| {
        Error::new(StatusCode::INTERNAL_SERVER_ERROR, "InternalServerError")
            .with_message(format!("the view of this method does not fit its lexicon: {offences}"))
    })?;
    let started = Instant::now();
    let answer = run(app, view, typed, reading).await?;
    if !reading.is_recorded {
        return Ok(answer);
    }
    if stored.outputs.takes()
        && let Err(errors) = app.registry.snapshot().check_output(call.nsid.as_str(), &answer.body)
    {
        report_output(app, &stored.trigger, call, errors.to_string());
    }
    app.events.record_verbose(|| Event::ScriptExecuted {
        version: None,
        caller: call.caller.did.as_ref().map(Did::to_string),
        method: call.nsid.to_string(),
        duration: started.elapsed(),
        response_size: answer.body.len(),
    });
    Ok(answer)
}

/// Answers a call with a view, which need not be stored.
pub(super) async fn run(
    app: &App,
    view: &View,
    typed: &TypedCall<'_>,
    reading: &Reading,
) -> Result<Answer, Error> {
    let arguments = arguments(app, view, typed, reading).await?;
    let caller = &typed.call.caller;
    let db = reading.db(app, caller).await;
    let reads = Reads {
        db: &db,
        tenant: &caller.tenant,
        profiles: &reading.profiles,
        resolver: &reading.resolver,
        now: app.clock.now(),
    };
    let body = view.run(reads, &arguments).await.map_err(refused)?;
    Ok(Answer::json(StatusCode::OK, body))
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
async fn arguments(
    app: &App,
    view: &View,
    typed: &TypedCall<'_>,
    reading: &Reading,
) -> Result<Arguments, Error> {
    let call = typed.call;
    let mut values = typed.params.clone().unwrap_or_default();
    // Compared first, so that a call that shows nothing costs the handle's domain nothing.
    if let Some((name, collection)) = view.record_parameter()
        && let Some(named) = values.get(name).and_then(Value::as_str).and_then(HandleUri::parse)
        && named.collection != *collection
    {
        return Err(refused(ViewError::NotFound));
    }
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
            try_join_all(texts.iter().map(|account| did_of(app, call, name, account, reading))).await?
        } else {
            try_join_all(texts.iter().map(|uri| with_did(app, call, uri, reading))).await?
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

async fn did_of(
    app: &App,
    call: &Call,
    name: &str,
    account: &str,
    reading: &Reading,
) -> Result<String, Error> {
    let named = AtIdentifier::parse(account);
    let named = named.ok_or_else(|| invalid(format!("{name} is neither a DID nor a handle")))?;
    Ok(reading.account_of(app, &call.caller, name, named).await?.to_string())
}

/// An AT URI with the DID in place of its handle. Others stay: what reads them names the mistake.
async fn with_did(app: &App, call: &Call, uri: &str, reading: &Reading) -> Result<String, Error> {
    let Some(named) = HandleUri::parse(uri) else { return Ok(uri.to_owned()) };
    pay_for_handle(app, &reading.resolver, &call.caller, &named.handle)?;
    Ok(reading.resolver.record_uri(uri).await?.to_string())
}

fn invalid(text: String) -> Error {
    Error::bad_request("InvalidRequest").with_message(text)
}
