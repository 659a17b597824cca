//! Reads the conditions of `GET /admin/records`.

use serde_json::Value;

use crate::api::paging;
use crate::app::App;
use belvedere_protocol::atproto::{Nsid, RecordKey};
use belvedere_storage::query::{Filter, HasLabel, Narrow, PageSize, Position, Query};
use belvedere_storage::store::StoreError;
use belvedere_web::http::{Error, Request};

/// The query that a request describes. A handle in `repo` is resolved.
///
/// # Errors
/// 400 naming the parameter that is wrong; 502 when a handle can't be resolved now.
pub(super) async fn read(app: &App, request: &Request) -> Result<Query, Error> {
    let collection = paging::required(request, "collection")?;
    let collection =
        Nsid::try_from(collection.as_str()).map_err(|_| Error::bad_request("collection is not an NSID"))?;
    let did = match paging::optional(request, "repo") {
        Some(repo) => Some(app.core.resolver.account(&repo).await?),
        None => None,
    };
    let rkey = paging::optional(request, "rkey");
    if rkey.as_deref().is_some_and(|rkey| RecordKey::try_from(rkey).is_err()) {
        return Err(Error::bad_request("rkey is not a record key"));
    }
    let label = paging::optional(request, "label").map(|val| HasLabel::new(val, app.clock.now()));
    let label = label.transpose().map_err(|_| Error::bad_request("label is not the value of a label"))?;
    let (from, before) = (paging::time(request, "from")?, paging::time(request, "before")?);
    Ok(Query {
        did,
        limit: paging::limit(request, PageSize::RECORDS)?,
        after: Position::read(request.query("cursor").as_deref(), None)
            .map_err(|invalid| Error::bad_request(invalid.to_string()))?,
        filter: paging::optional(request, "filter").map(|text| filter(&text)).transpose()?,
        valid: paging::valid(request.query("valid").as_deref())?,
        narrow: Narrow { rkey, from, before, label },
        ..Query::of(collection)
    })
}

fn filter(text: &str) -> Result<Filter, Error> {
    let value: Value = serde_json::from_str(text).map_err(|_| {
        Error::bad_request(r#"filter is not JSON, like [{"field": "text", "op": "LIKE", "value": "%a%"}]"#)
    })?;
    Filter::from_json(&value).map_err(|invalid| Error::bad_request(invalid.to_string()))
}

/// Maps a failed read to a response: conditions may need a scan of the collection, whose time is limited.
pub(super) fn read_error(error: StoreError) -> Error {
    match error {
        StoreError::TooSlow => Error::bad_request(
            "the conditions have to be looked up in too many records: name an account, or a shorter time",
        ),
        error => error.into(),
    }
}
