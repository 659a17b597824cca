//! Prints the outcomes of cases: each failure with file and line, and a summary.

use std::path::Path;
use std::time::Duration;

use super::super::super::folder::count;
use super::super::super::print_line;
use super::case::{Failed, Outcome};
use super::suite::Case;

/// Notes that are printed of one failure.
const MAX_NOTES: usize = 20;

/// A failure as `FILE:LINE: NAME: message`, with notes below it.
pub(super) fn failure(case: &Case, failed: &Failed) {
    let path = case.file.path.display();
    let line = failed.line.or(case.line).map(|line| format!("{line}:")).unwrap_or_default();
    print_line(&format_args!("FAIL {path}:{line} {}: {}", case.name, failed.message));
    for note in failed.notes.iter().take(MAX_NOTES) {
        print_line(&format_args!("  {note}"));
    }
    if failed.notes.len() > MAX_NOTES {
        print_line(&format_args!("  and {} more lines", failed.notes.len() - MAX_NOTES));
    }
}

pub(super) fn passed(case: &Case, outcome: &Outcome) {
    let path = case.file.path.display();
    print_line(&format_args!("ok   {path}: {} ({} ms)", case.name, outcome.duration.as_millis()));
}

pub(super) fn summary(passed: usize, failed: usize, dir: &Path, took: Duration) {
    let failed = if failed == 0 { String::new() } else { format!(", {failed} failed") };
    print_line(&format_args!(
        "{}: {} passed{failed} in {:.2} s",
        dir.display(),
        count(passed, "test"),
        took.as_secs_f64()
    ));
}
