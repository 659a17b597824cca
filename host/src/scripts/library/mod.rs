//! The registry of compiled scripts, by trigger id. Replaced as a whole, so that a request sees one consistent set.

pub(super) mod called_methods;
mod compiled;
pub(super) mod tally;

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use tokio::sync::Mutex;

pub use compiled::CompiledScript;
pub use tally::Tallied;

use crate::scripts::Engine;
use crate::store::{self, Db, StoreError};
use crate::trigger::{Bindings, Trigger, TriggerKind};

/// All scripts, by trigger id.
#[derive(Debug, Default)]
pub struct Library {
    scripts: ArcSwap<HashMap<Box<str>, Arc<CompiledScript>>>,
    /// The scripts for record events, by collection; read for every event of the stream.
    record_scripts: ArcSwap<HashMap<Box<str>, RecordScripts>>,
    /// Reloads happen one after the other, so that an older read never replaces a newer one.
    reloading: Mutex<()>,
}

/// The scripts of one collection's events.
#[derive(Clone, Debug, Default)]
struct RecordScripts {
    create: Option<Arc<CompiledScript>>,
    update: Option<Arc<CompiledScript>>,
    delete: Option<Arc<CompiledScript>>,
    index: Option<Arc<CompiledScript>>,
}

impl Bindings for Library {
    fn has(&self, id: &str) -> bool {
        self.scripts.load().contains_key(id)
    }

    fn decides(&self, collection: &str, kind: TriggerKind) -> bool {
        self.for_record(collection, kind).is_some()
    }
}

impl Library {
    pub fn new() -> Self {
        Self::default()
    }

    /// The script bound to a trigger id.
    pub fn get(&self, id: &str) -> Option<Arc<CompiledScript>> {
        self.scripts.load().get(id).cloned()
    }

    pub fn len(&self) -> usize {
        self.scripts.load().len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A snapshot of each script's tally, by trigger id.
    pub fn tallies(&self) -> Vec<(String, Tallied)> {
        let scripts = self.scripts.load();
        scripts.iter().map(|(id, script)| (id.to_string(), script.tally.read())).collect()
    }

    /// Adds or replaces one script.
    pub fn insert(&self, script: CompiledScript) {
        let script = Arc::new(script);
        self.scripts.rcu(|old| {
            let mut new = HashMap::clone(old);
            new.insert(script.trigger.id().into(), Arc::clone(&script));
            new
        });
        self.index_record_scripts();
    }

    pub fn remove(&self, id: &str) {
        self.scripts.rcu(|old| {
            let mut new = HashMap::clone(old);
            new.remove(id);
            new
        });
        self.index_record_scripts();
    }

    /// Whether there are no scripts for record events.
    pub fn ignores_records(&self) -> bool {
        self.record_scripts.load().is_empty()
    }

    /// The one script that runs for an event: the one for the action, or else the collection's general one
    /// (`lua-runtime.md` §2). `action` is the kind of trigger.
    pub fn for_record(&self, collection: &str, action: TriggerKind) -> Option<Arc<CompiledScript>> {
        let scripts = self.record_scripts.load();
        let scripts = scripts.get(collection)?;
        let specific = match action {
            TriggerKind::RecordCreate => &scripts.create,
            TriggerKind::RecordUpdate => &scripts.update,
            TriggerKind::RecordDelete => &scripts.delete,
            _ => &None,
        };
        specific.as_ref().or(scripts.index.as_ref()).cloned()
    }

    fn index_record_scripts(&self) {
        self.record_scripts.rcu(|_| {
            let mut by_collection: HashMap<Box<str>, RecordScripts> = HashMap::new();
            for script in self.scripts.load().values() {
                let kind = script.trigger.kind();
                if kind.context() != "record" {
                    continue;
                }
                let scripts = by_collection.entry(script.trigger.subject().into()).or_default();
                let slot = match kind {
                    TriggerKind::RecordCreate => &mut scripts.create,
                    TriggerKind::RecordUpdate => &mut scripts.update,
                    TriggerKind::RecordDelete => &mut scripts.delete,
                    _ => &mut scripts.index,
                };
                *slot = Some(Arc::clone(script));
            }
            by_collection
        });
    }

    /// Loads all scripts from the store.
    ///
    /// # Errors
    /// When the store can't be read; the scripts stay as they were.
    pub async fn reload(&self, engine: &Engine, db: &Db) -> Result<(), StoreError> {
        let _one_at_a_time = self.reloading.lock().await;
        let stored = store::scripts::list(db, None).await?;
        let stored: Vec<_> = stored.into_iter().map(|row| (row.id, row.body)).collect();
        self.replace(engine, &stored).await;
        Ok(())
    }

    /// Loads one script from the store.
    ///
    /// # Errors
    /// When the store can't be read; the script stays as it was.
    pub async fn reload_one(&self, engine: &Engine, db: &Db, id: &str) -> Result<(), StoreError> {
        let _one_at_a_time = self.reloading.lock().await;
        let stored = store::scripts::get(db, id).await?;
        match stored.and_then(|row| Some((Trigger::parse(id).ok()?, row.body))) {
            None => self.remove(id),
            Some((_, body)) if self.get(id).is_some_and(|known| *known.source == *body) => {}
            Some((trigger, body)) => self.insert(engine.compile(trigger, &body).await),
        }
        Ok(())
    }

    /// Replaces all scripts by the stored ones, given as (trigger id, source). Unchanged scripts are not compiled
    /// again; a script that does not compile is kept, and fails when it is run.
    pub async fn replace(&self, engine: &Engine, stored: &[(String, String)]) {
        let old = self.scripts.load_full();
        let mut new = HashMap::new();
        for (id, source) in stored {
            let script = match old.get(id.as_str()) {
                Some(same) if *same.source == **source => Arc::clone(same),
                _ => match Trigger::parse(id) {
                    Ok(trigger) => Arc::new(engine.compile(trigger, source).await),
                    Err(error) => {
                        tracing::error!(script = id, %error, "a stored script has an unusable id and is ignored");
                        continue;
                    }
                },
            };
            new.insert(id.as_str().into(), script);
        }
        self.scripts.store(Arc::new(new));
        self.index_record_scripts();
    }
}
