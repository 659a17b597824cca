//! A query without a script: lists the records of its target collection, or gives one.

use http::StatusCode;

use super::reading::Reading;
use super::{TypedCall, pay_for_handle};
use crate::app::App;
use belvedere_instance::blob_hosts::BlobHosts;
use belvedere_instance::lexicons::Lexicon;
use belvedere_instance::xrpc::{Answer, Caller};
use belvedere_protocol::atproto::{AtIdentifier, HandleUri, Nsid};
use belvedere_storage::query::{PageSize, Position, Query, valid};
use belvedere_storage::render;
use belvedere_storage::store::records::{self, Page};
use belvedere_storage::store::{Db, query};
use belvedere_web::http::Error;

pub(super) async fn answer(
    app: &App,
    lexicon: &Lexicon,
    typed: &TypedCall<'_>,
    reading: &Reading,
) -> Result<Answer, Error> {
    let call = typed.call;
    let db = reading.db(app, &call.caller).await;
    match call.param("uri") {
        Some(uri) => single(app, &db, lexicon, &call.caller, uri, reading).await,
        None => list(app, &db, lexicon, typed, reading).await,
    }
}

async fn single(
    app: &App,
    db: &Db,
    lexicon: &Lexicon,
    caller: &Caller,
    uri: &str,
    reading: &Reading,
) -> Result<Answer, Error> {
    let not_found = || Error::not_found("record not found");
    // A query shows its own collection and no other.
    let is_shown = |collection: &Nsid| lexicon.target_collection.as_ref() == Some(collection);
    let resolver = &reading.resolver;
    if let Some(named) = HandleUri::parse(uri) {
        // Compared first, so that a call that shows nothing costs the handle's domain nothing.
        if !is_shown(&named.collection) {
            return Err(not_found());
        }
        pay_for_handle(app, resolver, caller, &named.handle)?;
    }
    let uri = resolver.record_uri(uri).await?;
    if !is_shown(&uri.collection) {
        return Err(not_found());
    }
    let row = records::get(db, &uri).await?.ok_or_else(not_found)?;
    let hosts = BlobHosts::of(resolver, std::slice::from_ref(&row)).await;
    Ok(Answer::json(StatusCode::OK, render::single_body(&row, hosts.get(&row.did))))
}

async fn list(
    app: &App,
    db: &Db,
    lexicon: &Lexicon,
    typed: &TypedCall<'_>,
    reading: &Reading,
) -> Result<Answer, Error> {
    let TypedCall { call, params, .. } = typed;
    // The lexicon may have a default.
    let default =
        params.as_ref().and_then(|params| params.get("limit")?.as_i64()).map(|limit| limit.to_string());
    let limit = PageSize::RECORDS
        .read(call.param("limit").or(default.as_deref()))
        .map_err(|invalid| Error::bad_request(invalid.to_string()))?;
    let account = call
        .param("did")
        .map(|text| {
            AtIdentifier::parse(text).ok_or_else(|| Error::bad_request("did is neither a DID nor a handle"))
        })
        .transpose()?;
    let valid = valid(call.param("valid")).map_err(|invalid| Error::bad_request(invalid.to_string()))?;
    let page = match lexicon.target_collection.clone() {
        None => Page::empty(),
        Some(collection) => {
            let after = Position::read(call.param("cursor"), None)
                .map_err(|invalid| Error::bad_request(invalid.to_string()))?;
            let did = match account {
                Some(account) => Some(reading.account_of(app, &call.caller, "did", account).await?),
                None => None,
            };
            let wanted = Query { did, limit, after, valid, ..Query::of(collection) };
            query::read(db, &wanted, &call.caller.tenant).await?
        }
    };
    let hosts = BlobHosts::of(&reading.resolver, &page.rows).await;
    Ok(Answer::json(StatusCode::OK, render::list_body(&page, |did| hosts.get(did))))
}
