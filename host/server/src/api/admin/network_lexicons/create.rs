//! `POST /admin/network-lexicons`: takes a lexicon from the network, and follows its publisher from then on.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::nsid;
use crate::access::Admin;
use crate::api::admin::{backfill, lexicons as uploads};
use crate::api::answer::{Json, JsonResult};
use crate::api::input::WithBody;
use crate::app::{App, Topic};
use belvedere_instance::events::Event;
use belvedere_protocol::atproto::Did;
use belvedere_protocol::atproto::lexicon::LexiconKind;
use belvedere_storage::store::lexicons::{self, NETWORK, NewLexicon};

#[derive(Debug, Deserialize, JsonSchema)]
pub struct NewNetworkLexicon {
    #[schemars(extend("format" = "nsid"))]
    nsid: String,
    target_collection: Option<String>,
    /// Whether to read the history of a record lexicon's collection. False when absent.
    backfill: Option<bool>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct AddedNetworkLexicon {
    #[schemars(extend("format" = "nsid"))]
    nsid: String,
    authority_did: Did,
    revision: i64,
    /// Null when no backfill was started.
    backfill_job_id: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
}

pub async fn handle(
    app: Arc<App>,
    admin: Admin,
    request: WithBody<NewNetworkLexicon>,
) -> JsonResult<AddedNetworkLexicon, 201> {
    let body = request.json()?;
    let nsid = nsid::parse("nsid", &body.nsid)?;
    let found = app.network_lexicons.resolve(&nsid).await?;
    let kind = found.document.kind;
    let target_collection = uploads::target_collection(body.target_collection.as_deref(), kind)?;
    let now = app.clock.now();
    let lexicon = NewLexicon {
        id: nsid.to_string(),
        lexicon_type: kind.as_str().to_owned(),
        lexicon_json: found.text,
        backfill: body.backfill.unwrap_or(false) && kind == LexiconKind::Record,
        target_collection,
        source: NETWORK.to_owned(),
        authority_did: Some(found.authority.to_string()),
        last_fetched_at: Some(now),
        saved_by: Some(admin.did.to_string()),
        ..NewLexicon::default()
    };
    let saved = lexicons::upsert(&app.db, &lexicon, now).await?;
    app.changed(Topic::Lexicons).await?;

    let revision = saved.revision;
    app.events.record(Event::NetworkLexiconAdded {
        actor: Some(admin.did.to_string()),
        nsid: nsid.clone(),
        authority: found.authority.clone(),
        revision,
    });
    // After the lexicon applies to the stream, so that no record is missed by both.
    let backfill_job_id =
        if lexicon.backfill { backfill::start_for_lexicon(&app, &admin, nsid.as_str()).await? } else { None };
    let answer = AddedNetworkLexicon {
        nsid: nsid.to_string(),
        authority_did: found.authority,
        revision,
        backfill_job_id,
        warnings: uploads::warnings(&app, &app.registry.snapshot(), &uploads::Accepted::of_new(&lexicon)),
    };
    Ok(Json(answer))
}
