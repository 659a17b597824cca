//! `log`: lines for the operator, in the server's log and as events `plugin.log`.

use serde_json::Value;

use super::plugin_log::Line;
use super::state::CallState;
use crate::plugins::bindings::belvedere::plugin::log::{Host, Level};
use crate::plugins::limits;
use belvedere_base::error_text::cut;

impl Host for CallState {
    fn write(&mut self, level: Level, message: String, fields: Option<String>) -> wasmtime::Result<()> {
        write_line(self, level, message, fields);
        Ok(())
    }
}

/// Takes a line, within the call's limits.
pub(super) fn write_line(state: &mut CallState, level: Level, mut message: String, fields: Option<String>) {
    if state.account.is_none() || state.log_lines > limits::LOG_LINES {
        return;
    }
    state.log_lines += 1;
    let (level, fields) = if state.log_lines > limits::LOG_LINES {
        message = format!("the call wrote more than {} lines; the others are dropped", limits::LOG_LINES);
        (Level::Warn, None)
    } else {
        if message.len() > limits::LOG_MESSAGE_BYTES {
            message =
                format!("a line of {} bytes, which is too long to be searched for secrets", message.len());
        }
        (level, fields.filter(|fields| fields.len() <= limits::LOG_LINE_BYTES))
    };
    let line = Line { level, message, fields, at: state.now() };
    match &mut state.held_lines {
        Some(held) => held.push(line),
        None => emit(state, line),
    }
}

/// Writes the lines that waited for the end of the call.
pub(super) fn release_lines(state: &mut CallState) {
    for line in state.held_lines.take().unwrap_or_default() {
        emit(state, line);
    }
}

/// Writes a line without hidden values, within the plugin's share.
fn emit(state: &CallState, line: Line) {
    let Line { level, message, fields, at } = line;
    // A text that is cut first could end within a hidden value.
    let mut message = state.redact(&message).into_owned();
    cut(&mut message, limits::LOG_LINE_BYTES);
    let fields = fields.map(|fields| state.hidden.redact_json(parse(&fields)));
    state.log.write(&state.plugin, level, message, fields, at);
}

/// Fields that are not JSON are shown as text.
fn parse(fields: &str) -> Value {
    serde_json::from_str(fields).unwrap_or_else(|_| Value::String(fields.to_owned()))
}
