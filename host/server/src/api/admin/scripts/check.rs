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
use belvedere_scripting::scripts::CheckedScript;
use belvedere_scripting::scripts::mentions::{Mention, MentionKind, mentions};
use belvedere_scripting::views::Offences;
use belvedere_storage::store::{script_sql, script_variables};
use belvedere_web::fair_share::Tenant;
use belvedere_web::http::Error;

/// Diagnostics of one check: a source that names thousands of unknown methods needs no list of them.
const MAX_DIAGNOSTICS: usize = 100;

/// Statements of one check that the database plans.
const MAX_STATEMENTS: usize = 50;

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
    admin: Admin,
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
    let checked = libraries::check(&app, trigger.clone(), &source).await?;
    let ok = checked.is_ok();
    let (mut diagnostics, outbound_xrpcs) = match checked {
        Ok(CheckedScript { script, unknown_names }) => {
            let unknown = unknown_names.iter().map(|name| diagnostics::of_unknown_name(&source, name));
            (unknown.collect(), script.methods().to_vec())
        }
        Err(failure) => (vec![diagnostics::of_failure(&trigger, &source, &failure)], Vec::new()),
    };
    let unusual = unusual(&app.registry.snapshot(), &trigger);
    diagnostics.extend(unusual.map(|(kind, message)| Diagnostic::warning(kind, message)));
    let variables: Vec<String> =
        script_variables::list(&app.db).await?.into_iter().map(|row| row.key).collect();
    let mut statements = 0;
    for mention in mentions(&source) {
        let found = if mention.kind == MentionKind::Statement {
            statements += 1;
            if statements > MAX_STATEMENTS { None } else { sql_warning(&app, &admin, mention.name).await }
        } else {
            warning(&app, &variables, &mention)
        };
        diagnostics
            .extend(found.map(|(kind, message)| Diagnostic::warning(kind, message).at(&source, mention.at)));
        if diagnostics.len() >= MAX_DIAGNOSTICS {
            break;
        }
    }
    Ok(Json(ScriptCheck { ok, diagnostics, outbound_xrpcs }))
}

/// The warning about the SQL of a `db.raw`, whose tables are those of now.
async fn sql_warning(app: &App, admin: &Admin, sql: &str) -> Option<Warning> {
    let tenant = Tenant::of_did(admin.did.as_str());
    match script_sql::mistake(&app.db, &tenant, sql).await {
        Ok(mistake) => Some(("sql", mistake?)),
        Err(error) => {
            tracing::debug!(%error, "the SQL of a script can't be checked");
            None
        }
    }
}

/// The kind of a diagnostic, and its message.
type Warning = (&'static str, String);

fn warning(app: &App, variables: &[String], mention: &Mention<'_>) -> Option<Warning> {
    let name = mention.name;
    let wanted = match mention.kind {
        MentionKind::Variable => {
            let is_set = variables.iter().any(|key| key == name);
            let message = || format!("the script variable {name} is not set, so env.{name} is nil");
            return (!is_set).then(|| ("unset_variable", message()));
        }
        MentionKind::Statement
        | MentionKind::RawParams
        | MentionKind::Library
        | MentionKind::Cron
        | MentionKind::Timezone => return None,
        MentionKind::Collection => LexiconKind::Record,
        MentionKind::Query => LexiconKind::Query,
        MentionKind::Procedure => LexiconKind::Procedure,
    };
    match app.registry.get(name) {
        None if wanted == LexiconKind::Record => Some((
            "unknown_collection",
            format!("{name} has no lexicon here, so none of its records are stored: upload its lexicon"),
        )),
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
