//! Pauses a plugin whose calls failed several times in a row.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::events::{Event, PluginCallEvent};
use crate::plugins::limits::TRAPS;
use crate::plugins::registry::LoadedPlugin;
use crate::plugins::services::PluginServices;
use crate::store::plugin_pauses;

/// The plugins whose last calls failed, by id. Forgotten when the server ends: the store has those that are paused.
#[derive(Debug, Default)]
pub(super) struct Pausing(Mutex<HashMap<String, Row>>);

/// Failures in a row of a plugin since it was loaded. One that is loaded again, because it was resumed or replaced, has no
/// failures.
#[derive(Debug)]
struct Row {
    plugin: Weak<LoadedPlugin>,
    traps: u32,
}

impl Row {
    fn is_of(&self, plugin: &Arc<LoadedPlugin>) -> bool {
        std::ptr::eq(self.plugin.as_ptr(), Arc::as_ptr(plugin))
    }
}

impl Pausing {
    /// Whether the plugin failed too often.
    pub(super) fn is_paused(&self, plugin: &Arc<LoadedPlugin>) -> bool {
        let rows = self.lock();
        rows.get(&plugin.manifest.id).is_some_and(|row| row.traps >= TRAPS && row.is_of(plugin))
    }

    /// A call that ended as the plugin wanted, be it with an error.
    pub(super) fn succeeded(&self, plugin: &Arc<LoadedPlugin>) {
        let mut rows = self.lock();
        // A call that began before the plugin was paused does not resume it.
        if rows.get(&plugin.manifest.id).is_some_and(|row| row.traps < TRAPS && row.is_of(plugin)) {
            rows.remove(&plugin.manifest.id);
        }
    }

    /// Counts a failure, and pauses the plugin after too many.
    pub(super) async fn failed(&self, plugin: &Arc<LoadedPlugin>, error: &str, services: &PluginServices) {
        let (id, sha256) = (&plugin.manifest.id, &plugin.component.sha256);
        let traps = {
            let mut rows = self.lock();
            let first = || Row { plugin: Arc::downgrade(plugin), traps: 0 };
            let row = rows.entry(id.clone()).or_insert_with(first);
            if !row.is_of(plugin) {
                *row = first();
            }
            row.traps = row.traps.saturating_add(1);
            row.traps
        };
        // Calls that were running when the plugin was paused may trap too.
        if traps != TRAPS {
            return;
        }
        tracing::error!(plugin = id, traps, error, "the plugin is paused: it trapped too often");
        let event = PluginCallEvent::Paused { plugin: id.clone(), traps, error: error.to_owned() };
        services.events.record(Event::PluginCall(event));
        if let Err(error) = plugin_pauses::pause(&services.db, id, sha256, i64::from(traps), error).await {
            tracing::error!(plugin = id, %error, "the pause of the plugin can't be stored");
        }
        (services.on_pause)(id);
    }

    /// Forgets a plugin's traps.
    pub(super) fn resume(&self, id: &str) {
        self.lock().remove(id);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Row>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
