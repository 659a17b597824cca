//! All scripts at one time.

use std::collections::HashMap;
use std::sync::Arc;

use super::CompiledScript;
use crate::scripts::Engine;
use belvedere_protocol::trigger::{Trigger, TriggerKind};
use belvedere_storage::store::{self, Db, StoreError};

/// All scripts at one time, by trigger id.
#[derive(Clone, Debug, Default)]
pub struct ScriptSet {
    pub(super) by_trigger: HashMap<Arc<str>, Arc<CompiledScript>>,
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
    pub(super) fn new(by_trigger: HashMap<Arc<str>, Arc<CompiledScript>>) -> Self {
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

    /// These scripts and another one, in place of that of its trigger.
    #[must_use]
    pub fn with(&self, script: Arc<CompiledScript>) -> Self {
        let mut scripts = self.by_trigger.clone();
        scripts.insert(script.trigger.id().into(), script);
        Self::new(scripts)
    }

    pub(super) fn without(&self, id: &str) -> Self {
        let mut scripts = self.by_trigger.clone();
        scripts.remove(id);
        Self::new(scripts)
    }

    /// The script bound to a trigger id.
    pub fn get(&self, id: &str) -> Option<&Arc<CompiledScript>> {
        self.by_trigger.get(id)
    }

    /// The names and sources of the schedules.
    pub fn schedules(&self) -> impl Iterator<Item = (&str, &str)> {
        let schedules =
            self.by_trigger.values().filter(|script| script.trigger.kind() == TriggerKind::Schedule);
        schedules.map(|script| (script.trigger.subject(), &*script.source))
    }

    pub(super) fn has_no_record_scripts(&self) -> bool {
        self.of_records.is_empty()
    }

    /// The one script that runs for an event of records.
    pub(super) fn for_record(&self, collection: &str, action: TriggerKind) -> Option<&Arc<CompiledScript>> {
        let scripts = self.of_records.get(collection)?;
        let specific = match action {
            TriggerKind::RecordCreate => &scripts.create,
            TriggerKind::RecordUpdate => &scripts.update,
            TriggerKind::RecordDelete => &scripts.delete,
            _ => &None,
        };
        specific.as_ref().or(scripts.index.as_ref())
    }

    /// All scripts of the store.
    pub(super) async fn load(&self, engine: &Engine, db: &Db) -> Result<Self, StoreError> {
        let stored = store::scripts::list(db, None).await?;
        let stored: Vec<_> = stored.into_iter().map(|row| (row.id, row.body)).collect();
        Ok(self.compile(engine, &stored).await)
    }

    /// The stored scripts, given as (trigger id, source). Unchanged scripts are not compiled again; a script that does
    /// not compile is kept, and fails when it is run.
    pub(super) async fn compile(&self, engine: &Engine, stored: &[(String, String)]) -> Self {
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
