//! `/admin/labels`: the labels that this instance issues as a labeler.

use std::sync::Arc;

use http::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::access::Admin;
use crate::api::answer::{Json, JsonResult};
use crate::api::body::or_default;
use crate::api::input::{WithBody, WithQuery};
use crate::api::paging::{Page, given};
use crate::app::App;
use belvedere_base::clock::Timestamp;
use belvedere_instance::events::Event;
use belvedere_instance::labels::{IssueError, LabelRequest};
use belvedere_storage::query::PageSize;
use belvedere_storage::store::issued_labels::{self, IssuedLabel};
use belvedere_storage::store::replicas::Writer;
use belvedere_web::http::Error;

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "IssuedLabel")]
struct IssuedLabelView {
    /// The number of the message in which subscribers get it.
    seq: i64,
    src: String,
    uri: String,
    val: String,
    /// The version of the record; null: all.
    cid: Option<String>,
    /// Whether it negates an earlier label.
    neg: bool,
    cts: Timestamp,
    /// Null: it does not expire.
    exp: Option<Timestamp>,
    /// The DID of the operator, or the trigger of the script.
    created_by: String,
}

impl From<IssuedLabel> for IssuedLabelView {
    fn from(issued: IssuedLabel) -> Self {
        let IssuedLabel { seq, label, created_by } = issued;
        let (src, uri, val, cid, neg) = (label.src, label.uri, label.val, label.cid, label.neg);
        Self { seq, src, uri, val, cid, neg, cts: label.cts, exp: label.exp, created_by }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct IssuedLabelList {
    labels: Vec<IssuedLabelView>,
    /// Absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct IssuedLabelQuery {
    /// A DID, or an AT URI.
    uri: Option<String>,
    #[serde(flatten)]
    page: Page,
}

/// `GET /admin/labels`: the labels that this instance has issued, newest first. A later one of the same subject, value and version
/// replaces an earlier one.
pub async fn list(
    app: Arc<App>,
    _admin: Admin,
    request: WithQuery<IssuedLabelQuery>,
) -> JsonResult<IssuedLabelList> {
    let IssuedLabelQuery { uri, page } = request.parameters()?;
    let limit = page.limit(PageSize::LOGS)?;
    let before = page.cursor().map(|cursor| cursor.parse()).transpose();
    let before = before.map_err(|_| Error::bad_request("cursor must be the cursor of an earlier answer"))?;
    let uri = given(uri.as_deref());
    let mut rows = issued_labels::list(&app.db, uri.as_deref(), before, limit + 1).await?;
    let more = rows.len() > limit as usize;
    rows.truncate(limit as usize);
    let cursor = rows.last().filter(|_| more).map(|row| row.seq.to_string());
    Ok(Json(IssuedLabelList { labels: rows.into_iter().map(IssuedLabelView::from).collect(), cursor }))
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct NewLabel {
    /// A DID, or an AT URI with a DID.
    uri: String,
    /// 1 to 128 bytes.
    val: String,
    /// The version of the record that it applies to; absent: all.
    cid: Option<String>,
    /// Whether an earlier label is negated.
    #[serde(default, deserialize_with = "or_default")]
    neg: bool,
    /// The time from which on it is no longer in force.
    #[schemars(extend("format" = "date-time"))]
    exp: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct IssuedLabelAnswer {
    /// Null when the same label was in force already, or there was none to negate.
    label: Option<IssuedLabelView>,
}

/// `POST /admin/labels`: applies a label of this instance to a record or an account, or negates one. Subscribers get it signed.
pub async fn create(
    app: Arc<App>,
    admin: Admin,
    request: WithBody<NewLabel>,
) -> JsonResult<IssuedLabelAnswer> {
    let NewLabel { uri, val, cid, neg, exp } = request.json()?;
    let exp = exp.map(|text| Timestamp::parse(&text)).transpose();
    let exp = exp.map_err(|_| Error::bad_request("exp must be a time like 2026-01-31T12:00:00Z"))?;
    let actor = admin.did.to_string();
    let issued = app.label_issuer.issue(&LabelRequest { uri, val, cid, neg, exp }, &actor).await;
    let issued = issued.map_err(refused)?;
    if let Some(IssuedLabel { seq, label, .. }) = &issued {
        app.db.announce_writes(&[Writer::account(&admin.did)]).await;
        let (uri, val, neg) = (label.uri.clone(), label.val.clone(), label.neg);
        app.events.record(Event::LabelIssued { actor, uri, val, neg, seq: *seq });
    }
    Ok(Json(IssuedLabelAnswer { label: issued.map(IssuedLabelView::from) }))
}

fn refused(error: IssueError) -> Error {
    match error {
        IssueError::Store(error) => error.into(),
        IssueError::NoLabeler => Error::new(StatusCode::CONFLICT, error.to_string()),
        IssueError::Label(_) | IssueError::Expired => Error::bad_request(error.to_string()),
    }
}
