//! Reads the conditions of `GET /admin/records`.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::nsid;
use crate::api::paging::{self, Page, given};
use crate::app::App;
use belvedere_base::clock::Timestamp;
use belvedere_protocol::atproto::lexicon::{FieldKind, RecordField};
use belvedere_protocol::atproto::{Did, Nsid, RecordKey};
use belvedere_storage::query::filter::Combine;
use belvedere_storage::query::{
    Direction, Filter, HasLabel, MAX_SEARCH_FIELDS, Narrow, PageSize, Path, Position, Query, Search, Sort,
};
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
    /// A text that one of the collection's fields of text contains: the first four that its lexicon declares, ignoring the case of ASCII
    /// letters. Without other conditions and `sort` the best matches come first.
    text: Option<String>,
    /// A field, `indexed_at`, `did` or `uri`, with `-` before it for the descending order. Newest first without it.
    sort: Option<String>,
    /// `true`: the records that operators have hidden or taken down here, which the list leaves out otherwise; needs
    /// `moderation:read`. Only with `collection`, `repo` and `rkey`.
    #[schemars(with = "Option<bool>")]
    pub(super) moderated: Option<String>,
    #[serde(flatten)]
    page: Page,
}

/// A request for moderated records.
#[derive(Debug)]
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
    let others =
        [&query.valid, &query.from, &query.before, &query.label, &query.filter, &query.text, &query.sort];
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

/// The search for the text of a request, if that is its only condition.
///
/// # Errors
/// 400 naming the parameter that is wrong.
pub(super) fn read_search(app: &App, query: &RecordsQuery) -> Result<Option<Search>, Error> {
    let others = [
        &query.valid,
        &query.repo,
        &query.rkey,
        &query.from,
        &query.before,
        &query.label,
        &query.filter,
        &query.sort,
    ];
    let Some(text) = given(query.text.as_deref()) else { return Ok(None) };
    if others.into_iter().any(|other| given(other.as_deref()).is_some()) {
        return Ok(None);
    }
    let collection = collection(query.collection.clone())?;
    let (limit, cursor) = (query.page.limit(PageSize::RECORDS)?, query.page.cursor());
    let fields = text_fields(app, &collection)?;
    let search = Search::parse(collection, &fields, text, Some(limit.into()), cursor.as_deref());
    search.map(Some).map_err(|invalid| Error::bad_request(invalid.to_string()))
}

/// The query that a request describes. A handle in `repo` is resolved.
///
/// # Errors
/// 400 naming the parameter that is wrong; 502 when a handle can't be resolved now.
pub(super) async fn read(app: &App, query: RecordsQuery) -> Result<Query, Error> {
    let collection = collection(query.collection)?;
    let did = match given(query.repo.as_deref()) {
        Some(repo) => Some(app.core.resolver.account(&repo).await?),
        None => None,
    };
    let rkey = given(query.rkey.as_deref());
    if rkey.as_deref().is_some_and(|rkey| RecordKey::try_from(rkey).is_err()) {
        return Err(Error::bad_request("rkey is not a record key"));
    }
    let filter = given(query.filter.as_deref()).map(|text| filter(&text)).transpose()?;
    let text = match given(query.text.as_deref()) {
        Some(text) => Some(contains(&text_fields(app, &collection)?, &text)?),
        None => None,
    };
    let sort = given(query.sort.as_deref()).map(|text| sort(&text)).transpose()?;
    let label = given(query.label.as_deref()).map(|val| HasLabel::new(val, app.clock.now()));
    let label = label.transpose().map_err(|_| Error::bad_request("label is not the value of a label"))?;
    let (from, before) =
        (paging::time("from", query.from.as_deref())?, paging::time("before", query.before.as_deref())?);
    Ok(Query {
        did,
        limit: query.page.limit(PageSize::RECORDS)?,
        after: position(query.page.cursor.as_deref(), sort.as_ref())?,
        filter: both(filter, text),
        sort,
        valid: paging::valid(query.valid.as_deref())?,
        narrow: Narrow { rkey, from, before, label, ..Narrow::default() },
        ..Query::of(collection)
    })
}

/// # Errors
/// 400 when it is missing, or no NSID.
pub(super) fn collection(given: Option<String>) -> Result<Nsid, Error> {
    nsid::parse("collection", &paging::required("collection", given)?)
}

/// The position of a cursor in a list with this order.
///
/// # Errors
/// 400 when it is none.
pub(super) fn position(cursor: Option<&str>, sort: Option<&Sort>) -> Result<Option<Position>, Error> {
    Position::read(cursor, sort).map_err(|invalid| Error::bad_request(invalid.to_string()))
}

fn filter(text: &str) -> Result<Filter, Error> {
    let value: Value = serde_json::from_str(text).map_err(|_| {
        Error::bad_request(r#"filter is not JSON, like [{"field": "text", "op": "LIKE", "value": "%a%"}]"#)
    })?;
    Filter::from_json(&value).map_err(|invalid| Error::bad_request(invalid.to_string()))
}

fn sort(text: &str) -> Result<Sort, Error> {
    let (key, direction) =
        text.strip_prefix('-').map_or((text, Direction::Asc), |key| (key, Direction::Desc));
    Sort::parse(key, direction)
        .map_err(|_| Error::bad_request(r#"sort is not a field, like "n" or "-subject.uri""#))
}

/// The fields in which `text` is looked for, those of the record itself first.
fn text_fields(app: &App, collection: &Nsid) -> Result<Vec<String>, Error> {
    let declared = app.registry.snapshot().record_fields(collection.as_str());
    let is_text = |field: &&RecordField| {
        field.kind == FieldKind::Text && field.format.is_none() && field.values.is_empty()
    };
    let mut fields: Vec<&RecordField> = declared.iter().filter(is_text).collect();
    fields.sort_by_key(|field| field.path.len());
    let paths = fields.into_iter().map(|field| field.path.join("."));
    let paths: Vec<String> = paths.filter(|path| Path::parse(path).is_ok()).take(MAX_SEARCH_FIELDS).collect();
    if paths.is_empty() {
        let text =
            format!("the lexicon of {collection} declares no field of text: use filter instead of text");
        return Err(Error::bad_request(text));
    }
    Ok(paths)
}

/// The condition that one of the fields contains a text.
fn contains(fields: &[String], text: &str) -> Result<Filter, Error> {
    let pattern = text.replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_");
    let children =
        fields.iter().map(|field| json!({ "field": field, "op": "LIKE", "value": format!("%{pattern}%") }));
    let any = json!({ "combine": "OR", "children": children.collect::<Vec<_>>() });
    Filter::from_json(&any).map_err(|invalid| Error::bad_request(format!("text: {invalid}")))
}

fn both(filter: Option<Filter>, text: Option<Filter>) -> Option<Filter> {
    match (filter, text) {
        (Some(filter), Some(text)) => {
            Some(Filter::Group { combine: Combine::And, children: vec![filter, text] })
        }
        (filter, text) => filter.or(text),
    }
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
