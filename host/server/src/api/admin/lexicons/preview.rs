//! `POST /admin/lexicons/preview`: what an upload would change: one lexicon, or up to 100. Nothing is stored.

mod differences;
mod records;

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use self::differences::LexiconDifference;
use self::records::RecordsPreview;
use super::create::{self, LexiconUpload, check};
use crate::access::Admin;
use crate::api::answer::{Json, JsonResult};
use crate::api::input::WithBody;
use crate::app::App;
use belvedere_instance::lexicons::Snapshot;
use belvedere_protocol::atproto::Nsid;
use belvedere_protocol::atproto::lexicon::breaking_change;
use belvedere_storage::store::lexicons::{self, LexiconRow, NewLexicon};
use belvedere_web::http::{Error, Request};

/// Lexicons of one preview: a folder of an application's lexicons has a few dozen.
const MAX_LEXICONS: usize = 100;

/// Collections whose records are validated, besides those that are uploaded: each takes up to a second.
const MAX_OTHER_COLLECTIONS: usize = 10;

/// One lexicon, or several.
#[derive(Debug, JsonSchema)]
#[schemars(untagged)]
pub enum LexiconUploads {
    One(LexiconUpload),
    Several { lexicons: Vec<LexiconUpload> },
}

#[derive(Deserialize)]
struct Bodies {
    lexicons: Vec<Box<RawValue>>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct UploadPreview {
    lexicons: Vec<LexiconPreview>,
    /// Collections whose lexicons refer to the uploaded ones.
    affected: Vec<AffectedCollection>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct AffectedCollection {
    #[schemars(extend("format" = "nsid"))]
    collection: String,
    records: RecordsPreview,
}

#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct LexiconPreview {
    id: Option<String>,
    lexicon_type: Option<String>,
    /// `new`, `changed`, `unchanged` or `invalid`.
    #[schemars(extend("enum" = ["new", "changed", "unchanged", "invalid"]))]
    change: &'static str,
    revision: Option<i64>,
    next_revision: Option<i64>,
    /// The error that the upload would answer.
    error: Option<String>,
    source: Option<String>,
    differences: Vec<LexiconDifference>,
    differences_left_out: usize,
    /// The reason why clients or records that follow the stored document may break; null if they don't.
    breaking: Option<String>,
    /// The effect on the newest records, if they are validated in another way.
    records: Option<RecordsPreview>,
    starts_backfill: bool,
    warnings: Vec<String>,
}

pub async fn handle(
    app: Arc<App>,
    _admin: Admin,
    request: WithBody<LexiconUploads>,
) -> JsonResult<UploadPreview> {
    let bodies = bodies(&request)?;
    let stored = lexicons::list(&app.db).await?;
    let checked: Vec<Result<NewLexicon, Box<LexiconPreview>>> =
        bodies.iter().map(|body| read(body)).collect();
    let new: Vec<NewLexicon> = checked.iter().filter_map(|lexicon| lexicon.as_ref().ok()).cloned().collect();
    let current = app.registry.snapshot();
    let next = Snapshot::preview(stored.clone(), &new);

    let mut previews = Vec::with_capacity(checked.len());
    for lexicon in checked {
        previews.push(match lexicon {
            Ok(lexicon) => preview(&app, &lexicon, &stored, (&current, &next)).await?,
            Err(invalid) => *invalid,
        });
    }
    let mut affected = Vec::new();
    for collection in next.tracked().iter() {
        let is_uploaded = new.iter().any(|lexicon| lexicon.id == collection.as_str());
        if !is_uploaded && affected.len() < MAX_OTHER_COLLECTIONS {
            let records = records::validate(&app, collection, (&current, &next)).await?;
            let collection = collection.to_string();
            affected.extend(records.map(|records| AffectedCollection { collection, records }));
        }
    }
    Ok(Json(UploadPreview { lexicons: previews, affected }))
}

/// The uploads of a request: one, or a list of them.
fn bodies(request: &Request) -> Result<Vec<Box<RawValue>>, Error> {
    let fields: Value = request.json()?;
    if fields.get("lexicons").is_none() {
        return Ok(vec![request.json()?]);
    }
    let Bodies { lexicons } = request.json()?;
    if lexicons.len() > MAX_LEXICONS {
        return Err(Error::bad_request(format!("at most {MAX_LEXICONS} lexicons can be previewed at once")));
    }
    Ok(lexicons)
}

fn read(body: &RawValue) -> Result<NewLexicon, Box<LexiconPreview>> {
    let invalid = |error: String, id: Option<String>| {
        Box::new(LexiconPreview { id, change: "invalid", error: Some(error), ..LexiconPreview::default() })
    };
    let parsed: LexiconUpload =
        serde_json::from_str(body.get()).map_err(|error| invalid(error.to_string(), None))?;
    check(&parsed).map_err(|error: create::Invalid| {
        let document: Value = serde_json::from_str(parsed.lexicon_json.get()).unwrap_or_default();
        invalid(error.to_string(), document.get("id").and_then(Value::as_str).map(str::to_owned))
    })
}

async fn preview(
    app: &App,
    lexicon: &NewLexicon,
    stored: &[LexiconRow],
    (current, next): (&Snapshot, &Snapshot),
) -> Result<LexiconPreview, Error> {
    let row = stored.iter().find(|row| row.id == lexicon.id);
    let target = lexicon.target_collection.as_deref().filter(|target| !next.is_tracked(target));
    let mut preview = LexiconPreview {
        id: Some(lexicon.id.clone()),
        lexicon_type: Some(lexicon.lexicon_type.clone()),
        next_revision: Some(row.map_or(0, |row| row.revision) + 1),
        warnings: super::warnings(app, &lexicon.lexicon_json, target),
        ..LexiconPreview::default()
    };
    let Some(row) = row else {
        preview.change = "new";
        preview.starts_backfill = lexicon.backfill;
        return Ok(preview);
    };
    let document = |text: &str| serde_json::from_str::<Value>(text).unwrap_or_default();
    let (old, new) = (document(&row.lexicon_json), document(&lexicon.lexicon_json));
    (preview.differences, preview.differences_left_out) = differences::of(&old, &new);
    let is_same = preview.differences.is_empty() && settings(row) == new_settings(lexicon);
    preview.change = if is_same { "unchanged" } else { "changed" };
    preview.revision = Some(row.revision);
    preview.source = Some(row.source.clone());
    preview.breaking = breaking_change(&old, &new);
    if let Ok(collection) = Nsid::try_from(lexicon.id.as_str()) {
        preview.records = records::validate(app, &collection, (current, next)).await?;
    }
    Ok(preview)
}

type Settings<'a> = (Option<&'a str>, Option<&'a str>, Option<i64>);

fn settings(row: &LexiconRow) -> Settings<'_> {
    (row.target_collection.as_deref(), row.action.as_deref(), row.token_cost)
}

fn new_settings(new: &NewLexicon) -> Settings<'_> {
    (new.target_collection.as_deref(), new.action.as_deref(), new.token_cost)
}
