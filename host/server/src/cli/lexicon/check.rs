//! `belvedere lexicon check`: checks lexicons as the server would when they are uploaded, and prints errors and warnings.

use std::path::PathBuf;
use std::process::ExitCode;

use super::super::folder::count;
use super::super::{print_line, print_stderr};
use super::files::{self, Folder};
use super::lines;
use crate::cli::FAILED;
use belvedere_protocol::atproto::lexicon::warnings;

pub(super) fn run(paths: &[PathBuf]) -> anyhow::Result<ExitCode> {
    let folder = files::read(paths)?;
    let problems = report(&folder);
    for file in &folder.lexicons {
        for warning in warnings(&file.document) {
            let path = warning.split(": ").next().unwrap_or_default();
            let line = lines::line_of(&file.text, path).map(|line| format!("{line}:")).unwrap_or_default();
            print_stderr(&format_args!("{}:{line} warning: {warning}", file.path.display()));
        }
    }
    if problems > 0 {
        return Ok(ExitCode::from(FAILED));
    }
    print_line(&format_args!("{} checked", count(folder.by_id().len(), "lexicon")));
    Ok(ExitCode::SUCCESS)
}

/// Prints the problems of a folder, and the files that are no lexicons. Returns the number of problems.
pub(super) fn report(folder: &Folder) -> usize {
    for file in &folder.others {
        print_stderr(&format_args!("{}: skipped, it has no field \"lexicon\"", file.display()));
    }
    for problem in &folder.problems {
        print_stderr(problem);
    }
    folder.problems.len()
}
