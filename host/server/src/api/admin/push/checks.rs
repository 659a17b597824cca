//! Checks the scripts and views of a push as they are together afterwards.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::changes::{ChangedScript, Changes};
use crate::access::Admin;
use crate::api::admin::lexicons::uploads::refused;
use crate::api::admin::scripts::body::{check_trigger, type_of};
use crate::api::admin::scripts::libraries::{broken_user, load};
use crate::app::App;
use belvedere_protocol::trigger::{Trigger, TriggerKind};
use belvedere_scripting::scripts::ScriptSet;
use belvedere_scripting::views::{self, Documents, View};
use belvedere_storage::store::scripts::NewScript;
use belvedere_web::http::Error;

/// The result for a push without mistakes.
pub(super) struct Checked {
    /// All scripts after the push.
    pub next: Arc<ScriptSet>,
    /// The methods that changed scripts name, by trigger id, if there are any.
    pub methods: HashMap<String, Vec<String>>,
    /// The views that change.
    pub views: Vec<View>,
}

impl Checked {
    /// A changed script as it is stored. It replaces no other revision than the one that was checked.
    pub(super) fn to_store(&self, script: &ChangedScript, admin: &Admin) -> NewScript {
        let ChangedScript { trigger, body, replaced } = script;
        NewScript {
            id: trigger.id().to_owned(),
            script_type: type_of(trigger).to_owned(),
            body: body.clone(),
            description: replaced.as_ref().and_then(|row| row.description.clone()),
            outbound_xrpcs: self.methods.get(trigger.id()).cloned(),
            saved_by: Some(admin.did.to_string()),
            based_on: Some(replaced.as_ref().map_or(0, |row| row.revision)),
            unless: trigger.counterpart().map(|other| other.id().to_owned()),
        }
    }
}

/// # Errors
/// 400 that names each script that can't be stored, and those that would not work any more.
pub(super) async fn check(app: &App, changes: &Changes) -> Result<Checked, Error> {
    let engine = &app.scripting.runtime.engine;
    let stored = Arc::new(app.scripting.runtime.scripts.stored(engine, &app.db).await?);
    let sources = changes.next_scripts();
    let next = Arc::new(stored.compile(engine, &sources).await);
    let ids: HashSet<&str> = sources.iter().map(|(id, _)| id.as_str()).collect();
    let documents = Documents::default();
    let mut check = Check {
        app,
        checked: Checked { next, methods: HashMap::new(), views: Vec::new() },
        documents,
        refusals: Vec::new(),
    };
    let has_view = sources.iter().any(|(id, _)| is_view(id));
    if has_view && (changes.changes_lexicons() || changes.scripts.iter().any(ChangedScript::is_view)) {
        check.documents = views::documents_of(&changes.next_lexicons());
    }
    for script in &changes.scripts {
        check.script(script, &ids).await?;
    }
    check.users_of_libraries(changes, &stored).await?;
    if changes.changes_lexicons() {
        check.other_views(changes, &sources);
    }
    if check.refusals.is_empty() {
        return Ok(check.checked);
    }
    Err(refused(("script", sources.len()), ("is refused", "are refused"), check.refusals))
}

struct Check<'a> {
    app: &'a App,
    checked: Checked,
    /// The documents of the lexicons after the push; none unless views are checked.
    documents: Documents,
    refusals: Vec<String>,
}

impl Check<'_> {
    fn refuse(&mut self, trigger: &Trigger, reason: impl std::fmt::Display) {
        self.refusals.push(format!("{trigger}: {reason}"));
    }

    /// Checks a script or a view that changes. `ids`: those of all scripts after the push.
    async fn script(&mut self, script: &ChangedScript, ids: &HashSet<&str>) -> Result<(), Error> {
        let ChangedScript { trigger, body, .. } = script;
        if let Err(error) = check_trigger(self.app, trigger) {
            self.refuse(trigger, error.error);
            return Ok(());
        }
        if let Some(other) = trigger.counterpart().filter(|other| ids.contains(other.id())) {
            self.refuse(trigger, format_args!("a method has a script or a view, and {other} is there too"));
            return Ok(());
        }
        if script.is_view() {
            match self.view(trigger, body) {
                Ok(view) => self.checked.views.push(view),
                Err(offences) => self.refuse(trigger, offences),
            }
            return Ok(());
        }
        let engine = &self.app.scripting.runtime.engine;
        match load(engine, trigger.clone(), body, &self.checked.next).await? {
            Ok(loaded) => {
                let methods = loaded.script.methods().to_vec();
                if !methods.is_empty() {
                    self.checked.methods.insert(trigger.id().to_owned(), methods);
                }
            }
            Err(failure) => self.refuse(trigger, failure),
        }
        Ok(())
    }

    fn view(&self, trigger: &Trigger, body: &str) -> Result<View, views::Offences> {
        let view = views::compile(body)?;
        views::check(&view, trigger.subject(), &self.documents).map(|()| view)
    }

    /// Checks the scripts that stay, and require a library that changes or is deleted.
    async fn users_of_libraries(&mut self, changes: &Changes, stored: &Arc<ScriptSet>) -> Result<(), Error> {
        let changed: HashSet<&str> = changes.scripts.iter().map(|script| script.trigger.id()).collect();
        let deleted = changes.deleted_scripts.iter().filter_map(|id| Trigger::parse(id).ok());
        let all = changes.scripts.iter().map(|script| script.trigger.clone()).chain(deleted);
        let engine = &self.app.scripting.runtime.engine;
        for library in all.filter(|trigger| trigger.kind() == TriggerKind::Library) {
            let scripts = (stored, &self.checked.next);
            let broken = broken_user(engine, scripts, library.subject(), |id| changed.contains(id)).await?;
            if let Some(failure) = broken {
                self.refuse(&library, failure);
            }
        }
        Ok(())
    }

    /// Checks the views that stay, against the lexicons that change. One that did not fit before is not held against them.
    fn other_views(&mut self, changes: &Changes, sources: &[(String, String)]) {
        let changed: HashSet<&str> = changes.scripts.iter().map(|script| script.trigger.id()).collect();
        let kept = sources.iter().filter(|(id, _)| is_view(id) && !changed.contains(id.as_str()));
        for (id, body) in kept {
            let Ok(trigger) = Trigger::parse(id) else { continue };
            let fits_now =
                || self.app.scripting.views.get(trigger.subject()).is_some_and(|view| view.view.is_ok());
            if let Err(offences) = self.view(&trigger, body)
                && fits_now()
            {
                self.refuse(&trigger, format_args!("it would not fit the lexicons any more: {offences}"));
            }
        }
    }
}

impl ChangedScript {
    fn is_view(&self) -> bool {
        self.trigger.kind() == TriggerKind::View
    }
}

fn is_view(id: &str) -> bool {
    Trigger::parse(id).is_ok_and(|trigger| trigger.kind() == TriggerKind::View)
}
