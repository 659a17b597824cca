//! A procedure without a script: writes to its target collection in the caller's repo, and indexes what was written
//! (service.md, Public and XRPC; auth-and-clients.md §8).

use bytes::Bytes;
use http::StatusCode;
use serde_json::{Map, Value};

use super::{delegate, pds_session};
use crate::app::App;
use crate::atproto::{Did, Nsid, RecordKey, RecordUri, record};
use crate::http::{Error, request};
use crate::lexicons::{Lexicon, ProcedureAction};
use crate::pds::{Write, WriteAction};
use crate::repos::RecordScripts;
use crate::xrpc::{Answer, Call};

pub(super) async fn answer(app: &App, lexicon: &Lexicon, call: &Call) -> Result<Answer, Error> {
    let Some(collection) = &lexicon.target_collection else {
        let text = "the procedure has neither a script nor a target_collection";
        return Err(Error::bad_request(text));
    };
    let mut fields: Map<String, Value> = request::json(call.input.as_deref().unwrap_or_default())?;
    fields.remove("shouldPublish");
    let account = delegate::take(app, &call.caller, &mut fields).await?;
    let session = pds_session::of(app, &call.caller, account.as_ref()).await?;
    let write = write_of(app, lexicon.action, collection, &session.did, fields)?;
    let agent = app.repos.agent(&session, &call.caller.tenant);
    let (committed, body) = match agent.write_with_response(&write).await {
        Ok(done) => done,
        Err(error) => return pds_session::failed(error),
    };
    app.repos.mirror_writes(&session.did, std::slice::from_ref(&write), committed, RecordScripts::Now).await;
    if call.caller.did.as_ref() != Some(&session.did) {
        app.repos.announce(&[call.caller.writer()]).await;
    }
    Ok(Answer::json(StatusCode::OK, body))
}

/// The write that the fields of a body describe.
fn write_of(
    app: &App,
    action: ProcedureAction,
    collection: &Nsid,
    repo: &Did,
    mut fields: Map<String, Value>,
) -> Result<Write, Error> {
    let uri = match fields.remove("uri") {
        None | Some(Value::Null) => None,
        Some(Value::String(uri)) => Some(own_uri(&uri, collection, repo)?),
        Some(_) => return Err(Error::bad_request("uri must be an AT URI")),
    };
    let needs =
        |what: &str| Error::bad_request(format!("this procedure {what} records: say which one in uri"));
    let rkey = uri.map(|uri| uri.rkey);
    match (action, rkey) {
        (ProcedureAction::Create, Some(_)) => {
            Err(Error::bad_request("this procedure creates records: leave uri out"))
        }
        (ProcedureAction::Update, None) => Err(needs("updates")),
        (ProcedureAction::Delete, None) => Err(needs("deletes")),
        (ProcedureAction::Delete, rkey @ Some(_)) => {
            Ok(Write { collection: collection.clone(), rkey, action: WriteAction::Delete, swap: None })
        }
        (_, rkey @ Some(_)) => {
            let record = record_of(app, collection, fields)?;
            Ok(Write { collection: collection.clone(), rkey, action: WriteAction::Put(record), swap: None })
        }
        (_, None) => {
            let rkey = fixed_key(app, collection);
            let record = record_of(app, collection, fields)?;
            Ok(Write {
                collection: collection.clone(),
                rkey,
                action: WriteAction::Create(record),
                swap: None,
            })
        }
    }
}

/// Parses the URI of a record of the caller's own in the procedure's collection.
fn own_uri(text: &str, collection: &Nsid, repo: &Did) -> Result<RecordUri, Error> {
    let uri = RecordUri::parse(text).map_err(|error| Error::bad_request(format!("uri: {error}")))?;
    if uri.did != *repo {
        return Err(Error::forbidden("uri names a record of another repo"));
    }
    if uri.collection != *collection {
        return Err(Error::bad_request(format!("uri names a record that is not of {collection}")));
    }
    Ok(uri)
}

/// The record with `$type`, checked against its lexicon.
fn record_of(app: &App, collection: &Nsid, mut fields: Map<String, Value>) -> Result<Bytes, Error> {
    if fields.get("$type").is_some_and(|kind| kind != collection.as_str()) {
        return Err(Error::bad_request(format!("$type must be {collection}, or be left out")));
    }
    fields.insert("$type".to_owned(), collection.as_str().into());
    let record = Value::Object(fields);
    app.registry
        .snapshot()
        .check_record(collection.as_str(), &record)
        .map_err(|invalid| Error::bad_request(format!("invalid record: {invalid}")))?;
    let text = Bytes::from(record.to_string());
    let inspected = record::inspect(&text).map_err(|error| Error::bad_request(error.to_string()))?;
    inspected.cid.map_err(|error| Error::bad_request(format!("invalid record: {error}")))?;
    Ok(text)
}

/// The one key that records of a collection have, when its lexicon fixes it (`literal:self`).
fn fixed_key(app: &App, collection: &Nsid) -> Option<RecordKey> {
    let schema = app.registry.snapshot().record_schema(collection.as_str())?;
    let schema: Value = serde_json::from_slice(&schema).ok()?;
    RecordKey::try_from(schema.get("key")?.as_str()?.strip_prefix("literal:")?).ok()
}
