//! Prints the failures of scripts with their stack, and with the paths of their files in place of their names.

use std::sync::{PoisonError, RwLock};

use super::super::print_stderr;
use super::super::script::Places;
use belvedere_scripting::scripts::{EndedRun, RunObserver};

/// Prints failures. The places change with the folder.
#[derive(Debug, Default)]
pub(super) struct Terminal(RwLock<Places>);

impl Terminal {
    pub(super) fn set_places(&self, places: Places) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = places;
    }

    fn text(&self, run: &EndedRun) -> Option<String> {
        let failure = run.failure.as_ref().filter(|failure| !failure.is_intended())?;
        let mut text = format!("{} failed: {}", run.trigger, failure.message);
        if let Some(traceback) = &failure.traceback {
            text.push('\n');
            text.push_str(traceback);
        }
        let places = self.0.read().unwrap_or_else(PoisonError::into_inner);
        Some(places.replace(&text).chars().map(visible).collect())
    }
}

/// A character that can't command the terminal.
fn visible(character: char) -> char {
    if character.is_control() && !matches!(character, '\n' | '\t') { '\u{fffd}' } else { character }
}

impl RunObserver for Terminal {
    fn ended(&self, run: EndedRun) {
        if let Some(text) = self.text(&run) {
            print_stderr(&text);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use belvedere_scripting::scripts::{FailureKind, ScriptFailure};

    #[test]
    fn a_failure_names_the_file_and_can_not_command_the_terminal() {
        let terminal = Terminal::default();
        let mut places = Places::default();
        places.add("xrpc.query:com.example.a", Path::new("app/a.lua"));
        terminal.set_places(places);
        let mut failure =
            ScriptFailure::new(FailureKind::Runtime, "xrpc.query:com.example.a:3: bad\u{1b}[2J");
        failure.traceback =
            Some("stack traceback:\n\txrpc.query:com.example.a:3: in function 'f'".to_owned());
        let run = |failure| EndedRun {
            trigger: "xrpc.query:com.example.a".into(),
            instructions: None,
            failure,
            profile: None,
        };
        let text = terminal.text(&run(Some(failure))).unwrap();
        assert_eq!(
            text,
            "xrpc.query:com.example.a failed: app/a.lua:3: bad\u{fffd}[2J\nstack traceback:\n\tapp/a.lua:3: in function 'f'"
        );
        assert_eq!(terminal.text(&run(None)), None);
    }
}
