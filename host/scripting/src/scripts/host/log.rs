//! `log`: writes the lines of `log`, `print` and `warn`.

use super::Refusal;
use super::state::RunState;
use crate::scripts::bindings::belvedere::script::log::{Host, Level};
use crate::scripts::effects::Effects;
use crate::scripts::limits;
use crate::scripts::services::LogLine;

impl Host for RunState {
    fn write(&mut self, level: Level, message: Vec<u8>) -> Result<(), Refusal> {
        self.count_call()?;
        self.count_log_line()?;
        write_line(self, level, message);
        Ok(())
    }
}

/// Writes a line to the log, cut to the longest line of a script.
pub(super) fn write_line(state: &RunState, level: Level, mut message: Vec<u8>) {
    let Some((sink, effects)) = state.log() else { return };
    let cut = message.len() > limits::LOG_LINE_BYTES;
    message.truncate(limits::LOG_LINE_BYTES);
    // Nearly every line is valid UTF-8, and checking is much cheaper than replacing invalid bytes.
    let mut message = String::from_utf8(message)
        .unwrap_or_else(|broken| String::from_utf8_lossy(broken.as_bytes()).into_owned());
    if cut {
        message.push('…');
    }
    match effects {
        Effects::Reported(dry_run) => dry_run.log(level.as_str(), message),
        Effects::Real => sink.write(LogLine {
            level,
            trigger: state.info.trigger.clone(),
            tenant: state.tenant().clone(),
            caller_did: state.info.caller.did.as_ref().map(ToString::to_string),
            message,
            at: state.clock.now(),
        }),
    }
}
