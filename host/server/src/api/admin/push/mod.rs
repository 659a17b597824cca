//! `POST /admin/push`: the lexicons, scripts and views of an app as one version, which is checked as a whole and stored whole or not
//! at all (docs/adr/0162).

mod changes;
mod checks;

use std::mem;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::changes::{ChangedScript, Changes};
use self::checks::Checked;
use crate::access::{Admin, Permission};
use crate::api::admin::lexicons::create::{self, SavedLexiconOfList};
use crate::api::admin::lexicons::uploads::{Elements, LexiconUpload, MAX_BYTES};
use crate::api::admin::scripts::{request_indexes, setup};
use crate::api::answer::{Json, JsonResult};
use crate::api::body::or_default;
use crate::api::input::WithBody;
use crate::app::{App, Topic};
use belvedere_base::hand_over_thread::hand_over_thread;
use belvedere_instance::events::Event;
use belvedere_protocol::trigger::TriggerKind;
use belvedere_scripting::scripts::{ScriptRegistry, Services};
use belvedere_storage::store::app_push::{self, AppPush};
use belvedere_storage::store::lexicons::{Change, Upserted};
use belvedere_web::http::{Error, Request};

/// Bytes of a push: as many of scripts as of lexicons.
pub(crate) const MAX_PUSH: usize = 2 * MAX_BYTES;

/// An app, or one kind of its parts.
#[derive(Debug, JsonSchema)]
#[expect(dead_code, reason = "the description of the API")]
pub struct AppToPush {
    /// At most 2,000, each with another id. Absent: lexicons stay as they are.
    lexicons: Option<Vec<LexiconUpload>>,
    /// Whether settings that an element of `lexicons` does not have stay as they are if its lexicon is stored already. False when
    /// absent: then they get their defaults.
    keep_settings: Option<bool>,
    /// Scripts and views, at most 2,000, each with another id. Their descriptions stay. Absent: scripts stay as they are.
    scripts: Option<Vec<ScriptToPush>>,
    /// Whether what the lists lack is deleted: scripts and views, and lexicons, but for those that follow the network.
    delete_others: Option<bool>,
    /// Whether nothing is stored: the answer has the changes, or the error the mistakes.
    dry_run: Option<bool>,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct ScriptToPush {
    /// The trigger.
    id: String,
    body: String,
}

/// The body as it is read: each lexicon for itself, so that an error names it.
#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow)]
    lexicons: Option<Elements<'a>>,
    #[serde(default, deserialize_with = "or_default")]
    keep_settings: bool,
    scripts: Option<Vec<ScriptToPush>>,
    #[serde(default, deserialize_with = "or_default")]
    delete_others: bool,
    #[serde(default, deserialize_with = "or_default")]
    dry_run: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct PushedApp {
    /// In the order of the request.
    lexicons: Vec<SavedLexiconOfList>,
    /// In the order of the request.
    scripts: Vec<PushedScript>,
    deleted_lexicons: Vec<String>,
    deleted_scripts: Vec<String>,
    /// False for a dry run, and if nothing changed.
    stored: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
struct PushedScript {
    id: String,
    /// `new`, `changed` or `unchanged`.
    #[schemars(extend("enum" = ["new", "changed", "unchanged"]))]
    change: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
}

/// `POST /admin/push`
pub async fn handle(app: Arc<App>, admin: Admin, request: WithBody<AppToPush>) -> JsonResult<PushedApp> {
    let body = Body::read(&request)?;
    body.check_permissions(&admin)?;
    let dry_run = body.dry_run;
    // Setups of this host run one at a time, and a push is compared with scripts that no other push of this host changes.
    let _alone = if dry_run { None } else { Some(app.scripting.setups.lock().await) };
    let changes = Box::pin(Changes::of(&app, &admin, body)).await?;
    let checked = Box::pin(checks::check(&app, &changes)).await?;
    if dry_run || changes.is_empty() {
        return Ok(Json(changes.preview(&app)));
    }
    run_setups(&app, &changes, &checked).await?;
    Box::pin(store(&app, &admin, changes, checked)).await.map(Json)
}

impl<'a> Body<'a> {
    fn read(request: &'a Request) -> Result<Self, Error> {
        let read = || serde_json::from_slice(&request.body);
        hand_over_thread(request.body.len(), read)
            .map_err(|error| Error::bad_request(format!("invalid request body: {error}")))
    }

    /// The route requires the permission for scripts only.
    fn check_permissions(&self, admin: &Admin) -> Result<(), Error> {
        let mut needed = Vec::new();
        if self.lexicons.is_some() {
            needed.push(Permission::LexiconsCreate);
            needed.extend(self.delete_others.then_some(Permission::LexiconsDelete));
        }
        match needed.into_iter().find(|permission| !admin.may(*permission)) {
            Some(missing) => {
                Err(Error::forbidden(format!("missing permission: {}, for lexicons", missing.as_str())))
            }
            None => Ok(()),
        }
    }
}

/// Runs the setup scripts whose bodies are new, with the libraries of the push.
async fn run_setups(app: &App, changes: &Changes, checked: &Checked) -> Result<(), Error> {
    let scripts = Arc::new(ScriptRegistry::of(Arc::clone(&checked.next)));
    let services = Services::clone(&app.scripting.runtime.services).with_scripts(scripts);
    let is_setup = |script: &&ChangedScript| script.trigger.kind() == TriggerKind::Setup;
    for script in changes.scripts.iter().filter(is_setup) {
        setup::execute(app, &script.trigger, &script.body, &services).await?;
    }
    Ok(())
}

/// Stores the changes, and lets them take effect.
async fn store(app: &App, admin: &Admin, mut changes: Changes, checked: Checked) -> Result<PushedApp, Error> {
    let push = AppPush {
        lexicons: mem::take(&mut changes.lexicons),
        deleted_lexicons: mem::take(&mut changes.deleted_lexicons),
        scripts: changes.scripts.iter().map(|script| checked.to_store(script, admin)).collect(),
        deleted_scripts: mem::take(&mut changes.deleted_scripts),
        pushed_by: admin.did.to_string(),
    };
    let upserted = app_push::store(&app.db, &push, app.clock.now()).await?;
    let is_changed = |upserted: &Upserted| upserted.change != Change::Unchanged;
    if !push.deleted_lexicons.is_empty() || upserted.iter().any(is_changed) {
        app.changed(Topic::Lexicons).await?;
    }
    if !push.deleted_scripts.is_empty() || !push.scripts.is_empty() {
        app.changed(Topic::Scripts).await?;
    }
    record(app, &push, &changes.scripts);
    for view in &checked.views {
        request_indexes(app, Some(view)).await;
    }
    let saved = create::announce(app, admin, push.lexicons, upserted).await;
    Ok(PushedApp {
        lexicons: saved.into_iter().map(SavedLexiconOfList::from).collect(),
        scripts: changes.pushed_scripts(&app.registry.snapshot()),
        deleted_lexicons: push.deleted_lexicons,
        deleted_scripts: push.deleted_scripts,
        stored: true,
    })
}

/// Records the events of a push, besides those of the lexicons that it stores.
fn record(app: &App, push: &AppPush, scripts: &[ChangedScript]) {
    let actor = || push.pushed_by.clone();
    for nsid in &push.deleted_lexicons {
        app.events.record(Event::LexiconDeleted { actor: actor(), nsid: nsid.clone() });
    }
    for trigger in &push.deleted_scripts {
        app.events.record(Event::ScriptDeleted { actor: actor(), trigger: trigger.clone() });
    }
    for (script, stored) in scripts.iter().zip(&push.scripts) {
        let (trigger, script_type) = (stored.id.clone(), stored.script_type.clone());
        app.events.record(match script.replaced {
            None => Event::ScriptCreated { actor: actor(), trigger, script_type },
            Some(_) => Event::ScriptUpdated { actor: actor(), trigger, script_type },
        });
    }
}
