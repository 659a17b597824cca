//! Reads the pages of `GET /admin/records`, and of its exports.

use std::collections::HashMap;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::value::RawValue;

use super::conditions::{self, ModeratedRequest, RecordsQuery};
use super::moderated::{self, ModeratedPage};
use crate::access::{Admin, Permission};
use crate::api::paging::{self, given};
use crate::app::App;
use belvedere_base::clock::Timestamp;
use belvedere_protocol::atproto::Nsid;
use belvedere_storage::query::{Position, Query, Search};
use belvedere_storage::store::labels::{self, ActiveLabel};
use belvedere_storage::store::moderation::ModerationRow;
use belvedere_storage::store::query;
use belvedere_storage::store::records::FullRecordRow;
use belvedere_storage::store::search;
use belvedere_web::fair_share::Tenant;
use belvedere_web::http::Error;

/// A list of records, and the place in it where the next page begins.
#[derive(Debug)]
pub(super) enum Listing {
    Visible(Box<Query>),
    /// The best matches of a text first.
    Search(Search),
    /// Records that operators have hidden or taken down here.
    Moderated(ModeratedRequest),
}

/// A page of a list.
#[derive(Debug)]
pub(super) struct RecordPage {
    pub records: Vec<IndexedRecord>,
    /// `None` on the last page.
    pub cursor: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Record")]
pub(super) struct IndexedRecord {
    #[schemars(extend("format" = "at-uri"))]
    pub uri: String,
    #[schemars(extend("format" = "did"))]
    pub did: String,
    #[schemars(extend("format" = "nsid"))]
    collection: String,
    pub rkey: String,
    pub cid: Option<String>,
    pub indexed_at: Timestamp,
    updated_at: Timestamp,
    /// Whether the collection's lexicon accepts the record.
    valid: bool,
    /// The reason why it does not.
    invalid_reason: Option<String>,
    pub record: Box<RawValue>,
    labels: Vec<RecordLabel>,
    /// With `moderated=true`: the decision in force on the record, or else on its account.
    #[serde(skip_serializing_if = "Option::is_none")]
    moderation: Option<ModerationRow>,
}

/// A label in force: one of a labeler, or one that the author put into the record.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct RecordLabel {
    src: String,
    val: String,
    /// Empty for a label of the author.
    cts: String,
}

impl From<ActiveLabel> for RecordLabel {
    fn from(label: ActiveLabel) -> Self {
        let cts = label.cts.map(|cts| cts.to_string()).unwrap_or_default();
        Self { src: label.src, val: label.val, cts }
    }
}

impl IndexedRecord {
    /// `labels`: those of the page, by URI.
    fn new(
        full: FullRecordRow,
        labels: &mut HashMap<String, Vec<ActiveLabel>>,
    ) -> Result<Self, serde_json::Error> {
        let FullRecordRow { row, updated_at, invalid_reason, .. } = full;
        let uri = row.uri();
        let labels = labels.remove(&uri).unwrap_or_default();
        Ok(Self {
            labels: labels.into_iter().map(RecordLabel::from).collect(),
            moderation: None,
            uri,
            record: serde_json::from_slice(&row.record)?,
            cid: row.cid.map(|cid| cid.to_string()),
            did: row.did,
            collection: row.collection.as_str().to_owned(),
            rkey: row.rkey,
            indexed_at: row.indexed_at,
            updated_at,
            valid: invalid_reason.is_none(),
            invalid_reason,
        })
    }
}

impl Listing {
    /// The list that a request describes. A handle in `repo` is resolved.
    ///
    /// # Errors
    /// 400 naming the parameter that is wrong; 403 for moderated records; 502 when a handle can't be resolved now.
    pub async fn read(app: &App, admin: &Admin, query: RecordsQuery) -> Result<Self, Error> {
        let moderated = given(query.moderated.as_deref());
        if !paging::flag("moderated", moderated.as_deref(), false)? {
            return match conditions::read_search(app, &query)? {
                Some(search) => Ok(Self::Search(search)),
                None => Ok(Self::Visible(Box::new(conditions::read(app, query).await?))),
            };
        }
        if !admin.may(Permission::ModerationRead) {
            return Err(Error::forbidden("moderated=true needs the permission moderation:read"));
        }
        conditions::read_moderated(app, query).await.map(Self::Moderated)
    }

    pub fn collection(&self) -> &Nsid {
        match self {
            Self::Visible(query) => &query.collection,
            Self::Search(search) => &search.collection,
            Self::Moderated(request) => &request.collection,
        }
    }

    /// Makes pages as large as they may be.
    pub fn with_limit(mut self, limit: u32) -> Self {
        match &mut self {
            Self::Visible(query) => query.limit = limit,
            Self::Search(search) => search.limit = limit,
            Self::Moderated(request) => request.limit = limit,
        }
        self
    }

    /// The list from the end of a page on.
    ///
    /// # Errors
    /// 400 for what is not the cursor of a page of this list.
    pub fn after(self, cursor: String) -> Result<Self, Error> {
        Ok(match self {
            Self::Visible(query) => {
                let after = conditions::position(Some(&cursor), query.sort.as_ref())?;
                Self::Visible(Box::new(Query { after, ..*query }))
            }
            Self::Search(search) => {
                let search = search.after(Some(&cursor));
                Self::Search(search.map_err(|invalid| Error::bad_request(invalid.to_string()))?)
            }
            Self::Moderated(request) => Self::Moderated(ModeratedRequest { cursor: Some(cursor), ..request }),
        })
    }

    /// # Errors
    /// 400 when the conditions need a scan that takes too long; 503 when the database is busy.
    pub async fn page(&self, app: &App, tenant: &Tenant) -> Result<RecordPage, Error> {
        match self {
            Self::Visible(query) => visible(app, query, tenant).await,
            Self::Search(search) => found(app, search, tenant).await,
            Self::Moderated(request) => moderated(app, request).await,
        }
    }
}

async fn visible(app: &App, query: &Query, tenant: &Tenant) -> Result<RecordPage, Error> {
    let page = query::read_full(&app.db, query, tenant).await.map_err(conditions::read_error)?;
    let mut records = with_labels(app, page.rows).await?;
    if let Some(label) = &query.narrow.label {
        records.retain(|record| record.labels.iter().any(|given| given.val == label.val));
    }
    Ok(RecordPage { records, cursor: page.next.as_ref().map(Position::cursor) })
}

async fn found(app: &App, search: &Search, tenant: &Tenant) -> Result<RecordPage, Error> {
    let (rows, next) = search::read_full(&app.db, search, tenant).await.map_err(conditions::read_error)?;
    Ok(RecordPage { records: with_labels(app, rows).await?, cursor: next.map(|next| next.cursor()) })
}

async fn moderated(app: &App, request: &ModeratedRequest) -> Result<RecordPage, Error> {
    let ModeratedPage { rows, decisions, cursor } = moderated::page(app, request).await?;
    let mut records = with_labels(app, rows).await?;
    for record in &mut records {
        let decision = decisions.get(&record.uri).or_else(|| decisions.get(&record.did));
        record.moderation = decision.cloned();
    }
    Ok(RecordPage { records, cursor })
}

async fn with_labels(app: &App, rows: Vec<FullRecordRow>) -> Result<Vec<IndexedRecord>, Error> {
    let uris: Vec<String> = rows.iter().map(|full| full.row.uri()).collect();
    let mut labels = labels::active(&app.db, &uris, app.clock.now()).await?;
    let records = rows.into_iter().map(|full| IndexedRecord::new(full, &mut labels));
    records.collect::<Result<Vec<_>, _>>().map_err(Error::internal)
}
