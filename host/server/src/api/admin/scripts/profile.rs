//! `GET /admin/scripts/{id}/profile`: where the sampled runs of a script spend their instructions.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::access::Admin;
use crate::api::answer::{Json, JsonResult};
use crate::app::App;
use belvedere_scripting::scripts::SampledProfile;
use belvedere_web::http::{Error, Request};

#[derive(Debug, Deserialize, Serialize, JsonSchema)]
pub struct ScriptProfile {
    /// One of so many runs is profiled; 0: none.
    pub(crate) sample: u32,
    /// The runs on the host that answers, since the body was loaded there. Null before the first.
    pub(crate) sampled: Option<SampledProfile>,
}

pub async fn handle(app: Arc<App>, _admin: Admin, request: Request) -> JsonResult<ScriptProfile> {
    let script = app.scripting.runtime.scripts.get(request.param("id"));
    let script = script.ok_or_else(|| Error::not_found("script not found, or it is a view"))?;
    Ok(Json(ScriptProfile { sample: app.config.scripts.profile_sample, sampled: script.sampled_profile() }))
}
