//! Reads the conditions of `GET /admin/records`.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::api::paging::{self, Page, given};
use crate::app::App;
use belvedere_base::clock::Timestamp;
use belvedere_protocol::atproto::{Did, Nsid, RecordKey};
use belvedere_storage::query::{Filter, HasLabel, Narrow, PageSize, Position, Query};
use belvedere_storage::store::StoreError;
use belvedere_web::http::Error;

#[derive(Debug, Deserialize, JsonSchema)]
pub struct RecordsQuery {
    #[schemars(required, extend("format" = "nsid"))]
    collection: Option<String>,
    #[schemars(with = "Option<bool>")]
    valid: Option<String>,
    /// A DID or a handle.
    repo: Option<String>,
    rkey: Option<String>,
    /// Indexed at this time or later.
    #[schemars(with = "Option<Timestamp>")]
    from: Option<String>,
    /// Indexed before this time.
    #[schemars(with = "Option<Timestamp>")]
    before: Option<String>,
    /// The value of a label that is in effect.
    label: Option<String>,
    /// Conditions on fields, as JSON: the filter of `db.query`.
    filter: Option<String>,
    /// `true`: the records that operators have hidden or taken down here, which the list leaves out otherwise; needs
    /// `moderation:read`. Only with `collection`, `repo` and `rkey`.
    #[schemars(with = "Option<bool>")]
    pub(super) moderated: Option<String>,
    #[serde(flatten)]
    page: Page,
}

/// A request for moderated records.
pub(super) struct ModeratedRequest {
    pub collection: Nsid,
    pub did: Option<Did>,
    pub rkey: Option<RecordKey>,
    pub limit: u32,
    pub cursor: Option<String>,
}

/// The query for moderated records that a request describes.
///
/// # Errors
/// 400 naming the parameter that is wrong; 502 when a handle can't be resolved now.
pub(super) async fn read_moderated(app: &App, query: RecordsQuery) -> Result<ModeratedRequest, Error> {
    let others = [&query.valid, &query.from, &query.before, &query.label, &query.filter];
    if others.into_iter().any(|other| given(other.as_deref()).is_some()) {
        return Err(Error::bad_request("moderated=true goes with collection, repo and rkey only"));
    }
    let (limit, cursor) = (query.page.limit(PageSize::RECORDS)?, query.page.cursor());
    let Query { collection, did, narrow, .. } =
        read(app, RecordsQuery { page: Page::default(), ..query }).await?;
    if narrow.rkey.is_some() && did.is_none() {
        return Err(Error::bad_request("rkey with moderated=true needs repo"));
    }
    // The conditions have been checked.
    let rkey = narrow.rkey.and_then(|rkey| RecordKey::try_from(rkey.as_str()).ok());
    Ok(ModeratedRequest { collection, did, rkey, limit, cursor })
}

/// The query that a request describes. A handle in `repo` is resolved.
///
/// # Errors
/// 400 naming the parameter that is wrong; 502 when a handle can't be resolved now.
pub(super) async fn read(app: &App, query: RecordsQuery) -> Result<Query, Error> {
    let collection = paging::required("collection", query.collection)?;
    let collection =
        Nsid::try_from(collection.as_str()).map_err(|_| Error::bad_request("collection is not an NSID"))?;
    let did = match given(query.repo.as_deref()) {
        Some(repo) => Some(app.core.resolver.account(&repo).await?),
        None => None,
    };
    let rkey = given(query.rkey.as_deref());
    if rkey.as_deref().is_some_and(|rkey| RecordKey::try_from(rkey).is_err()) {
        return Err(Error::bad_request("rkey is not a record key"));
    }
    let label = given(query.label.as_deref()).map(|val| HasLabel::new(val, app.clock.now()));
    let label = label.transpose().map_err(|_| Error::bad_request("label is not the value of a label"))?;
    let (from, before) =
        (paging::time("from", query.from.as_deref())?, paging::time("before", query.before.as_deref())?);
    Ok(Query {
        did,
        limit: query.page.limit(PageSize::RECORDS)?,
        after: Position::read(query.page.cursor.as_deref(), None)
            .map_err(|invalid| Error::bad_request(invalid.to_string()))?,
        filter: given(query.filter.as_deref()).map(|text| filter(&text)).transpose()?,
        valid: paging::valid(query.valid.as_deref())?,
        narrow: Narrow { rkey, from, before, label, ..Narrow::default() },
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
