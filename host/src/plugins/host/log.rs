//! `log`: lines for the operator, in the server's log and as events `plugin.log`.

use serde_json::Value;

use super::bindings::belvedere::plugin::log::{Host, Level};
use super::state::CallState;
use crate::plugins::limits;

impl Host for CallState {
    fn write(&mut self, level: Level, message: String, fields: Option<String>) -> wasmtime::Result<()> {
        write_line(self, level, message, fields);
        Ok(())
    }
}

/// Writes a line, within the call's limits and the plugin's share.
pub(super) fn write_line(state: &mut CallState, level: Level, mut message: String, fields: Option<String>) {
    if state.account.is_none() || state.log_lines > limits::LOG_LINES {
        return;
    }
    state.log_lines += 1;
    let (level, fields) = if state.log_lines > limits::LOG_LINES {
        message = format!("the call wrote more than {} lines; the others are dropped", limits::LOG_LINES);
        (Level::Warn, None)
    } else {
        cut(&mut message);
        (level, fields.filter(|fields| fields.len() <= limits::LOG_LINE_BYTES))
    };
    let message = state.redact(&message).into_owned();
    let fields = fields.map(|fields| parse(&state.redact(&fields)));
    state.log.write(&state.plugin, level, message, fields, state.services.clock.now());
}

fn cut(text: &mut String) {
    if text.len() > limits::LOG_LINE_BYTES {
        text.truncate(text.floor_char_boundary(limits::LOG_LINE_BYTES));
        text.push('…');
    }
}

/// Fields that are not JSON are shown as text.
fn parse(fields: &str) -> Value {
    serde_json::from_str(fields).unwrap_or_else(|_| Value::String(fields.to_owned()))
}
