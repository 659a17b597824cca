//! `/admin/export`: what an instance serves, as one document (docs/adr/0151).

use std::collections::BTreeMap;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::access::Admin;
use crate::api::answer::{Json, JsonResult};
use crate::app::{App, Topic};
use belvedere_storage::store::lexicons::{self, LexiconRow};
use belvedere_storage::store::scripts::{self, ScriptRow};
use belvedere_web::http::{Error, Request};

/// The version of the document. A reader refuses others.
pub(crate) const FORMAT: u32 = 1;

/// The lexicons, scripts, views and settings of an instance, without records, accounts and secrets.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct InstanceExport {
    /// 1.
    pub(crate) format: u32,
    /// The version of the server.
    pub(crate) version: String,
    pub(crate) did: String,
    /// The public address.
    pub(crate) url: String,
    #[schemars(extend("format" = "date-time"))]
    pub(crate) exported_at: String,
    /// By id.
    pub(crate) lexicons: Vec<ExportedLexicon>,
    /// Scripts and views, by id.
    pub(crate) scripts: Vec<ExportedScript>,
    /// The values that apply, stored ones and those of the environment.
    pub(crate) settings: BTreeMap<String, String>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct ExportedLexicon {
    #[schemars(extend("format" = "nsid"))]
    pub(crate) id: String,
    pub(crate) source: String,
    pub(crate) target_collection: Option<String>,
    pub(crate) action: Option<String>,
    pub(crate) token_cost: Option<i64>,
    #[schemars(with = "Map<String, Value>")]
    pub(crate) lexicon_json: Box<RawValue>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct ExportedScript {
    /// The trigger.
    pub(crate) id: String,
    pub(crate) description: Option<String>,
    pub(crate) body: String,
}

impl ExportedLexicon {
    fn of(row: LexiconRow) -> Result<Self, serde_json::Error> {
        Ok(Self {
            id: row.id,
            source: row.source,
            target_collection: row.target_collection,
            action: row.action,
            token_cost: row.token_cost,
            lexicon_json: RawValue::from_string(row.lexicon_json)?,
        })
    }
}

/// `GET /admin/export`: the lexicons, scripts, views and settings of this instance, to compare it with another.
pub async fn handle(app: Arc<App>, _admin: Admin, _request: Request) -> JsonResult<InstanceExport> {
    // Another host may have just changed a setting.
    app.reload(&Topic::Settings).await?;
    let lexicons = lexicons::list(&app.db).await?.into_iter().map(ExportedLexicon::of);
    let scripts = scripts::list(&app.db, None).await?.into_iter();
    let settings = app.settings.list().into_iter();
    Ok(Json(InstanceExport {
        format: FORMAT,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        did: app.identity.did.to_string(),
        url: app.identity.origin.clone(),
        exported_at: app.clock.now().to_string(),
        lexicons: lexicons.collect::<Result<_, _>>().map_err(Error::internal)?,
        scripts: scripts
            .map(|ScriptRow { id, description, body, .. }| ExportedScript { id, description, body })
            .collect(),
        settings: settings.map(|(key, value, _)| (key, value)).collect(),
    }))
}
