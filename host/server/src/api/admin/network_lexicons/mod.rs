//! `/admin/network-lexicons`: lexicons that follow their publishers on the network (admin-api.md §7).

pub mod create;

use std::sync::Arc;

use http::StatusCode;
use serde::Serialize;
use serde_json::Value;

use crate::access::Admin;
use crate::app::{App, Topic};
use belvedere_base::clock::Timestamp;
use belvedere_instance::events::Event;
use belvedere_protocol::atproto::Nsid;
use belvedere_storage::store::lexicons::{self, LexiconRow, NETWORK};
use belvedere_web::http::{Error, Request, Response, response};

/// A lexicon as the list shows it (service.md, Network lexicon).
#[derive(Serialize)]
struct View {
    nsid: String,
    authority_did: Option<String>,
    target_collection: Option<String>,
    last_fetched_at: Option<Timestamp>,
    created_at: Timestamp,
}

impl From<LexiconRow> for View {
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

fn parse(nsid: &str) -> Result<Nsid, Error> {
    Nsid::try_from(nsid).map_err(|_| Error::bad_request("nsid is not an NSID, such as com.example.note"))
}

/// `GET /admin/network-lexicons`: every lexicon that follows the network, by NSID.
pub async fn list(app: Arc<App>, _admin: Admin, _request: Request) -> Result<Response, Error> {
    let rows = lexicons::list(&app.db).await?.into_iter();
    let views: Vec<View> = rows.filter(|row| row.source == NETWORK).map(View::from).collect();
    Ok(response::json(StatusCode::OK, &views))
}

#[derive(Serialize)]
struct Preview<'a> {
    nsid: &'a str,
    authority_did: &'a str,
    /// The type of the main definition.
    #[serde(rename = "type")]
    kind: Option<&'a str>,
    lexicon_json: &'a Value,
}

/// `GET /admin/network-lexicons/resolve/{nsid}`: the lexicon that the network has now. Stores nothing.
pub async fn resolve(app: Arc<App>, _admin: Admin, request: Request) -> Result<Response, Error> {
    let nsid = parse(request.param("nsid"))?;
    let found = app.network_lexicons.resolve(&nsid).await?;
    let preview = Preview {
        nsid: nsid.as_str(),
        authority_did: found.authority.as_str(),
        kind: found.json.pointer("/defs/main/type").and_then(Value::as_str),
        lexicon_json: &found.json,
    };
    Ok(response::json(StatusCode::OK, &preview))
}

/// `DELETE /admin/network-lexicons/{nsid}`: the lexicon is removed here; indexed records and scripts stay.
pub async fn delete(app: Arc<App>, admin: Admin, request: Request) -> Result<Response, Error> {
    let nsid = parse(request.param("nsid"))?;
    if !lexicons::delete_network(&app.db, nsid.as_str()).await? {
        return Err(Error::not_found("no lexicon of this name follows the network"));
    }
    app.changed(Topic::Lexicons).await?;
    app.events.record(Event::NetworkLexiconRemoved { actor: Some(admin.did.to_string()), nsid });
    Ok(response::empty(StatusCode::NO_CONTENT))
}
