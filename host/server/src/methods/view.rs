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
use belvedere_protocol::atproto::{AtIdentifier, Did, HandleUri};
use belvedere_scripting::views::{Arguments, Form, Offences, Reads, StoredView, View, ViewError};
use belvedere_storage::store::Db;
use belvedere_storage::store::replicas::ReadDb;
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
    let view = stored.view.as_ref().map_err(unfit)?;
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

/// The error of a stored view that does not fit its lexicon any more.
fn unfit(offences: &Offences) -> Error {
    Error::new(StatusCode::INTERNAL_SERVER_ERROR, "InternalServerError")
        .with_message(format!("the view of this method does not fit its lexicon: {offences}"))
}

fn refused(error: ViewError) -> Error {
    let text = error.to_string();
    match error {
        ViewError::Parameter(_) | ViewError::TooLarge => {
            Error::bad_request("InvalidRequest").with_message(text)
        }
        ViewError::NoViewer => Error::unauthorized(text),
        ViewError::NotFound => Error::not_found(text),
        ViewError::Setup(_) => {
            Error::new(StatusCode::INTERNAL_SERVER_ERROR, "InternalServerError").with_message(text)
        }
        ViewError::Store(error) => error.into(),
    }
}

/// The parameters of a call, with DIDs in place of handles.
async fn arguments(app: &App, view: &View, typed: &TypedCall<'_>) -> Result<Arguments, Error> {
    let call = typed.call;
    let mut values = typed.params.clone().unwrap_or_default();
    let named = |form: Form| {
        let uses = view.parameters().into_iter().filter(move |used| used.form == form);
        uses.map(|used| used.name).collect::<BTreeSet<_>>()
    };
    for name in named(Form::Account) {
        let Some(value) = values.get_mut(name) else { continue };
        match value {
            Value::Array(accounts) => {
                let handles =
                    accounts.iter().filter_map(Value::as_str).filter(|text| !text.starts_with("did:"));
                if handles.count() > MAX_HANDLES {
                    return Err(invalid(format!("{name} has more than {MAX_HANDLES} handles: use DIDs")));
                }
                let dids = accounts.iter().map(|account| did_of(app, call, name, account));
                *accounts = try_join_all(dids).await?;
            }
            account => *account = did_of(app, call, name, account).await?,
        }
    }
    for name in named(Form::Uri) {
        let Some(Value::String(uri)) = values.get_mut(name) else { continue };
        if let Some(named) = HandleUri::parse(uri) {
            pay_for_handle(app, &call.caller, &named.handle)?;
        }
        *uri = app.core.resolver.record_uri(uri).await?.to_string();
    }
    Ok(Arguments { values, viewer: call.caller.did.clone() })
}

async fn did_of(app: &App, call: &Call, name: &str, account: &Value) -> Result<Value, Error> {
    let named = account.as_str().and_then(AtIdentifier::parse);
    let named = named.ok_or_else(|| invalid(format!("{name} is neither a DID nor a handle")))?;
    Ok(account_of(app, &call.caller, name, named).await?.to_string().into())
}

fn invalid(text: String) -> Error {
    Error::bad_request("InvalidRequest").with_message(text)
}
