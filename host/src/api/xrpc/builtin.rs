//! What a query without a script does: list the records of its target collection, or give one.

use http::StatusCode;

use crate::api::{failed, paging};
use crate::app::App;
use crate::atproto::{Did, RecordUri};
use crate::http::{Error, Request, Response, response};
use crate::lexicons::Lexicon;
use crate::records::{Cursor, Page, render};
use crate::store::records::{self, ListArgs};

pub(super) async fn query(app: &App, lexicon: &Lexicon, request: &Request) -> Result<Response, Error> {
    match request.query("uri") {
        Some(uri) => single(app, lexicon, &uri).await,
        None => list(app, lexicon, request).await,
    }
}

async fn single(app: &App, lexicon: &Lexicon, uri: &str) -> Result<Response, Error> {
    let uri = RecordUri::parse(uri).map_err(|e| Error::bad_request(e.to_string()))?;
    let not_found = || Error::not_found("record not found");
    // A query shows its own collection and no other.
    if lexicon.target_collection.as_ref() != Some(&uri.collection) {
        return Err(not_found());
    }
    let row = records::get(&app.db, &uri).await.map_err(failed)?.ok_or_else(not_found)?;
    let pds = app.pds_of_blobs(std::slice::from_ref(&row)).await;
    Ok(response::json_bytes(StatusCode::OK, render::single_body(&row, &pds)))
}

async fn list(app: &App, lexicon: &Lexicon, request: &Request) -> Result<Response, Error> {
    let limit = paging::limit(request, paging::RECORDS)?;
    let after = request
        .query("cursor")
        .map(|text| Cursor::parse_keyset(&text))
        .transpose()
        .map_err(|e| Error::bad_request(e.to_string()))?;
    let did = request
        .query("did")
        .map(|text| Did::try_from(text.as_str()).map_err(|_| Error::bad_request("did is not a DID")))
        .transpose()?;

    let rows = match &lexicon.target_collection {
        None => Vec::new(),
        Some(collection) => {
            let args = ListArgs { collection, did: did.as_ref(), limit: limit + 1, after };
            records::list(&app.db, &args).await.map_err(failed)?
        }
    };
    let page = Page::cut(rows, limit);
    let pds = app.pds_of_blobs(&page.rows).await;
    Ok(response::json_bytes(StatusCode::OK, render::list_body(&page, &pds)))
}
