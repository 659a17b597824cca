//! A procedure without a script: writes to its target collection in the caller's repo, and indexes what was written
//! (service.md, Public and XRPC; auth-and-clients.md §8).

use bytes::Bytes;
use http::StatusCode;
use serde_json::{Map, Value};

use super::{TypedCall, delegate, pds_session};
use crate::app::App;
use belvedere_instance::lexicons::{Lexicon, ProcedureAction};
use belvedere_instance::pds::{Write, WriteAction};
use belvedere_instance::repos::{RecordScripts, Validation};
use belvedere_instance::xrpc::Answer;
use belvedere_protocol::atproto::lexicon::KeyType;
use belvedere_protocol::atproto::{Did, Nsid, RecordKey, RecordUri, set_record_type};
use belvedere_web::http::{Error, request};

pub(super) async fn answer(app: &App, lexicon: &Lexicon, typed: &TypedCall<'_>) -> Result<Answer, Error> {
    let call = typed.call;
    let Some(collection) = &lexicon.target_collection else {
        let text = "the procedure has neither a script nor a target_collection";
        return Err(Error::bad_request(text));
    };
    // Without defaults: the caller's repo gets what the caller sent.
    let mut fields: Map<String, Value> = request::json(call.input.as_deref().unwrap_or_default())?;
    fields.remove("shouldPublish");
    let account = delegate::take(app, &call.caller, &mut fields).await?;
    let session = pds_session::of(app, &call.caller, account.as_ref()).await?;
    let write = write_of(app, lexicon.action, collection, &session.did, fields)?;
    app.repos.check_writes(std::slice::from_ref(&write), Validation::Lexicon)?;
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
    let named = named_key(app, collection, &mut fields)?;
    let (rkey, action) = match (action, uri.map(|uri| uri.rkey)) {
        (ProcedureAction::Create, Some(_)) => {
            return Err(Error::bad_request("this procedure creates records: leave uri out"));
        }
        (ProcedureAction::Update, None) => return Err(needs("updates")),
        (ProcedureAction::Delete, None) => return Err(needs("deletes")),
        (ProcedureAction::Delete, rkey) => (rkey, WriteAction::Delete),
        (_, Some(rkey)) => {
            if named.is_some_and(|named| named != rkey) {
                return Err(Error::bad_request("rkey is not the key in uri: leave one of them out"));
            }
            (Some(rkey), WriteAction::Put(record_of(collection, fields)?))
        }
        (_, None) => {
            let rkey = app.repos.key_of_new(collection, named);
            (rkey, WriteAction::Create(record_of(collection, fields)?))
        }
    };
    Ok(Write { collection: collection.clone(), rkey, action, swap: None })
}

/// The key that a body names in `rkey`, in collections whose records have NSIDs as keys: there neither the server nor the
/// PDS can generate one. Elsewhere `rkey` is a field like any other.
fn named_key(
    app: &App,
    collection: &Nsid,
    fields: &mut Map<String, Value>,
) -> Result<Option<RecordKey>, Error> {
    if *app.registry.snapshot().key_type(collection.as_str()) != KeyType::Nsid {
        return Ok(None);
    }
    match fields.remove("rkey") {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => RecordKey::try_from(text.as_str())
            .map(Some)
            .map_err(|_| Error::bad_request("rkey is not a record key")),
        Some(_) => Err(Error::bad_request("rkey must be a string")),
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

/// The text of the record, with `$type`.
fn record_of(collection: &Nsid, mut fields: Map<String, Value>) -> Result<Bytes, Error> {
    set_record_type(&mut fields, collection.as_str())
        .map_err(|error| Error::bad_request(error.to_string()))?;
    Ok(Value::Object(fields).to_string().into())
}
