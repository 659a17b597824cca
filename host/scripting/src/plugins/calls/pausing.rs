//! Pauses a plugin whose calls failed several times in a row.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::plugins::limits::TRAPS;
use crate::plugins::registry::LoadedPlugin;
use crate::plugins::services::PluginServices;
use belvedere_instance::events::Event;
use belvedere_storage::store::plugin_pauses;
use belvedere_web::fair_share::Tenant;

/// The rows of traps of the plugins, by id. Forgotten when the server ends: the store has those that are paused.
#[derive(Debug, Default)]
pub(super) struct Pausing(Mutex<HashMap<String, Row>>);

/// The state of a plugin since it was loaded. One that is loaded again, because it was resumed or replaced, begins with
/// nothing.
#[derive(Debug)]
struct Row {
    plugin: Weak<LoadedPlugin>,
    traps: Traps,
}

/// Traps in a row. A tenant may be able to make a plugin trap with what it sends, so the traps of one among several
/// tenants do not pause it for the others.
#[derive(Debug, Default)]
struct Traps {
    /// The tenants that have called the plugin.
    callers: Tenants,
    /// The tenants whose calls are in the row.
    trapped: Tenants,
    count: u32,
    is_paused: bool,
}

/// The only tenant, or several.
#[derive(Debug, Default)]
enum Tenants {
    #[default]
    None,
    One(Tenant),
    Several,
}

impl Tenants {
    fn add(&mut self, tenant: &Tenant) {
        match self {
            Self::None => *self = Self::One(tenant.clone()),
            Self::One(only) if only != tenant => *self = Self::Several,
            Self::One(_) | Self::Several => {}
        }
    }

    fn are_several(&self) -> bool {
        matches!(self, Self::Several)
    }
}

impl Traps {
    /// A call that ended as the plugin wanted, be it with an error.
    fn worked(&mut self, tenant: &Tenant) {
        self.callers.add(tenant);
        // A call that began before the plugin was paused does not resume it.
        (self.trapped, self.count) = (Tenants::None, 0);
    }

    /// Whether this trap pauses the plugin.
    fn trapped(&mut self, tenant: &Tenant) -> bool {
        self.callers.add(tenant);
        self.trapped.add(tenant);
        self.count = self.count.saturating_add(1);
        let concerns_all = self.trapped.are_several() || !self.callers.are_several();
        // Calls that were running when the plugin was paused may trap too.
        let pauses = self.count >= TRAPS && concerns_all && !self.is_paused;
        self.is_paused |= pauses;
        pauses
    }
}

impl Pausing {
    /// Whether the plugin failed too often.
    pub(super) fn is_paused(&self, plugin: &Arc<LoadedPlugin>) -> bool {
        let rows = self.lock();
        rows.get(&plugin.manifest.id).is_some_and(|row| row.traps.is_paused && row.is_of(plugin))
    }

    /// A call that ended as the plugin wanted, be it with an error.
    pub(super) fn succeeded(&self, plugin: &Arc<LoadedPlugin>, tenant: &Tenant) {
        row(&mut self.lock(), plugin).worked(tenant);
    }

    /// Counts a trap, and pauses the plugin after too many.
    pub(super) async fn failed(
        &self,
        plugin: &Arc<LoadedPlugin>,
        tenant: &Tenant,
        error: &str,
        services: &PluginServices,
    ) {
        let (id, sha256) = (&plugin.manifest.id, &plugin.component.sha256);
        let traps = {
            let mut rows = self.lock();
            let traps = row(&mut rows, plugin);
            if !traps.trapped(tenant) {
                return;
            }
            traps.count
        };
        tracing::error!(plugin = id, traps, error, "the plugin is paused: it trapped too often");
        services.events.record(Event::PluginPaused { plugin: id.clone(), traps, error: error.to_owned() });
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

impl Row {
    fn is_of(&self, plugin: &Arc<LoadedPlugin>) -> bool {
        std::ptr::eq(self.plugin.as_ptr(), Arc::as_ptr(plugin))
    }
}

/// The row of a plugin, a new one if it was loaded again.
fn row<'a>(rows: &'a mut HashMap<String, Row>, plugin: &Arc<LoadedPlugin>) -> &'a mut Traps {
    let first = || Row { plugin: Arc::downgrade(plugin), traps: Traps::default() };
    let row = rows.entry(plugin.manifest.id.clone()).or_insert_with(first);
    if !row.is_of(plugin) {
        *row = first();
    }
    &mut row.traps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_tenant_among_several_pauses_nothing() {
        let (a, b) = (Tenant::client("a"), Tenant::client("b"));
        let mut traps = Traps::default();
        traps.worked(&b);
        for _ in 0..10 * TRAPS {
            assert!(!traps.trapped(&a));
        }
        traps.worked(&b);
        for _ in 1..TRAPS {
            assert!(!traps.trapped(&a), "a call that worked ended the row");
        }
        assert!(traps.trapped(&b) && traps.is_paused);
        assert!(!traps.trapped(&b), "it is paused once");
    }

    #[test]
    fn the_only_tenant_pauses_the_plugin() {
        let mut traps = Traps::default();
        for _ in 1..TRAPS {
            assert!(!traps.trapped(&Tenant::Instance));
        }
        assert!(traps.trapped(&Tenant::Instance));
    }
}
