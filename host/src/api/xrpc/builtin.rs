//! What a query without a script does: list the records of its target collection, or give one.

use std::sync::Arc;

use http::StatusCode;

use super::blob_hosts::BlobHosts;
use crate::access::XrpcCaller;
use crate::api::paging;
use crate::app::App;
use crate::atproto::{Did, RecordUri};
use crate::http::{Error, Request, Response, response};
use crate::lexicons::Lexicon;
use crate::records::{Page, Query, page, render};
use crate::store::records;

pub(super) async fn query(
    app: &Arc<App>,
    lexicon: &Lexicon,
    caller: &XrpcCaller,
    request: &Request,
) -> Result<Response, Error> {
    match request.query("uri") {
        Some(uri) => single(app, lexicon, &uri).await,
        None => list(app, lexicon, caller, request).await,
    }
}

async fn single(app: &Arc<App>, lexicon: &Lexicon, uri: &str) -> Result<Response, Error> {
    let uri = RecordUri::parse(uri).map_err(|e| Error::bad_request(e.to_string()))?;
    let not_found = || Error::not_found("record not found");
    // A query shows its own collection and no other.
    if lexicon.target_collection.as_ref() != Some(&uri.collection) {
        return Err(not_found());
    }
    let row = records::get(&app.db, &uri).await?.ok_or_else(not_found)?;
    let hosts = BlobHosts::of(app, std::slice::from_ref(&row)).await;
    Ok(response::json_bytes(StatusCode::OK, render::single_body(&row, hosts.get(&row.did))))
}

async fn list(
    app: &Arc<App>,
    lexicon: &Lexicon,
    caller: &XrpcCaller,
    request: &Request,
) -> Result<Response, Error> {
    let tenant = caller.tenant();
    let limit = paging::limit(request, paging::RECORDS)?;
    let did = request
        .query("did")
        .map(|text| Did::try_from(text.as_str()).map_err(|_| Error::bad_request("did is not a DID")))
        .transpose()?;
    let page = match lexicon.target_collection.clone() {
        None => Page { rows: Vec::new(), cursor: None },
        Some(collection) => {
            let query = Query { did, limit, cursor: request.query("cursor"), ..Query::of(collection) };
            page::read(&app.db, &query, &tenant).await?
        }
    };
    let hosts = BlobHosts::of(app, &page.rows).await;
    Ok(response::json_bytes(StatusCode::OK, render::list_body(&page, |did| hosts.get(did))))
}
