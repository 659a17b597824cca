//! Lists the fields of a collection's records, for columns and conditions.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;

use super::{CollectionQuery, collection_of};
use crate::access::Admin;
use crate::api::answer::{Json, JsonResult};
use crate::api::input::WithQuery;
use crate::app::App;
use belvedere_protocol::atproto::lexicon::{FieldKind, RecordField};
use belvedere_storage::query::Path;
use belvedere_storage::store::fields::{self, IndexKind};

#[derive(Debug, Serialize, JsonSchema)]
pub struct RecordFields {
    fields: Vec<Field>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "RecordField")]
struct Field {
    /// The path, which conditions and `sort` take.
    path: String,
    #[serde(rename = "type")]
    #[schemars(extend("enum" = ["string", "integer", "boolean", "array", "object"]))]
    kind: &'static str,
    /// The format of a string.
    format: Option<String>,
    /// The values that the lexicon lists or proposes.
    values: Vec<String>,
    required: bool,
    /// The indexes that serve it: `filter` for equality and ranges, `sort` for `sort`, `search` for `text`. Without one every record of
    /// the collection is read.
    #[schemars(extend("items" = { "type": "string", "enum": ["filter", "sort", "search"] }))]
    indexes: Vec<&'static str>,
}

/// `GET /admin/records/fields?collection=`: the fields that the lexicon of a collection declares, required ones first. The
/// properties of an object are fields themselves (`subject.uri`).
pub async fn get(
    app: Arc<App>,
    _admin: Admin,
    request: WithQuery<CollectionQuery>,
) -> JsonResult<RecordFields> {
    let collection = collection_of(request.parameters()?)?;
    let declared = app.registry.snapshot().record_fields(collection.as_str());
    let ready = fields::ready(&app.db, &collection).await?;
    Ok(Json(RecordFields { fields: declared.iter().map(|field| Field::new(field, &ready)).collect() }))
}

impl Field {
    fn new(field: &RecordField, ready: &[(Path, IndexKind)]) -> Self {
        let path = field.path.join(".");
        let indexes = ready.iter().filter(|(indexed, _)| indexed.to_string() == path);
        Self {
            kind: match field.kind {
                FieldKind::Text => "string",
                FieldKind::Integer => "integer",
                FieldKind::Boolean => "boolean",
                FieldKind::List => "array",
                FieldKind::Object => "object",
            },
            format: field.format.clone(),
            values: field.values.clone(),
            required: field.is_required,
            indexes: indexes.map(|(_, kind)| kind.as_str()).collect(),
            path,
        }
    }
}
