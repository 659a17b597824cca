//! `/admin/lexicons`: uploads, lists and deletes lexicons.

pub mod create;
pub(crate) mod differences;
pub mod preview;
pub mod revisions;
pub mod services;
pub(crate) mod uploads;

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::access::Admin;
use crate::api::answer::{Empty, EmptyResult, Json, JsonResult};
use crate::api::input::WithQuery;
use crate::api::paging;
use crate::app::{App, Topic};
use crate::methods;
use belvedere_base::clock::Timestamp;
use belvedere_base::hand_over_thread::hand_over_thread;
use belvedere_instance::events::Event;
use belvedere_instance::lexicons::Snapshot;
use belvedere_protocol::atproto::Nsid;
use belvedere_protocol::atproto::lexicon::{self, LexiconKind};
use belvedere_protocol::trigger::TriggerKind;
use belvedere_storage::store;
use belvedere_storage::store::lexicons::{LexiconRow, NewLexicon};
use belvedere_web::http::{Error, Request};

/// A lexicon as lists show it; the answer for a single lexicon adds the document.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Lexicon")]
pub struct LexiconView {
    #[schemars(extend("format" = "nsid"))]
    id: String,
    revision: i64,
    /// Absent in lists, unless they are asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    lexicon_json: Option<Box<RawValue>>,
    lexicon_type: String,
    backfill: bool,
    action: Option<String>,
    target_collection: Option<String>,
    source: String,
    authority_did: Option<String>,
    last_fetched_at: Option<Timestamp>,
    created_at: Timestamp,
    updated_at: Timestamp,
    token_cost: Option<i64>,
    /// `main.record` of a record lexicon, in lists without documents only.
    #[serde(skip_serializing_if = "Option::is_none")]
    record_schema: Option<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
}

/// The reason why a `target_collection` is invalid.
#[derive(Debug, thiserror::Error)]
pub(super) enum InvalidTarget {
    #[error("target_collection is not an NSID")]
    NotNsid,
    #[error("target_collection is for query, procedure and subscription lexicons; this one is of type {0}")]
    WithoutMethod(&'static str),
}

impl From<InvalidTarget> for Error {
    fn from(invalid: InvalidTarget) -> Self {
        Self::bad_request(invalid.to_string())
    }
}

/// Checks the target collection for a lexicon of this kind. An empty one is none.
pub(super) fn target_collection(
    target: Option<&str>,
    kind: LexiconKind,
) -> Result<Option<String>, InvalidTarget> {
    let Some(target) = target.filter(|target| !target.is_empty()) else { return Ok(None) };
    let target = Nsid::try_from(target).map_err(|_| InvalidTarget::NotNsid)?;
    if !matches!(kind, LexiconKind::Query | LexiconKind::Procedure | LexiconKind::Subscription) {
        return Err(InvalidTarget::WithoutMethod(kind.as_str()));
    }
    Ok(Some(target.to_string()))
}

/// The parts of an accepted lexicon that warnings are about.
pub(in crate::api::admin) struct Accepted<'a> {
    pub id: &'a str,
    pub lexicon_type: &'a str,
    pub document: &'a str,
    pub target_collection: Option<&'a str>,
}

/// Warnings for an operator about an accepted lexicon: its document says less than it seems, its target collection
/// is not here, which may be uploaded later, or be mistyped, or a query has nothing to answer.
pub(in crate::api::admin) fn warnings(app: &App, snapshot: &Snapshot, lexicon: &Accepted<'_>) -> Vec<String> {
    let of_target = match lexicon.target_collection {
        Some(target) => (!snapshot.is_tracked(target)).then(|| {
            format!(
                "target_collection {target} has no record lexicon, so none of its records are indexed: upload its lexicon, \
                 or correct target_collection"
            )
        }),
        None if lexicon.lexicon_type == LexiconKind::Subscription.as_str() => Some(
            "the subscription has no target_collection, so it has no messages: name the record collection whose changes it \
             sends"
                .to_owned(),
        ),
        None => (lexicon.lexicon_type == "query" && !methods::answers_without_target(app, lexicon.id)).then(|| {
            "the query has no target_collection, so it answers with an empty list: name the record collection that it \
             lists, or write its script"
                .to_owned()
        }),
    };
    let document: Value = serde_json::from_str(lexicon.document).unwrap_or_default();
    let of_messages = without_script(app, lexicon.id, &document);
    of_target.into_iter().chain(of_messages).chain(lexicon::warnings(&document)).collect()
}

/// The names of messages that are sent without a script.
const BUILT_IN_MESSAGES: [&str; 4] = ["create", "update", "delete", "info"];

/// A warning about the messages of a subscription that only a script can make, while there is none.
fn without_script(app: &App, id: &str, document: &Value) -> Option<String> {
    let refs = document.pointer("/defs/main/message/schema/refs").and_then(Value::as_array)?;
    let trigger = format!("{}:{id}", TriggerKind::Subscription.as_str());
    if app.scripting.runtime.scripts.get(&trigger).is_some() {
        return None;
    }
    let own = |name: &&str| {
        let short = name.strip_prefix(id).unwrap_or(name).strip_prefix('#');
        !short.is_some_and(|short| BUILT_IN_MESSAGES.contains(&short))
    };
    let others: Vec<&str> = refs.iter().filter_map(Value::as_str).filter(own).collect();
    (!others.is_empty()).then(|| {
        let names = others.join(", ");
        format!(
            "nothing sends the messages {names}: write the script {trigger}, which makes them of the changes"
        )
    })
}

impl<'a> Accepted<'a> {
    fn of(row: &'a LexiconRow) -> Self {
        Self {
            id: &row.id,
            lexicon_type: &row.lexicon_type,
            document: &row.lexicon_json,
            target_collection: row.target_collection.as_deref(),
        }
    }

    pub(in crate::api::admin) fn of_new(lexicon: &'a NewLexicon) -> Self {
        Self {
            id: &lexicon.id,
            lexicon_type: &lexicon.lexicon_type,
            document: &lexicon.lexicon_json,
            target_collection: lexicon.target_collection.as_deref(),
        }
    }
}

impl LexiconView {
    fn item(app: &App, row: LexiconRow) -> Self {
        let record_schema = (row.lexicon_type == "record")
            .then(|| serde_json::from_str::<Value>(&row.lexicon_json).ok())
            .flatten()
            .and_then(|mut document| document.pointer_mut("/defs/main/record").map(Value::take));
        Self { record_schema, ..Self::without_document(app, row) }
    }

    fn full(app: &App, row: LexiconRow) -> Self {
        let lexicon_json = RawValue::from_string(row.lexicon_json.clone()).ok();
        Self { lexicon_json, ..Self::without_document(app, row) }
    }

    fn without_document(app: &App, row: LexiconRow) -> Self {
        Self {
            warnings: warnings(app, &app.registry.snapshot(), &Accepted::of(&row)),
            id: row.id,
            revision: row.revision,
            lexicon_json: None,
            lexicon_type: row.lexicon_type,
            backfill: row.backfill,
            action: row.action,
            target_collection: row.target_collection,
            source: row.source,
            authority_did: row.authority_did,
            last_fetched_at: row.last_fetched_at,
            created_at: row.created_at,
            updated_at: row.updated_at,
            token_cost: row.token_cost,
            record_schema: None,
        }
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct LexiconsQuery {
    /// `true`: with their documents, and without `record_schema`.
    documents: Option<String>,
}

/// `GET /admin/lexicons`: the lexicons, by id, without their documents unless `documents` is `true`.
pub async fn list(
    app: Arc<App>,
    _admin: Admin,
    request: WithQuery<LexiconsQuery>,
) -> JsonResult<Vec<LexiconView>> {
    let documents = paging::flag("documents", request.parameters()?.documents.as_deref(), false)?;
    let view = if documents { LexiconView::full } else { LexiconView::item };
    let rows = store::lexicons::list(&app.db).await?;
    let bytes = rows.iter().map(|row| row.lexicon_json.len()).sum();
    let views = || rows.into_iter().map(|row| view(&app, row)).collect();
    Ok(Json(hand_over_thread(bytes, views)))
}

/// `GET /admin/lexicons/{id}`: a lexicon with its document.
pub async fn get(app: Arc<App>, _admin: Admin, request: Request) -> JsonResult<LexiconView> {
    let row = store::lexicons::get(&app.db, request.param("id")).await?;
    let row = row.ok_or_else(|| Error::not_found("lexicon not found"))?;
    Ok(Json(LexiconView::full(&app, row)))
}

/// `DELETE /admin/lexicons/{id}`: removes a lexicon. A method stops working at once; indexed records and scripts stay.
pub async fn delete(app: Arc<App>, admin: Admin, request: Request) -> EmptyResult {
    let id = request.param("id");
    if !store::lexicons::delete(&app.db, id).await? {
        return Err(Error::not_found("lexicon not found"));
    }
    app.changed(Topic::Lexicons).await?;
    app.events.record(Event::LexiconDeleted { actor: admin.did.to_string(), nsid: id.to_owned() });
    Ok(Empty)
}
