//! Writes the outcomes of cases as JUnit XML, which CI systems show.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;

use super::case::Outcome;
use super::suite::Case;

/// Writes the report.
///
/// # Errors
/// When the file can't be written.
pub(super) fn write(path: &Path, ended: &[(&Case, Outcome)], took: Duration) -> anyhow::Result<()> {
    fs::write(path, text(ended, took)).with_context(|| format!("{} can't be written", path.display()))
}

fn text(ended: &[(&Case, Outcome)], took: Duration) -> String {
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    // Writing to a String can't fail.
    let _ = writeln!(out, "<testsuites {} time=\"{:.3}\">", counts(ended), took.as_secs_f64());
    for of_file in ended.chunk_by(|(a, _), (b, _)| a.file.path == b.file.path) {
        let Some((first, _)) = of_file.first() else { continue };
        let file = escaped(&first.file.path.display().to_string());
        let time: Duration = of_file.iter().map(|(_, outcome)| outcome.duration).sum();
        let counts = counts(of_file);
        let _ = writeln!(out, "  <testsuite name=\"{file}\" {counts} time=\"{:.3}\">", time.as_secs_f64());
        for (case, outcome) in of_file {
            write_case(&mut out, &file, case, outcome);
        }
        out.push_str("  </testsuite>\n");
    }
    out.push_str("</testsuites>\n");
    out
}

fn counts(ended: &[(&Case, Outcome)]) -> String {
    let failed = ended.iter().filter(|(_, outcome)| outcome.failed.is_some()).count();
    format!("tests=\"{}\" failures=\"{failed}\"", ended.len())
}

fn write_case(out: &mut String, file: &str, case: &Case, outcome: &Outcome) {
    let (name, time) = (escaped(&case.name), outcome.duration.as_secs_f64());
    let line = outcome.failed.as_ref().and_then(|failed| failed.line).or(case.line);
    let line = line.map(|line| format!(" line=\"{line}\"")).unwrap_or_default();
    let _ = write!(
        out,
        "    <testcase classname=\"{file}\" name=\"{name}\" file=\"{file}\"{line} time=\"{time:.3}\""
    );
    let Some(failed) = &outcome.failed else {
        out.push_str("/>\n");
        return;
    };
    let (message, notes) = (escaped(&failed.message), escaped(&failed.notes.join("\n")));
    let _ = writeln!(
        out,
        ">\n      <failure message=\"{message}\">{message}\n{notes}</failure>\n    </testcase>"
    );
}

/// The text for XML. Characters that XML can't have become U+FFFD.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' => out.push_str("&#10;"),
            '\t' => out.push_str("&#9;"),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_stay_texts() {
        assert_eq!(escaped("<a b=\"c\">&\n\0\u{1b}"), "&lt;a b=&quot;c&quot;&gt;&amp;&#10;\u{fffd}\u{fffd}");
        assert_eq!(text(&[], Duration::ZERO).lines().count(), 3);
    }
}
