//! `/admin/script-variables`: sets, lists and deletes the variables that scripts read.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::access::Admin;
use crate::api::answer::{Empty, EmptyResult, Json, JsonResult};
use crate::api::input::WithBody;
use crate::app::{App, Topic};
use belvedere_base::clock::Timestamp;
use belvedere_instance::events::Event;
use belvedere_scripting::scripts::services::variables::{self, MAX_COUNT, MAX_KEY, MAX_VALUE};
use belvedere_storage::store::script_variables::{self, VariableRow};
use belvedere_web::http::{Error, Request};

/// Characters of a value that its preview shows, if the value is longer.
const PREVIEW_CHARS: usize = 4;

#[derive(Debug, Serialize, JsonSchema)]
pub struct ScriptVariable {
    key: String,
    /// Null when the value can't be decrypted.
    preview: Option<String>,
    created_at: Timestamp,
    updated_at: Timestamp,
}

/// `GET /admin/script-variables`: the names of the variables that scripts read, and previews of the values.
pub async fn list(app: Arc<App>, _admin: Admin, _request: Request) -> JsonResult<Vec<ScriptVariable>> {
    let rows = script_variables::list(&app.db).await?;
    let view = |row: VariableRow| ScriptVariable {
        preview: variables::open(&app.sealing, &row).map(|value| preview(&value)),
        key: row.key,
        created_at: row.created_at,
        updated_at: row.updated_at,
    };
    Ok(Json(rows.into_iter().map(view).collect()))
}

/// The beginning of a value, which lists show.
pub(crate) fn preview(value: &str) -> String {
    match value.char_indices().nth(PREVIEW_CHARS) {
        Some((end, _)) => format!("{}****", &value[..end]),
        None => "*".repeat(value.chars().count()),
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct NewScriptVariable {
    key: String,
    value: String,
}

/// `POST /admin/script-variables`: sets a variable, replacing its previous value.
pub async fn upsert(app: Arc<App>, admin: Admin, request: WithBody<NewScriptVariable>) -> EmptyResult {
    let NewScriptVariable { key, value } = request.json()?;
    check(&key, &value)?;
    let sealed = variables::seal(&app.sealing, &app.random, &key, &value);
    let now = app.clock.now();
    if !script_variables::upsert(&app.db, &key, &sealed, MAX_COUNT, now).await? {
        return Err(Error::bad_request(format!("there are already {MAX_COUNT} variables; delete some")));
    }
    app.changed(Topic::ScriptVariables).await?;
    app.events.record(Event::ScriptVariableUpserted { actor: admin.did.to_string(), key });
    Ok(Empty)
}

fn check(key: &str, value: &str) -> Result<(), Error> {
    if key.trim().is_empty() || key.len() > MAX_KEY || key.chars().any(char::is_control) {
        return Err(Error::bad_request(format!("key must be 1 to {MAX_KEY} bytes of text on one line")));
    }
    if value.len() > MAX_VALUE {
        return Err(Error::bad_request(format!("value is longer than {MAX_VALUE} bytes")));
    }
    Ok(())
}

/// `DELETE /admin/script-variables/{key}`: deletes a variable; runs that begin afterwards read nil.
pub async fn delete(app: Arc<App>, admin: Admin, request: Request) -> EmptyResult {
    let key = request.param("key").to_owned();
    if !script_variables::delete(&app.db, &key).await? {
        return Err(Error::not_found("script variable not found"));
    }
    app.changed(Topic::ScriptVariables).await?;
    app.events.record(Event::ScriptVariableDeleted { actor: admin.did.to_string(), key });
    Ok(Empty)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preview_never_splits_a_character() {
        for (value, shown) in [("", ""), ("abc", "***"), ("äöü€", "****"), ("äöü€x", "äöü€****")]
        {
            assert_eq!(preview(value), shown);
        }
    }
}
