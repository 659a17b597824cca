//! `log`: writes the lines of `log`, `print` and `warn`.

use super::bindings::belvedere::script::log::{Host, Level};
use super::bindings::belvedere::script::types::Fault;
use super::state::RunState;
use crate::scripts::limits;
use crate::scripts::services::{LogLevel, LogLine};

impl Host for RunState {
    fn write(&mut self, level: Level, message: Vec<u8>) -> wasmtime::Result<Result<(), Fault>> {
        if let Err(fault) = self.count_call().and_then(|()| self.count_log_line()) {
            return Ok(Err(fault));
        }
        let level = match level {
            Level::Debug => LogLevel::Debug,
            Level::Info => LogLevel::Info,
            Level::Warn => LogLevel::Warn,
        };
        write_line(self, level, message);
        Ok(Ok(()))
    }
}

/// Writes a line to the log, cut to the longest line of a script.
pub(super) fn write_line(state: &RunState, level: LogLevel, mut message: Vec<u8>) {
    let Some(sink) = state.log() else { return };
    let cut = message.len() > limits::LOG_LINE_BYTES;
    message.truncate(limits::LOG_LINE_BYTES);
    // Nearly every line is valid UTF-8, and checking is much cheaper than replacing invalid bytes.
    let mut message = String::from_utf8(message)
        .unwrap_or_else(|broken| String::from_utf8_lossy(broken.as_bytes()).into_owned());
    if cut {
        message.push('…');
    }
    sink.write(LogLine {
        level,
        trigger: state.info.trigger.clone(),
        tenant: state.tenant().clone(),
        caller_did: state.info.caller.did.as_ref().map(ToString::to_string),
        message,
        at: state.clock.now(),
    });
}
