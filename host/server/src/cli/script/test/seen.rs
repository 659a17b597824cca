//! The runs of the scripts of a case, their log lines, the requests that they sent, and the writes that the PDS of the
//! case accepted.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};

use super::coverage::Coverage;
use belvedere_base::clock::Timestamp;
use belvedere_scripting::scripts::services::LogLevel;
use belvedere_scripting::scripts::{EndedRun, LogLine, LogSink, RunObserver, ScriptFailure};
use belvedere_web::fair_share::Tenant;

/// Entries of all lists: a hundred times those of a long test.
const MAX_ENTRIES: usize = 10_000;

/// Bytes of all entries.
const MAX_BYTES: usize = 32 << 20;

#[derive(Debug, Default)]
pub(super) struct Seen {
    state: Mutex<State>,
    coverage: Option<Arc<Coverage>>,
}

#[derive(Debug, Default)]
struct State {
    runs: Vec<EndedRun>,
    logs: Vec<Value>,
    requests: Vec<Value>,
    writes: Vec<Value>,
    plugin_calls: Vec<Value>,
    /// Requests, and calls of plugins, for which the case gave no answer.
    unanswered: Vec<String>,
    entries: usize,
    bytes: usize,
}

impl State {
    /// Whether there is room for an entry, whose bytes are then counted.
    fn has_room(&mut self, bytes: usize) -> bool {
        let has_room = self.entries < MAX_ENTRIES && self.bytes + bytes <= MAX_BYTES;
        if has_room {
            self.entries += 1;
            self.bytes += bytes;
        }
        has_room
    }
}

impl Seen {
    /// `coverage` receives the profiles of all runs.
    pub(super) fn new(coverage: Option<Arc<Coverage>>) -> Self {
        Self { coverage, ..Self::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn request(&self, request: Value, bytes: usize) {
        let mut state = self.state();
        if state.has_room(bytes) {
            state.requests.push(request);
        }
    }

    pub(super) fn write(&self, write: Value, bytes: usize) {
        let mut state = self.state();
        if state.has_room(bytes) {
            state.writes.push(write);
        }
    }

    pub(super) fn plugin_call(&self, call: Value, bytes: usize) {
        let mut state = self.state();
        if state.has_room(bytes) {
            state.plugin_calls.push(call);
        }
    }

    pub(super) fn unanswered(&self, text: String) {
        let mut state = self.state();
        if state.has_room(text.len()) {
            state.unanswered.push(text);
        }
    }

    /// The number of runs so far, for [`Self::run_since`].
    pub(super) fn runs(&self) -> usize {
        self.state().runs.len()
    }

    /// The last run of a script after the first `runs`.
    pub(super) fn run_since(&self, runs: usize, trigger: &str) -> Option<EndedRun> {
        self.state().runs.get(runs..)?.iter().rev().find(|run| &*run.trigger == trigger).cloned()
    }

    /// A list, by the name that test files use.
    pub(super) fn list(&self, name: &str) -> Option<Vec<Value>> {
        let state = self.state();
        match name {
            "writes" => Some(state.writes.clone()),
            "requests" => Some(state.requests.clone()),
            "logs" => Some(state.logs.clone()),
            "plugins" => Some(state.plugin_calls.clone()),
            _ => None,
        }
    }

    /// The log lines, as a report shows them.
    pub(super) fn log_lines(&self) -> Vec<String> {
        let text = |line: &Value, name: &str| line[name].as_str().unwrap_or_default().to_owned();
        let state = self.state();
        let shown =
            |line| format!("{} {}: {}", text(line, "level"), text(line, "trigger"), text(line, "message"));
        state.logs.iter().map(shown).collect()
    }

    /// The failures of scripts other than `test_file` that did not end with an answer of their own.
    pub(super) fn failures(&self, test_file: &str) -> Vec<ScriptFailure> {
        let state = self.state();
        let others = state.runs.iter().filter(|run| &*run.trigger != test_file);
        let failures = others.filter_map(|run| run.failure.clone());
        failures.filter(|failure| !failure.is_intended()).collect()
    }

    /// The requests for which the case gave no answer.
    pub(super) fn all_unanswered(&self) -> Vec<String> {
        self.state().unanswered.clone()
    }
}

impl RunObserver for Seen {
    fn wants_profiles(&self) -> bool {
        self.coverage.is_some()
    }

    fn ended(&self, mut run: EndedRun) {
        if let (Some(coverage), Some(profile)) = (&self.coverage, run.profile.take()) {
            coverage.add(&profile);
        }
        let mut state = self.state();
        let bytes = run.failure.as_ref().map_or(0, |failure| failure.message.len());
        if state.has_room(bytes) {
            state.runs.push(run);
        }
    }
}

impl LogSink for Seen {
    fn write(&self, line: LogLine) {
        let level = match line.level {
            LogLevel::Debug => "debug",
            LogLevel::Info => "info",
            LogLevel::Warn => "warn",
        };
        let mut state = self.state();
        if state.has_room(line.message.len()) {
            state.logs.push(json!({ "level": level, "trigger": &*line.trigger, "message": line.message }));
        }
    }

    fn admit(&self, _: &Tenant, _: &Arc<str>, _: usize, _: Timestamp) -> bool {
        true
    }

    fn report_dropped(&self, _: Timestamp) {}
}
