//! All scripts at one time.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{CompiledScript, Rollout};
use crate::scripts::Engine;
use belvedere_protocol::trigger::{Trigger, TriggerKind};
use belvedere_storage::store::script_rollouts::RolloutRow;
use belvedere_storage::store::{self, Db, StoreError};

/// All scripts at one time, by trigger id.
#[derive(Clone, Debug, Default)]
pub struct ScriptSet {
    pub(super) by_trigger: HashMap<Arc<str>, Arc<CompiledScript>>,
    /// The scripts for record events, by collection; read for every event of the stream.
    of_records: HashMap<Arc<str>, RecordScripts>,
    /// Empty on nearly all servers.
    rollouts: HashMap<Arc<str>, Rollout>,
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
    fn new(by_trigger: HashMap<Arc<str>, Arc<CompiledScript>>, rollouts: HashMap<Arc<str>, Rollout>) -> Self {
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
        Self { by_trigger, of_records, rollouts }
    }

    /// These scripts and another one, in place of that of its trigger.
    #[must_use]
    pub fn with(&self, script: Arc<CompiledScript>) -> Self {
        let mut scripts = self.by_trigger.clone();
        scripts.insert(script.trigger.id().into(), script);
        Self::new(scripts, self.rollouts.clone())
    }

    pub(super) fn without(&self, id: &str) -> Self {
        let mut scripts = self.by_trigger.clone();
        scripts.remove(id);
        Self::new(scripts, self.rollouts.clone())
    }

    /// The script bound to a trigger id.
    pub fn get(&self, id: &str) -> Option<&Arc<CompiledScript>> {
        self.by_trigger.get(id)
    }

    /// The candidate of a script that a caller runs. The caller is read only if the script has a rollout.
    pub(super) fn candidate(
        &self,
        id: &str,
        caller: impl FnOnce() -> String,
    ) -> Option<&Arc<CompiledScript>> {
        if self.rollouts.is_empty() {
            return None;
        }
        self.rollouts.get(id)?.candidate_for(&caller())
    }

    /// Whether the runs of a script are compared with those of a candidate.
    pub(in crate::scripts) fn has_rollout(&self, id: &str) -> bool {
        !self.rollouts.is_empty() && self.rollouts.contains_key(id)
    }

    pub(super) fn rollouts(&self) -> Vec<(Rollout, Arc<CompiledScript>)> {
        let with_script =
            |rollout: &Rollout| Some((rollout.clone(), Arc::clone(self.by_trigger.get(&rollout.script_id)?)));
        self.rollouts.values().filter_map(with_script).collect()
    }

    /// These scripts with the rollouts of the store. One that goes on keeps what it has counted.
    pub(super) async fn with_rollouts(self, engine: &Engine, rows: &[RolloutRow]) -> Self {
        let mut rollouts = HashMap::new();
        for row in rows {
            let Some(current) = self.by_trigger.get(row.script_id.as_str()) else { continue };
            let known = self.rollouts.get(&current.name).filter(|known| known.started_at == row.started_at);
            let rollout = if let Some(known) = known {
                known.with_percent(row)
            } else {
                let mut candidate = engine.compile(current.trigger.clone(), &row.body).await;
                candidate.revision = row.base_revision.into();
                candidate.is_candidate = true;
                Rollout::new(row, current, Arc::new(candidate))
            };
            rollouts.insert(Arc::clone(&current.name), rollout);
        }
        Self { rollouts, ..self }
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
        let revisions: Vec<_> = stored.iter().map(|row| row.revision).collect();
        let stored: Vec<_> = stored.into_iter().map(|row| (row.id, row.body)).collect();
        let scripts = self.compile(engine, &stored).await;
        for ((id, _), revision) in stored.iter().zip(revisions) {
            if let Some(script) = scripts.get(id) {
                script.revision.store(revision, Ordering::Relaxed);
            }
        }
        Ok(scripts.with_rollouts(engine, &store::script_rollouts::running(db).await?).await)
    }

    /// The stored scripts, given as (trigger id, source). Unchanged scripts are not compiled again; a script that does
    /// not compile is kept, and fails when it is run.
    #[must_use]
    pub async fn compile(&self, engine: &Engine, stored: &[(String, String)]) -> Self {
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
        Self::new(scripts, self.rollouts.clone())
    }
}
