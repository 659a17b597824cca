//! `POST /admin/lexicons/preview`: what an upload would change: one lexicon, or up to 2,000. Nothing is stored.

mod records;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use self::records::{Comparison, RecordsPreview};
use super::Accepted;
use super::differences::{self, LexiconDifference};
use super::uploads::{InvalidUpload, LexiconUploads, Uploads};
use crate::access::Admin;
use crate::api::answer::{Json, JsonResult};
use crate::api::input::WithBody;
use crate::app::App;
use belvedere_base::hand_over_thread::hand_over_thread;
use belvedere_instance::lexicons::Snapshot;
use belvedere_protocol::atproto::Nsid;
use belvedere_protocol::atproto::lexicon::breaking_change;
use belvedere_storage::store::lexicons::{self, Change, LexiconRow, NewLexicon};

/// Uploaded collections whose records are validated: each takes up to a second.
const MAX_COLLECTIONS: usize = 100;

/// Collections whose records are validated, besides those that are uploaded.
const MAX_OTHER_COLLECTIONS: usize = 10;

#[derive(Debug, Serialize, JsonSchema)]
pub struct UploadPreview {
    lexicons: Vec<LexiconPreview>,
    /// Collections whose lexicons refer to the uploaded ones.
    affected: Vec<AffectedCollection>,
    /// Collections whose records are validated in another way, beyond the first 100 uploaded and 10 others.
    collections_left_out: usize,
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
    let uploads = Uploads::read(&request)?;
    let stored = lexicons::list(&app.db).await?;
    let rows: HashMap<&str, &LexiconRow> = stored.iter().map(|row| (row.id.as_str(), row)).collect();
    let row = |lexicon: &NewLexicon| rows.get(lexicon.id.as_str()).copied();
    let merged = |lexicon: NewLexicon| row(&lexicon).map(|row| lexicon.over(row)).unwrap_or(lexicon);
    let lexicons: Vec<_> = uploads.lexicons.into_iter().map(|lexicon| lexicon.map(merged)).collect();
    let new: Vec<NewLexicon> = lexicons.iter().filter_map(|lexicon| lexicon.as_ref().ok()).cloned().collect();
    let current = app.registry.snapshot();
    let next = Snapshot::preview(stored.clone(), &new);

    let bytes = new.iter().map(|lexicon| lexicon.lexicon_json.len()).sum();
    let mut previews: Vec<LexiconPreview> = hand_over_thread(bytes, || {
        let preview = |lexicon| match lexicon {
            Ok(lexicon) => preview(&app, &lexicon, row(&lexicon), &next),
            Err(invalid) => LexiconPreview::from(invalid),
        };
        lexicons.into_iter().map(preview).collect()
    });
    let mut uploaded = Comparison::new(&app, (&current, &next), MAX_COLLECTIONS);
    for preview in &mut previews {
        let collection = preview.id.as_deref().filter(|_| preview.revision.is_some());
        if let Some(collection) = collection.and_then(|id| Nsid::try_from(id).ok()) {
            preview.records = uploaded.validate(&collection).await?;
        }
    }
    let ids: HashSet<&str> = new.iter().map(|lexicon| lexicon.id.as_str()).collect();
    let mut others = Comparison::new(&app, (&current, &next), MAX_OTHER_COLLECTIONS);
    let mut affected = Vec::new();
    for collection in next.tracked().iter().filter(|collection| !ids.contains(collection.as_str())) {
        let records = others.validate(collection).await?;
        let collection = collection.to_string();
        affected.extend(records.map(|records| AffectedCollection { collection, records }));
    }
    let collections_left_out = uploaded.left_out + others.left_out;
    Ok(Json(UploadPreview { lexicons: previews, affected, collections_left_out }))
}

impl From<InvalidUpload> for LexiconPreview {
    fn from(InvalidUpload { id, reason }: InvalidUpload) -> Self {
        Self { id, change: "invalid", error: Some(reason), ..Self::default() }
    }
}

/// The preview without the effect on records. `row`: the stored lexicon, whose settings `lexicon` has kept.
fn preview(app: &App, lexicon: &NewLexicon, row: Option<&LexiconRow>, next: &Snapshot) -> LexiconPreview {
    let mut preview = LexiconPreview {
        id: Some(lexicon.id.clone()),
        lexicon_type: Some(lexicon.lexicon_type.clone()),
        next_revision: Some(row.map_or(0, |row| row.revision) + 1),
        warnings: super::warnings(app, next, &Accepted::of_new(lexicon)),
        ..LexiconPreview::default()
    };
    let Some(row) = row else {
        preview.change = Change::New.as_str();
        preview.starts_backfill = lexicon.backfill;
        return preview;
    };
    let change = if lexicon.is_stored_as(row) { Change::Unchanged } else { Change::Changed };
    let document = |text: &str| serde_json::from_str::<Value>(text).unwrap_or_default();
    let (old, new) = (document(&row.lexicon_json), document(&lexicon.lexicon_json));
    (preview.differences, preview.differences_left_out) = differences::of(&old, &new);
    preview.change = change.as_str();
    preview.revision = Some(row.revision);
    preview.source = Some(row.source.clone());
    preview.breaking = breaking_change(&old, &new);
    preview
}
