//! Compares a push with what is stored.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::{Body, PushedApp, PushedScript, ScriptToPush};
use crate::access::Admin;
use crate::api::admin::lexicons::create::{SavedLexicon, SavedLexiconOfList};
use crate::api::admin::lexicons::uploads::{Elements, Uploads, refused};
use crate::api::admin::lexicons::{self as api, Accepted};
use crate::api::admin::scripts::body::unusual;
use crate::app::App;
use belvedere_base::hand_over_thread::hand_over_thread;
use belvedere_instance::lexicons::Snapshot;
use belvedere_protocol::trigger::Trigger;
use belvedere_storage::store::lexicons::{self, Change, LexiconRow, MANUAL, NewLexicon, Upserted, rows_with};
use belvedere_storage::store::scripts::{self, ScriptRow};
use belvedere_web::http::Error;

/// Scripts of one push.
const MAX_SCRIPTS: usize = 2_000;

/// The changes of a push. Lexicons and scripts that stay as they are are in `lexicons` and `unchanged`.
pub(super) struct Changes {
    /// With the settings that they keep.
    pub lexicons: Vec<NewLexicon>,
    /// The effect of each.
    effects: Vec<Upserted>,
    pub stored_lexicons: Vec<LexiconRow>,
    pub deleted_lexicons: Vec<String>,
    pub scripts: Vec<ChangedScript>,
    pub stored_scripts: Vec<ScriptRow>,
    pub deleted_scripts: Vec<String>,
    /// The ids of all pushed scripts, in the order of the request.
    order: Vec<String>,
}

/// A script that is new or has another body.
pub(super) struct ChangedScript {
    pub trigger: Trigger,
    pub body: String,
    pub replaced: Option<ScriptRow>,
}

impl Changes {
    /// # Errors
    /// 400 that names the lexicons and triggers that are invalid.
    pub(super) async fn of(app: &App, admin: &Admin, body: Body<'_>) -> Result<Self, Error> {
        let stored_lexicons = lexicons::list(&app.db).await?;
        let stored_scripts = scripts::list(&app.db, None).await?;
        let deletes = body.delete_others;
        let (lexicons, effects, deleted_lexicons) = match body.lexicons {
            Some(list) => {
                let (new, effects) = new_lexicons(list, body.keep_settings, &stored_lexicons, admin)?;
                let here: HashSet<&str> = new.iter().map(|lexicon| lexicon.id.as_str()).collect();
                let others = stored_lexicons.iter().filter(|row| deletes && row.source == MANUAL);
                let others = others.filter(|row| !here.contains(row.id.as_str()));
                let deleted = others.map(|row| row.id.clone()).collect();
                (new, effects, deleted)
            }
            None => (Vec::new(), Vec::new(), Vec::new()),
        };
        let pushed = match body.scripts {
            Some(list) => Some(triggers(list)?),
            None => None,
        };
        let order = pushed.iter().flatten().map(|(trigger, _)| trigger.id().to_owned()).collect();
        let deleted_scripts = match &pushed {
            Some(pushed) if deletes => {
                let here: HashSet<&str> = pushed.iter().map(|(trigger, _)| trigger.id()).collect();
                let others = stored_scripts.iter().filter(|row| !here.contains(row.id.as_str()));
                others.map(|row| row.id.clone()).collect()
            }
            _ => Vec::new(),
        };
        let rows: HashMap<&str, &ScriptRow> =
            stored_scripts.iter().map(|row| (row.id.as_str(), row)).collect();
        let changed = pushed.into_iter().flatten().filter_map(|(trigger, body)| {
            let replaced = rows.get(trigger.id()).copied();
            let is_same = replaced.is_some_and(|row| row.body == body);
            (!is_same).then(|| ChangedScript { trigger, body, replaced: replaced.cloned() })
        });
        let scripts = changed.collect();
        Ok(Self {
            lexicons,
            effects,
            stored_lexicons,
            deleted_lexicons,
            scripts,
            stored_scripts,
            deleted_scripts,
            order,
        })
    }

    /// Whether the store has all of it already.
    pub(super) fn is_empty(&self) -> bool {
        let no_deletions = self.deleted_lexicons.is_empty() && self.deleted_scripts.is_empty();
        no_deletions && self.scripts.is_empty() && !self.changes_lexicons()
    }

    pub(super) fn changes_lexicons(&self) -> bool {
        let has_change = self.effects.iter().any(|effect| effect.change != Change::Unchanged);
        has_change || !self.deleted_lexicons.is_empty()
    }

    /// The rows of the lexicons after the push.
    pub(super) fn next_lexicons(&self) -> Vec<LexiconRow> {
        let deleted: HashSet<&str> = self.deleted_lexicons.iter().map(String::as_str).collect();
        let mut rows = self.stored_lexicons.clone();
        rows.retain(|row| !deleted.contains(row.id.as_str()));
        rows_with(rows, &self.lexicons)
    }

    /// The scripts after the push, given as (trigger id, source).
    pub(super) fn next_scripts(&self) -> Vec<(String, String)> {
        let mut gone: HashSet<&str> = self.deleted_scripts.iter().map(String::as_str).collect();
        gone.extend(self.scripts.iter().map(|script| script.trigger.id()));
        let kept = self.stored_scripts.iter().filter(|row| !gone.contains(row.id.as_str()));
        let kept = kept.map(|row| (row.id.clone(), row.body.clone()));
        kept.chain(self.scripts.iter().map(|script| (script.trigger.id().to_owned(), script.body.clone())))
            .collect()
    }

    /// The answer for a push that is not stored.
    pub(super) fn preview(&self, app: &App) -> PushedApp {
        let next = if self.changes_lexicons() {
            Arc::new(Snapshot::preview(self.next_lexicons(), &[]))
        } else {
            app.registry.snapshot()
        };
        let lexicons = self.lexicons.iter().zip(&self.effects).map(|(lexicon, effect)| {
            let warnings = api::warnings(app, &next, &Accepted::of_new(lexicon));
            let (id, revision) = (lexicon.id.clone(), effect.revision);
            let saved = SavedLexicon { id, revision, backfill_job_id: None, warnings };
            SavedLexiconOfList::from((saved, effect.change))
        });
        PushedApp {
            lexicons: lexicons.collect(),
            scripts: self.pushed_scripts(&next),
            deleted_lexicons: self.deleted_lexicons.clone(),
            deleted_scripts: self.deleted_scripts.clone(),
            stored: false,
        }
    }

    /// The scripts of the push, in its order. `lexicons`: those of afterwards.
    pub(super) fn pushed_scripts(&self, lexicons: &Snapshot) -> Vec<PushedScript> {
        let changed: HashMap<&str, &ChangedScript> =
            self.scripts.iter().map(|script| (script.trigger.id(), script)).collect();
        let scripts = self.order.iter().map(|id| {
            let script = changed.get(id.as_str());
            let change = match script.map(|script| script.replaced.is_some()) {
                None => Change::Unchanged,
                Some(true) => Change::Changed,
                Some(false) => Change::New,
            };
            let unusual = script.and_then(|script| unusual(lexicons, &script.trigger));
            let warnings = unusual.map(|(_, message)| message).into_iter().collect();
            PushedScript { id: id.clone(), change: change.as_str(), warnings }
        });
        scripts.collect()
    }
}

/// The effect of a lexicon.
fn effect(lexicon: &NewLexicon, rows: &HashMap<&str, &LexiconRow>) -> Upserted {
    let (change, revision) = match rows.get(lexicon.id.as_str()) {
        None => (Change::New, 1),
        Some(row) if lexicon.is_stored_as(row) => (Change::Unchanged, row.revision),
        Some(row) => (Change::Changed, row.revision + 1),
    };
    Upserted { change, revision }
}

/// The valid lexicons of a list, each with the settings that it keeps, and their effects.
fn new_lexicons(
    list: Elements<'_>,
    keep_settings: bool,
    stored: &[LexiconRow],
    admin: &Admin,
) -> Result<(Vec<NewLexicon>, Vec<Upserted>), Error> {
    let rows: HashMap<&str, &LexiconRow> = stored.iter().map(|row| (row.id.as_str(), row)).collect();
    let saved_by = Some(admin.did.to_string());
    hand_over_thread(list.bytes(), || {
        let with_settings = Uploads::of_list(list, keep_settings)?.all_valid()?.into_iter().map(|lexicon| {
            let lexicon = rows.get(lexicon.id.as_str()).map(|row| lexicon.over(row)).unwrap_or(lexicon);
            let lexicon = NewLexicon { saved_by: saved_by.clone(), ..lexicon };
            let effect = effect(&lexicon, &rows);
            (lexicon, effect)
        });
        Ok(with_settings.unzip())
    })
}

/// The triggers of a list of scripts, each with its body.
fn triggers(list: Vec<ScriptToPush>) -> Result<Vec<(Trigger, String)>, Error> {
    let count = list.len();
    if count > MAX_SCRIPTS {
        return Err(Error::bad_request(format!(
            "at most {MAX_SCRIPTS} scripts fit in one push; this one has {count}"
        )));
    }
    let (mut scripts, mut wrong, mut seen) = (Vec::with_capacity(count), Vec::new(), HashSet::new());
    for (at, ScriptToPush { id, body }) in list.into_iter().enumerate() {
        match Trigger::parse(&id) {
            Ok(trigger) if !seen.insert(id.clone()) => {
                wrong.push(format!("scripts[{at}] ({trigger}): another one has the same id"));
            }
            Ok(trigger) => scripts.push((trigger, body)),
            Err(error) => wrong.push(format!("scripts[{at}]: {error}")),
        }
    }
    if wrong.is_empty() {
        Ok(scripts)
    } else {
        Err(refused(("script", count), ("is invalid", "are invalid"), wrong))
    }
}
