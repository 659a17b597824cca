//! The registry of compiled scripts, by trigger id. Replaced as a whole, so that a request sees one consistent set.

mod compiled;
mod libraries;
mod rollout;
mod sample;
mod set;
pub(super) mod tally;

use std::sync::Arc;
use std::sync::atomic::Ordering;

pub use compiled::CompiledScript;
pub use rollout::{Rollout, rollout_caller};
pub use sample::OutputSample;
pub use set::ScriptSet;
pub use tally::TallySnapshot;

use crate::scripts::Engine;
use belvedere_base::reloadable::Reloadable;
use belvedere_instance::xrpc::Caller;
use belvedere_protocol::trigger::{ScriptBindings, Trigger, TriggerKind};
use belvedere_storage::store::{self, Db, StoreError};

/// All scripts, by trigger id.
#[derive(Debug, Default)]
pub struct ScriptRegistry(Reloadable<ScriptSet>);

impl ScriptBindings for ScriptRegistry {
    fn has(&self, id: &str) -> bool {
        self.0.load().by_trigger.contains_key(id)
    }
}

impl ScriptRegistry {
    pub fn new() -> Self {
        Self::default()
    }

    /// Scripts that are not those of the store.
    pub fn of(scripts: Arc<ScriptSet>) -> Self {
        Self(Reloadable::of(scripts))
    }

    /// The script bound to a trigger id.
    pub fn get(&self, id: &str) -> Option<Arc<CompiledScript>> {
        self.0.load().by_trigger.get(id).cloned()
    }

    /// The script bound to a trigger id, in the version that a caller runs.
    pub fn get_for(&self, id: &str, caller: &Caller) -> Option<Arc<CompiledScript>> {
        let scripts = self.0.load();
        let script = scripts.by_trigger.get(id)?;
        let candidate = scripts.candidate(id, || rollout_caller(caller));
        Some(Arc::clone(candidate.unwrap_or(script)))
    }

    /// The candidate of a script, if an account is one of those that run it.
    pub fn candidate_for_account(&self, script: &CompiledScript, did: &str) -> Option<Arc<CompiledScript>> {
        self.0.load().candidate(&script.name, || did.to_owned()).cloned()
    }

    /// The rollouts that go on, each with its script.
    pub fn rollouts(&self) -> Vec<(Rollout, Arc<CompiledScript>)> {
        self.0.load().rollouts()
    }

    /// All scripts, as they are now.
    pub fn all(&self) -> Arc<ScriptSet> {
        self.0.load_full()
    }

    /// A snapshot of each script's tally, by trigger id. Libraries have none, because they run as a part of others.
    pub fn tallies(&self) -> Vec<(String, TallySnapshot)> {
        let scripts = self.0.load();
        let run =
            scripts.by_trigger.iter().filter(|(_, script)| script.trigger.kind() != TriggerKind::Library);
        run.map(|(id, script)| (id.to_string(), script.tally.read())).collect()
    }

    /// A snapshot of the tally of each candidate, by trigger id and version.
    pub fn candidate_tallies(&self) -> Vec<(String, Option<String>, TallySnapshot)> {
        let rollouts = self.rollouts();
        let candidates = rollouts.iter().map(|(rollout, _)| rollout.candidate());
        candidates.map(|script| (script.name.to_string(), script.version(), script.tally.read())).collect()
    }

    /// Adds or replaces one script.
    #[cfg(any(test, feature = "testing"))]
    pub fn insert(&self, script: CompiledScript) {
        self.0.store(self.0.load().with(Arc::new(script)));
    }

    #[cfg(any(test, feature = "testing"))]
    pub fn remove(&self, id: &str) {
        self.0.store(self.0.load().without(id));
    }

    /// Replaces all scripts by these, given as (trigger id, source).
    pub async fn replace(&self, engine: &Engine, stored: &[(String, String)]) {
        self.0.store(self.0.load_full().compile(engine, stored).await);
    }

    /// Whether there are no scripts for record events.
    pub fn has_no_record_scripts(&self) -> bool {
        self.0.load().has_no_record_scripts()
    }

    /// The one script that runs for an event: the one for the action, or else the collection's general one
    /// (`lua-runtime.md` §2). `action` is the kind of trigger.
    pub fn for_record(&self, collection: &str, action: TriggerKind) -> Option<Arc<CompiledScript>> {
        self.0.load().for_record(collection, action).cloned()
    }

    /// All scripts of the store, for one that is to be saved: another host may have changed what this one has loaded.
    ///
    /// # Errors
    /// When the store can't be read.
    pub async fn stored(&self, engine: &Engine, db: &Db) -> Result<ScriptSet, StoreError> {
        self.0.load_full().load(engine, db).await
    }

    /// Loads all scripts from the store.
    ///
    /// # Errors
    /// When the store can't be read; the scripts stay as they were.
    pub async fn reload(&self, engine: &Engine, db: &Db) -> Result<(), StoreError> {
        self.0.reload(async |current: &ScriptSet| current.load(engine, db).await).await
    }

    /// Loads one script from the store.
    ///
    /// # Errors
    /// When the store can't be read; the script stays as it was.
    pub async fn reload_one(&self, engine: &Engine, db: &Db, id: &str) -> Result<(), StoreError> {
        let read = async |current: &ScriptSet| {
            let stored = store::scripts::get(db, id).await?;
            let known = current.by_trigger.get(id);
            let revision = stored.as_ref().map_or(0, |row| row.revision);
            let new = match stored.and_then(|row| Some((Trigger::parse(id).ok()?, row.body))) {
                None => current.without(id),
                Some((trigger, _)) if trigger.kind() == TriggerKind::View => return Ok(current.clone()),
                Some((_, body)) if known.is_some_and(|known| *known.source == *body) => current.clone(),
                Some((trigger, body)) => current.with(Arc::new(engine.compile(trigger, &body).await)),
            };
            if let Some(script) = new.get(id) {
                script.revision.store(revision, Ordering::Relaxed);
            }
            Ok(new.with_rollouts(engine, &store::script_rollouts::running(db).await?).await)
        };
        self.0.reload(read).await
    }
}
