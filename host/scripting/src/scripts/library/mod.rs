//! The registry of compiled scripts, by trigger id. Replaced as a whole, so that a request sees one consistent set.

mod compiled;
mod sample;
pub(super) mod tally;

use std::collections::HashMap;
use std::sync::Arc;

pub use compiled::CompiledScript;
pub use sample::OutputSample;
pub use tally::TallySnapshot;

use crate::scripts::Engine;
use belvedere_base::reloadable::Reloadable;
use belvedere_protocol::trigger::{ScriptBindings, Trigger, TriggerKind};
use belvedere_storage::store::{self, Db, StoreError};

/// All scripts, by trigger id.
#[derive(Debug, Default)]
pub struct Library(Reloadable<ScriptSet>);

#[derive(Clone, Debug, Default)]
struct ScriptSet {
    by_trigger: HashMap<Arc<str>, Arc<CompiledScript>>,
    /// The scripts for record events, by collection; read for every event of the stream.
    of_records: HashMap<Arc<str>, RecordScripts>,
}

/// The scripts of one collection's events.
#[derive(Clone, Debug, Default)]
struct RecordScripts {
    create: Option<Arc<CompiledScript>>,
    update: Option<Arc<CompiledScript>>,
    delete: Option<Arc<CompiledScript>>,
    index: Option<Arc<CompiledScript>>,
}

impl ScriptSet {
    fn new(by_trigger: HashMap<Arc<str>, Arc<CompiledScript>>) -> Self {
        let mut of_records: HashMap<Arc<str>, RecordScripts> = HashMap::new();
        for script in by_trigger.values() {
            let kind = script.trigger.kind();
            if kind.context() != "record" {
                continue;
            }
            let scripts = of_records.entry(script.trigger.subject().into()).or_default();
            let slot = match kind {
                TriggerKind::RecordCreate => &mut scripts.create,
                TriggerKind::RecordUpdate => &mut scripts.update,
                TriggerKind::RecordDelete => &mut scripts.delete,
                _ => &mut scripts.index,
            };
            *slot = Some(Arc::clone(script));
        }
        Self { by_trigger, of_records }
    }

    fn with(&self, script: CompiledScript) -> Self {
        let mut scripts = self.by_trigger.clone();
        scripts.insert(script.trigger.id().into(), Arc::new(script));
        Self::new(scripts)
    }

    fn without(&self, id: &str) -> Self {
        let mut scripts = self.by_trigger.clone();
        scripts.remove(id);
        Self::new(scripts)
    }

    /// The stored scripts, given as (trigger id, source). Unchanged scripts are not compiled again; a script that does
    /// not compile is kept, and fails when it is run.
    async fn compile(&self, engine: &Engine, stored: &[(String, String)]) -> Self {
        let mut scripts = HashMap::new();
        for (id, source) in stored {
            let script = match self.by_trigger.get(id.as_str()) {
                Some(same) if *same.source == **source => Arc::clone(same),
                _ => match Trigger::parse(id) {
                    // The room of views loads them.
                    Ok(trigger) if trigger.kind() == TriggerKind::View => continue,
                    Ok(trigger) => Arc::new(engine.compile(trigger, source).await),
                    Err(error) => {
                        tracing::error!(script = id, %error, "a stored script has an unusable id and is ignored");
                        continue;
                    }
                },
            };
            scripts.insert(id.as_str().into(), script);
        }
        Self::new(scripts)
    }
}

impl ScriptBindings for Library {
    fn has(&self, id: &str) -> bool {
        self.0.load().by_trigger.contains_key(id)
    }
}

impl Library {
    pub fn new() -> Self {
        Self::default()
    }

    /// The script bound to a trigger id.
    pub fn get(&self, id: &str) -> Option<Arc<CompiledScript>> {
        self.0.load().by_trigger.get(id).cloned()
    }

    /// A snapshot of each script's tally, by trigger id.
    pub fn tallies(&self) -> Vec<(String, TallySnapshot)> {
        let scripts = self.0.load();
        scripts.by_trigger.iter().map(|(id, script)| (id.to_string(), script.tally.read())).collect()
    }

    /// Adds or replaces one script.
    #[cfg(any(test, feature = "testing"))]
    pub fn insert(&self, script: CompiledScript) {
        self.0.store(self.0.load().with(script));
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
        self.0.load().of_records.is_empty()
    }

    /// The one script that runs for an event: the one for the action, or else the collection's general one
    /// (`lua-runtime.md` §2). `action` is the kind of trigger.
    pub fn for_record(&self, collection: &str, action: TriggerKind) -> Option<Arc<CompiledScript>> {
        let scripts = self.0.load();
        let scripts = scripts.of_records.get(collection)?;
        let specific = match action {
            TriggerKind::RecordCreate => &scripts.create,
            TriggerKind::RecordUpdate => &scripts.update,
            TriggerKind::RecordDelete => &scripts.delete,
            _ => &None,
        };
        specific.as_ref().or(scripts.index.as_ref()).cloned()
    }

    /// Loads all scripts from the store.
    ///
    /// # Errors
    /// When the store can't be read; the scripts stay as they were.
    pub async fn reload(&self, engine: &Engine, db: &Db) -> Result<(), StoreError> {
        let read = async |current: &ScriptSet| {
            let stored = store::scripts::list(db, None).await?;
            let stored: Vec<_> = stored.into_iter().map(|row| (row.id, row.body)).collect();
            Ok(current.compile(engine, &stored).await)
        };
        self.0.reload(read).await
    }

    /// Loads one script from the store.
    ///
    /// # Errors
    /// When the store can't be read; the script stays as it was.
    pub async fn reload_one(&self, engine: &Engine, db: &Db, id: &str) -> Result<(), StoreError> {
        let read = async |current: &ScriptSet| {
            let stored = store::scripts::get(db, id).await?;
            let known = current.by_trigger.get(id);
            Ok(match stored.and_then(|row| Some((Trigger::parse(id).ok()?, row.body))) {
                None => current.without(id),
                Some((trigger, _)) if trigger.kind() == TriggerKind::View => current.clone(),
                Some((_, body)) if known.is_some_and(|known| *known.source == *body) => current.clone(),
                Some((trigger, body)) => current.with(engine.compile(trigger, &body).await),
            })
        };
        self.0.reload(read).await
    }
}
