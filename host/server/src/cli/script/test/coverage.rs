//! Counts which lines of scripts the tests run, for `--coverage`, and writes them as lcov.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use anyhow::Context as _;

use super::super::super::print_line;
use super::super::files::ScriptFile;
use belvedere_scripting::scripts::RunProfile;

/// The lines that hold code in each script that ran, by trigger, with the instructions that they executed in all tests.
#[derive(Debug, Default)]
pub(super) struct Coverage(Mutex<BTreeMap<String, Lines>>);

type Lines = BTreeMap<u32, u64>;

impl Coverage {
    /// Adds a run.
    pub(super) fn add(&self, profile: &RunProfile) {
        let mut files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (file, code) in &profile.code {
            let lines = files.entry(file.clone()).or_default();
            for line in code {
                lines.entry(*line).or_default();
            }
        }
        for line in &profile.lines {
            let known = files.get_mut(&line.file).and_then(|lines| lines.get_mut(&line.line));
            if let Some(count) = known {
                *count += line.cost.instructions;
            }
        }
    }

    /// Prints what part of each script ran, and writes all lines to `file`.
    ///
    /// # Errors
    /// When the file can't be written.
    pub(super) fn report(&self, scripts: &[ScriptFile], file: Option<&Path>) -> anyhow::Result<()> {
        let files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let scripts: Vec<(&Path, Option<&Lines>)> = scripts
            .iter()
            .filter(|script| !script.is_view())
            .map(|script| (&*script.path, files.get(script.trigger.id())))
            .collect();
        if let Some(file) = file {
            fs::write(file, lcov(&scripts))
                .with_context(|| format!("{} can't be written", file.display()))?;
        }
        for line in summary(&scripts) {
            print_line(&line);
        }
        Ok(())
    }
}

fn covered(lines: &Lines) -> usize {
    lines.values().filter(|count| **count > 0).count()
}

/// A line of text for each script, and one for all.
fn summary(scripts: &[(&Path, Option<&Lines>)]) -> Vec<String> {
    let mut shown = Vec::new();
    for (path, lines) in scripts {
        let path = path.display();
        shown.push(match lines {
            None => format!("{path}: not run"),
            Some(lines) if covered(lines) == lines.len() => format!("{path}: all {} lines", lines.len()),
            Some(lines) => {
                format!("{path}: {} of {} lines, not {}", covered(lines), lines.len(), missed(lines))
            }
        });
    }
    let ran = scripts.iter().filter_map(|(_, lines)| *lines);
    let (hit, all) = ran.fold((0, 0), |(hit, all), lines| (hit + covered(lines), all + lines.len()));
    let percent = if all == 0 { 0.0 } else { hit as f64 * 100.0 / all as f64 };
    shown.push(format!("coverage: {hit} of {all} lines of the scripts that ran ({percent:.1} %)"));
    shown
}

/// The lines without a run, as `3, 7-9`: from one such line to the next are at most lines without code.
fn missed(lines: &Lines) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    let mut is_open = false;
    for (&line, &count) in lines {
        match ranges.last_mut() {
            _ if count > 0 => is_open = false,
            Some(range) if is_open => range.1 = line,
            _ => {
                ranges.push((line, line));
                is_open = true;
            }
        }
    }
    let shown = |(first, last): &(u32, u32)| {
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    };
    ranges.iter().map(shown).collect::<Vec<_>>().join(", ")
}

/// The lines in the format of lcov's tracefiles. The count of a line is the number of instructions that it executed.
fn lcov(scripts: &[(&Path, Option<&Lines>)]) -> String {
    let mut out = String::new();
    for (path, lines) in scripts {
        let Some(lines) = lines else { continue };
        // Writing to a String can't fail.
        let _ = writeln!(out, "TN:\nSF:{}", path.display());
        for (line, count) in *lines {
            let _ = writeln!(out, "DA:{line},{count}");
        }
        let _ = writeln!(out, "LF:{}\nLH:{}\nend_of_record", lines.len(), covered(lines));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_did_not_run_are_listed_as_ranges() {
        let lines = Lines::from([(1, 4), (2, 0), (4, 0), (5, 1), (9, 0)]);
        assert_eq!(missed(&lines), "2-4, 9");
        let scripts = [(Path::new("a.lua"), Some(&lines)), (Path::new("b.lua"), None)];
        assert_eq!(
            summary(&scripts),
            [
                "a.lua: 2 of 5 lines, not 2-4, 9",
                "b.lua: not run",
                "coverage: 2 of 5 lines of the scripts that ran (40.0 %)"
            ]
        );
        assert_eq!(
            lcov(&scripts),
            "TN:\nSF:a.lua\nDA:1,4\nDA:2,0\nDA:4,0\nDA:5,1\nDA:9,0\nLF:5\nLH:2\nend_of_record\n"
        );
    }
}
