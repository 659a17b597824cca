//! `POST /admin/scripts/check`: loads a script as saving it would, and says what is wrong with it. Saves nothing.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::body::{check_trigger, unusual};
use super::diagnostics::{self, Diagnostic};
use super::libraries;
use super::view;
use crate::access::Admin;
use crate::api::answer::{Json, JsonResult};
use crate::api::input::WithBody;
use crate::app::App;
use belvedere_protocol::atproto::lexicon::LexiconKind;
use belvedere_protocol::trigger::{Trigger, TriggerKind};
use belvedere_scripting::scripts::mentions::{Mention, MentionKind, mentions};
use belvedere_scripting::views::Offences;
use belvedere_storage::store::script_variables;
use belvedere_web::http::Error;

/// Warnings of one check: a source that names thousands of unknown methods needs no list of them.
const MAX_WARNINGS: usize = 100;

#[derive(Debug, Deserialize, JsonSchema)]
pub struct ScriptToCheck {
    id: String,
    body: String,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct ScriptCheck {
    ok: bool,
    diagnostics: Vec<Diagnostic>,
    outbound_xrpcs: Vec<String>,
}

pub async fn handle(
    app: Arc<App>,
    _admin: Admin,
    request: WithBody<ScriptToCheck>,
) -> JsonResult<ScriptCheck> {
    let ScriptToCheck { id, body: source } = request.json()?;
    let trigger = Trigger::parse(&id).map_err(|e| Error::bad_request(e.to_string()))?;
    check_trigger(&app, &trigger)?;
    if trigger.kind() == TriggerKind::View {
        let mistakes = view::compiled(&app, &trigger, &source).await?.err();
        let mistakes = mistakes.iter().flat_map(Offences::list);
        let diagnostics: Vec<_> = mistakes.map(|mistake| Diagnostic::of_view(mistake.to_string())).collect();
        return Ok(Json(ScriptCheck { ok: diagnostics.is_empty(), diagnostics, outbound_xrpcs: Vec::new() }));
    }
    let mut diagnostics = Vec::new();
    let outbound_xrpcs = match libraries::check(&app, trigger.clone(), &source).await? {
        Ok(methods) => methods,
        Err(failure) => {
            diagnostics.push(diagnostics::of_failure(&trigger, &source, &failure));
            Vec::new()
        }
    };
    let ok = diagnostics.is_empty();
    diagnostics.extend(unusual(&app, &trigger).map(|(kind, message)| Diagnostic::warning(kind, message)));
    let variables: Vec<String> =
        script_variables::list(&app.db).await?.into_iter().map(|row| row.key).collect();
    let warnings = mentions(&source).into_iter().filter_map(|mention| {
        let (kind, message) = warning(&app, &variables, &mention)?;
        Some(Diagnostic::warning(kind, message).at(&source, mention.at))
    });
    diagnostics.extend(warnings.take(MAX_WARNINGS));
    Ok(Json(ScriptCheck { ok, diagnostics, outbound_xrpcs }))
}

fn warning(app: &App, variables: &[String], mention: &Mention<'_>) -> Option<(&'static str, String)> {
    let name = mention.name;
    let wanted = match mention.kind {
        MentionKind::Variable => {
            let is_set = variables.iter().any(|key| key == name);
            let message = || format!("the script variable {name} is not set, so env.{name} is nil");
            return (!is_set).then(|| ("unset_variable", message()));
        }
        MentionKind::RawParams | MentionKind::Library | MentionKind::Cron | MentionKind::Timezone => {
            return None;
        }
        MentionKind::Query => LexiconKind::Query,
        MentionKind::Procedure => LexiconKind::Procedure,
    };
    match app.registry.get(name) {
        None => Some((
            "unknown_method",
            format!("{name} has no lexicon here, so the call goes to another server"),
        )),
        Some(lexicon) if lexicon.kind != wanted => {
            Some(("kind_mismatch", format!("{name} is not a {}", wanted.as_str())))
        }
        Some(_) => None,
    }
}
