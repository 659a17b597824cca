//! The errors of a script with their positions: lines count from 1, columns count UTF-16 code units from 1.

use std::ops::Range;

use schemars::JsonSchema;
use serde::Serialize;

use belvedere_protocol::trigger::Trigger;
use belvedere_scripting::scripts::{ScriptFailure, UnknownName};

#[derive(Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Diagnostic {
    /// `error`: the script can't be saved; or `warning`.
    #[schemars(extend("enum" = ["error", "warning"]))]
    severity: &'static str,
    #[schemars(extend("enum" = [
        "syntax", "missing_handle", "runtime", "limit", "memory", "unknown_method", "unknown_collection",
        "unknown_name", "unset_variable", "no_lexicon", "sql", "kind_mismatch", "view"
    ]))]
    kind: &'static str,
    /// From 1. Null when it concerns no line; then the fields below are null too.
    line: Option<usize>,
    /// From 1, in UTF-16 code units.
    column: Option<usize>,
    end_line: Option<usize>,
    /// The column after the last one.
    end_column: Option<usize>,
    message: String,
}

impl Diagnostic {
    pub(super) fn warning(kind: &'static str, message: String) -> Self {
        Self { severity: "warning", kind, message, ..Self::default() }
    }

    /// A mistake of a view, with its place in the text.
    pub(super) fn of_view(message: String) -> Self {
        Self { severity: "error", kind: "view", message, ..Self::default() }
    }

    /// At these bytes of the source, or those of them that are on the first line.
    pub(super) fn at(self, source: &str, bytes: Range<usize>) -> Self {
        let length = source[bytes.clone()].find('\n').unwrap_or(bytes.len());
        let bytes = bytes.start..bytes.start + length;
        let start = source[..bytes.start].rfind('\n').map_or(0, |newline| newline + 1);
        let column = |at: usize| source[start..at].encode_utf16().count() + 1;
        let line = source[..start].matches('\n').count() + 1;
        Self {
            line: Some(line),
            column: Some(column(bytes.start)),
            end_line: Some(line),
            end_column: Some(column(bytes.end)),
            ..self
        }
    }
}

/// The error of a script that does not load.
pub(super) fn of_failure(trigger: &Trigger, source: &str, failure: &ScriptFailure) -> Diagnostic {
    let (line, message) = position(trigger, failure);
    let found = Diagnostic {
        severity: "error",
        kind: failure.kind.as_str(),
        message: message.to_owned(),
        ..Diagnostic::default()
    };
    match line.and_then(|line| range(source, line, message)) {
        Some(bytes) => found.at(source, bytes),
        None => found,
    }
}

/// The warning about a name that nothing defines.
pub(super) fn of_unknown_name(source: &str, unknown: &UnknownName) -> Diagnostic {
    let found = Diagnostic::warning("unknown_name", unknown.to_string());
    match range(source, unknown.line as usize, &format!(" near '{}'", unknown.name)) {
        Some(bytes) => found.at(source, bytes),
        None => found,
    }
}

/// The line of a failure, and its message without the position in front.
pub(super) fn position<'a>(trigger: &Trigger, failure: &'a ScriptFailure) -> (Option<usize>, &'a str) {
    let own = failure.line.map(|line| line as usize);
    let after_id = failure.message.strip_prefix(trigger.id()).and_then(|rest| rest.strip_prefix(':'));
    let parsed = after_id.and_then(|rest| {
        let (line, message) = rest.split_once(':')?;
        Some((line.parse().ok()?, message.trim_start()))
    });
    match parsed {
        Some((line, message)) => (Some(line), message),
        None => (own, &failure.message),
    }
}

/// The bytes of a line that a message is about: the word that it names with `near`, or the line without its blanks. Lua
/// does not report columns.
fn range(source: &str, line: usize, message: &str) -> Option<Range<usize>> {
    let start = match line.checked_sub(2) {
        None => 0,
        Some(before) => source.match_indices('\n').nth(before)?.0 + 1,
    };
    let text = source[start..].split('\n').next().unwrap_or_default().trim_end();
    let blanks = text.len() - text.trim_start().len();
    let whole = start + blanks..start + text.len();
    let Some((_, near)) = message.rsplit_once(" near ") else { return Some(whole) };
    if near == "<eof>" {
        return Some(start + text.len()..start + text.len());
    }
    let word = near.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
    let mut found = word
        .filter(|word| !word.is_empty())
        .into_iter()
        .flat_map(|word| text.match_indices(word).map(move |(at, _)| start + at..start + at + word.len()));
    // A word that occurs twice may be either.
    match (found.next(), found.next()) {
        (Some(only), None) => Some(only),
        _ => Some(whole),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use belvedere_scripting::scripts::FailureKind;

    fn find(
        source: &str,
        message: &str,
        line: Option<u32>,
    ) -> (Option<usize>, Option<usize>, Option<usize>, String) {
        let trigger = Trigger::query("com.example.list").unwrap();
        let failure = ScriptFailure { line, ..ScriptFailure::new(FailureKind::Syntax, message) };
        let found = of_failure(&trigger, source, &failure);
        (found.line, found.column, found.end_column, found.message)
    }

    #[test]
    fn the_word_of_a_message_is_found_on_its_line() {
        let id = "xrpc.query:com.example.list";
        let source = "-- 😀\nlocal ä = '😀' return x\n  f(x x)\n";
        let near = |line: usize, word: &str| find(source, &format!("{id}:{line}: oops near {word}"), None);
        assert_eq!(near(2, "'return'"), (Some(2), Some(16), Some(22), "oops near 'return'".into()));
        assert_eq!(
            near(3, "'x'"),
            (Some(3), Some(3), Some(9), "oops near 'x'".into()),
            "ambiguous: the line"
        );
        assert_eq!(near(3, "<eof>"), (Some(3), Some(9), Some(9), "oops near <eof>".into()));
        assert_eq!(near(9, "'x'"), (None, None, None, "oops near 'x'".into()), "there is no such line");
        assert_eq!(
            find(source, "too much work", Some(3)),
            (Some(3), Some(3), Some(9), "too much work".into())
        );
        assert_eq!(find(source, "no handle", None), (None, None, None, "no handle".into()));
    }
}
