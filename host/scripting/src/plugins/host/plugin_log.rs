//! Writes the lines of plugins to the server's log and to the event log, within each plugin's share.

use std::sync::Arc;

use serde_json::Value;

use crate::plugins::bindings::belvedere::plugin::log::Level;
use crate::plugins::failure::Failure;
use belvedere_base::clock::Timestamp;
use belvedere_instance::events::{Event, EventLog};
use belvedere_storage::store::events::Severity;
use belvedere_wasm::sandbox::{DroppedLines, LogShares};

/// A line as the plugin wrote it.
pub(super) struct Line {
    pub(super) level: Level,
    pub(super) message: String,
    /// JSON text.
    pub(super) fields: Option<String>,
    pub(super) at: Timestamp,
}

/// Writes the lines of all plugins. Lines over a plugin's share are dropped, counted and reported.
#[derive(Debug)]
pub(in crate::plugins) struct PluginLog {
    events: EventLog,
    shares: LogShares<Arc<str>>,
}

impl PluginLog {
    pub(in crate::plugins) fn new(events: EventLog) -> Self {
        Self { events, shares: LogShares::new("belvedere_plugin_log_lines_dropped_total") }
    }

    pub(super) fn write(
        &self,
        plugin: &Arc<str>,
        level: Level,
        message: String,
        fields: Option<Value>,
        now: Timestamp,
    ) {
        let bytes = message.len() + fields.as_ref().map_or(0, |fields| fields.to_string().len());
        if !self.is_within_share(plugin, bytes, now) {
            return;
        }
        let plugin: &str = plugin;
        let shown = fields.as_ref().map(tracing::field::display);
        match level {
            Level::Debug => tracing::debug!(plugin, message, fields = shown, "a plugin logs"),
            Level::Info => tracing::info!(plugin, message, fields = shown, "a plugin logs"),
            Level::Warn => tracing::warn!(plugin, message, fields = shown, "a plugin warns"),
            Level::Error => tracing::error!(plugin, message, fields = shown, "a plugin reports an error"),
        }
        let (name, severity) = match level {
            Level::Debug => ("debug", Severity::Info),
            Level::Info => ("info", Severity::Info),
            Level::Warn => ("warn", Severity::Warn),
            Level::Error => ("error", Severity::Error),
        };
        let plugin = plugin.to_owned();
        self.events.record(Event::PluginLog { plugin, level: name, severity, message, fields });
    }

    /// Writes that a call failed, within the plugin's share: clients may be able to make it fail.
    pub(in crate::plugins) fn failed(
        &self,
        plugin: &str,
        interface: &'static str,
        failure: &Failure,
        now: Timestamp,
    ) {
        if !self.is_within_share(&plugin.into(), failure.text.len(), now) {
            return;
        }
        tracing::warn!(plugin, error = failure.text, "a call of a plugin failed");
        let (plugin, error, cause) = (plugin.to_owned(), failure.text.clone(), failure.cause.as_str());
        self.events.record(Event::PluginFailed { plugin, interface, cause, error });
    }

    /// Takes a line out of the plugin's share. Lines that do not fit are counted.
    fn is_within_share(&self, plugin: &Arc<str>, bytes: usize, now: Timestamp) -> bool {
        self.shares.admit(plugin, plugin, bytes, now, |dropped| self.report(&dropped))
    }

    fn report(&self, dropped: &DroppedLines) {
        let DroppedLines { lines, source } = dropped;
        let message = format!("{lines} lines were dropped: the plugin logs too much");
        tracing::warn!(plugin = &**source, lines, "log lines were dropped: the plugin logs too much");
        self.events.record(Event::PluginLog {
            plugin: source.to_string(),
            level: "warn",
            severity: Severity::Warn,
            message,
            fields: None,
        });
    }

    /// Reports the lines that were dropped since the last report.
    pub(in crate::plugins) fn report_dropped(&self, now: Timestamp) {
        for dropped in self.shares.take_dropped(now) {
            self.report(&dropped);
        }
    }
}
