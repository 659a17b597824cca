//! `/admin/network-lexicons`: lexicons that follow their publishers on the network (admin-api.md §7).

pub mod create;

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::nsid;
use crate::access::Admin;
use crate::api::answer::{Empty, EmptyResult, Json, JsonResult};
use crate::app::{App, Topic};
use belvedere_base::clock::Timestamp;
use belvedere_instance::events::Event;
use belvedere_protocol::atproto::Did;
use belvedere_storage::store::lexicons::{self, LexiconRow, NETWORK};
use belvedere_web::http::{Error, Request};

/// A lexicon as the list shows it (service.md, Network lexicon).
#[derive(Debug, Serialize, JsonSchema)]
pub struct NetworkLexicon {
    #[schemars(extend("format" = "nsid"))]
    nsid: String,
    authority_did: Option<String>,
    target_collection: Option<String>,
    last_fetched_at: Option<Timestamp>,
    created_at: Timestamp,
}

impl From<LexiconRow> for NetworkLexicon {
    fn from(row: LexiconRow) -> Self {
        Self {
            nsid: row.id,
            authority_did: row.authority_did,
            target_collection: row.target_collection,
            last_fetched_at: row.last_fetched_at,
            created_at: row.created_at,
        }
    }
}

/// `GET /admin/network-lexicons`: the lexicons that follow their publishers, by NSID.
pub async fn list(app: Arc<App>, _admin: Admin, _request: Request) -> JsonResult<Vec<NetworkLexicon>> {
    let rows = lexicons::list(&app.db).await?.into_iter();
    Ok(Json(rows.filter(|row| row.source == NETWORK).map(NetworkLexicon::from).collect()))
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct ResolvedLexicon {
    #[schemars(extend("format" = "nsid"))]
    nsid: String,
    authority_did: Did,
    /// The type of the main definition.
    #[serde(rename = "type")]
    kind: Option<String>,
    lexicon_json: Value,
}

/// `GET /admin/network-lexicons/resolve/{nsid}`: the lexicon that the network has now, which following it would store.
/// Stores nothing.
pub async fn resolve(app: Arc<App>, _admin: Admin, request: Request) -> JsonResult<ResolvedLexicon> {
    let nsid = nsid::parse("nsid", request.param("nsid"))?;
    let found = app.network_lexicons.resolve(&nsid).await?;
    Ok(Json(ResolvedLexicon {
        nsid: nsid.to_string(),
        authority_did: found.authority,
        kind: found.json.pointer("/defs/main/type").and_then(Value::as_str).map(str::to_owned),
        lexicon_json: found.json,
    }))
}

/// `DELETE /admin/network-lexicons/{nsid}`: removes a lexicon that follows its publisher. Indexed records and scripts
/// stay.
pub async fn delete(app: Arc<App>, admin: Admin, request: Request) -> EmptyResult {
    let nsid = nsid::parse("nsid", request.param("nsid"))?;
    if !lexicons::delete_network(&app.db, nsid.as_str()).await? {
        return Err(Error::not_found("no lexicon of this name follows the network"));
    }
    app.changed(Topic::Lexicons).await?;
    app.events.record(Event::NetworkLexiconRemoved { actor: Some(admin.did.to_string()), nsid });
    Ok(Empty)
}
