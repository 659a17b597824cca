//! `POST /admin/lexicons`: uploads a lexicon, or a newer revision of one. It applies to requests and to the running
//! stream before the answer is sent.

use std::sync::Arc;

use futures_util::future::Either;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::access::Admin;
use crate::api::admin::backfill;
use crate::api::answer::Json;
use crate::api::input::WithBody;
use crate::app::App;
use crate::app::Topic;
use belvedere_instance::events::Event;
use belvedere_instance::lexicons::ProcedureAction;
use belvedere_protocol::atproto::lexicon::{LexiconDoc, LexiconError, LexiconKind};
use belvedere_storage::store::{self, lexicons::MANUAL, lexicons::NewLexicon};
use belvedere_web::http::Error;

use super::InvalidTarget;

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "NewLexicon")]
pub struct LexiconUpload {
    /// Kept verbatim: the lexicon is shown as it was uploaded.
    pub(super) lexicon_json: Box<RawValue>,
    /// True when absent. Only of a record lexicon's first upload.
    backfill: Option<bool>,
    target_collection: Option<String>,
    token_cost: Option<i64>,
    /// The write that a procedure without a script does.
    action: Option<ProcedureAction>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct SavedLexicon {
    #[schemars(extend("format" = "nsid"))]
    id: String,
    revision: i64,
    /// Null when the upload started no backfill.
    backfill_job_id: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
}

/// The reason why an upload is invalid.
#[derive(Debug, thiserror::Error)]
pub(super) enum Invalid {
    #[error("lexicon_json is not JSON: {0}")]
    Json(serde_json::Error),
    #[error(transparent)]
    Document(#[from] LexiconError),
    #[error(transparent)]
    Target(#[from] InvalidTarget),
    #[error("token_cost must be 0 or more and at most {max}", max = u32::MAX)]
    TokenCost,
}

impl From<Invalid> for Error {
    fn from(invalid: Invalid) -> Self {
        Self::bad_request(invalid.to_string())
    }
}

pub async fn handle(
    app: Arc<App>,
    admin: Admin,
    request: WithBody<LexiconUpload>,
) -> Result<Either<Json<SavedLexicon, 201>, Json<SavedLexicon>>, Error> {
    let body = request.json()?;
    let lexicon = NewLexicon { saved_by: Some(admin.did.to_string()), ..check(&body)? };
    let now = app.clock.now();
    let saved = store::lexicons::upsert(&app.db, &lexicon, now).await?;
    app.changed(Topic::Lexicons).await?;

    let (actor, nsid, revision) = (admin.did.to_string(), lexicon.id.clone(), saved.revision);
    app.events.record(if saved.created {
        Event::LexiconCreated { actor, nsid, revision }
    } else {
        Event::LexiconUpdated { actor, nsid, revision }
    });
    let warnings = super::warnings(&app, &lexicon.lexicon_json, lexicon.target_collection.as_deref());
    // After the lexicon applies to the stream, so that no record is missed by both.
    let backfill_job_id = if saved.created && lexicon.backfill {
        backfill::start_for_lexicon(&app, &admin, &lexicon.id).await?
    } else {
        None
    };
    let answer = SavedLexicon { id: lexicon.id, revision: saved.revision, backfill_job_id, warnings };
    Ok(if saved.created { Either::Left(Json(answer)) } else { Either::Right(Json(answer)) })
}

pub(super) fn check(body: &LexiconUpload) -> Result<NewLexicon, Invalid> {
    let document: Value = serde_json::from_str(body.lexicon_json.get()).map_err(Invalid::Json)?;
    let document = LexiconDoc::parse(&document)?;
    let target_collection = super::target_collection(body.target_collection.as_deref(), document.kind)?;
    if body.token_cost.is_some_and(|cost| u32::try_from(cost).is_err()) {
        return Err(Invalid::TokenCost);
    }
    Ok(NewLexicon {
        id: document.id.as_str().to_owned(),
        lexicon_type: document.kind.as_str().to_owned(),
        lexicon_json: body.lexicon_json.get().to_owned(),
        backfill: body.backfill.unwrap_or(true) && document.kind == LexiconKind::Record,
        // Without one the store keeps none, and the default applies.
        action: body
            .action
            .filter(|action| *action != ProcedureAction::default())
            .map(|action| action.as_str().to_owned()),
        target_collection,
        source: MANUAL.to_owned(),
        authority_did: None,
        last_fetched_at: None,
        token_cost: body.token_cost,
        saved_by: None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn body(more: Value) -> LexiconUpload {
        let mut all = json!({ "lexicon_json": {
            "lexicon": 1, "id": "com.example.list",
            "defs": { "main": { "type": "query", "output": { "encoding": "application/json" } } },
        }});
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_str(&all.to_string()).unwrap()
    }

    #[test]
    fn keeps_the_fields_of_the_specification() {
        let lexicon =
            check(&body(json!({ "target_collection": "com.example.note", "token_cost": 5 }))).unwrap();
        assert_eq!(lexicon.id, "com.example.list");
        assert_eq!(lexicon.lexicon_type, "query");
        assert_eq!(lexicon.target_collection.as_deref(), Some("com.example.note"));
        assert_eq!(lexicon.token_cost, Some(5));
        assert!(!lexicon.backfill, "only records are backfilled");
    }

    #[test]
    fn names_the_invalid_field() {
        for (more, text) in [
            (json!({ "target_collection": "nope" }), "target_collection is not an NSID"),
            (json!({ "token_cost": -1 }), "token_cost"),
            (json!({ "lexicon_json": { "lexicon": 2, "id": "com.example.a", "defs": {} } }), "lexicon"),
        ] {
            let error = check(&body(more)).err().unwrap().to_string();
            assert!(error.contains(text), "{error}");
        }
    }
}
