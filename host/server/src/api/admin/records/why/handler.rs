//! The request and the answer.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::facts::Facts;
use super::step::{WhyStep, steps};
use super::verdict::{Verdict, decide};
use crate::access::Admin;
use crate::api::answer::{Json, JsonResult};
use crate::api::input::WithQuery;
use crate::api::paging;
use crate::app::App;
use belvedere_protocol::atproto::typed;

#[derive(Debug, Serialize, JsonSchema)]
pub struct Why {
    #[schemars(extend("format" = "at-uri"))]
    uri: String,
    #[schemars(extend("enum" = [
        "visible", "invalid", "moderated", "account_hidden", "deleted", "collection_not_indexed", "dead_letter", "rejected",
        "skipped_by_script", "not_in_repo", "stream_behind", "in_gap", "not_backfilled", "backfill_failed", "unknown"
    ]))]
    verdict: &'static str,
    /// Whether queries find the record.
    is_visible: bool,
    summary: String,
    advice: String,
    steps: Vec<WhyStep>,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct WhyQuery {
    #[schemars(required, extend("format" = "at-uri"))]
    uri: Option<String>,
    /// Whether the PDS is asked. True if absent.
    #[schemars(with = "Option<bool>")]
    look: Option<String>,
}

pub async fn get(app: Arc<App>, _admin: Admin, request: WithQuery<WhyQuery>) -> JsonResult<Why> {
    let query = request.parameters()?;
    let uri = paging::required("uri", query.uri)?;
    let uri = app.core.resolver.record_uri(&typed(&uri)).await?;
    let look = paging::flag("look", query.look.as_deref(), true)?;
    let facts = Facts::gather(&app, &uri, look).await?;
    let Verdict { name, summary, advice } = decide(&uri, &facts);
    Ok(Json(Why {
        uri: uri.to_string(),
        verdict: name,
        is_visible: name == "visible",
        summary,
        advice,
        steps: steps(&uri, &facts),
    }))
}
