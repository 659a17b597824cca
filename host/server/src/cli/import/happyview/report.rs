//! Prints what was copied, and what was not and why.

use std::collections::BTreeMap;

use super::super::super::folder::count;
use super::super::super::{print_line, print_stderr};
use super::read::Part;

pub(super) struct Report {
    dry_run: bool,
    /// Parts of each kind that were copied.
    copied: BTreeMap<&'static str, usize>,
    refused: usize,
}

impl Report {
    pub(super) fn new(dry_run: bool) -> Self {
        Self { dry_run, copied: BTreeMap::new(), refused: 0 }
    }

    pub(super) fn add(&mut self, part: &Part, result: anyhow::Result<()>) {
        match result {
            Ok(()) => self.done(part.kind, &part.name),
            Err(error) => {
                self.refused += 1;
                print_stderr(&format_args!("refused: {} {}: {error:#}", part.kind, part.name));
            }
        }
    }

    pub(super) fn done(&mut self, kind: &'static str, name: &str) {
        *self.copied.entry(kind).or_default() += 1;
        let verb = if self.dry_run { "would be copied" } else { "copied" };
        print_line(&format_args!("{verb}: {kind} {name}"));
    }

    pub(super) fn print_summary(&self) {
        let parts: Vec<String> = self.copied.iter().map(|(kind, number)| count(*number, kind)).collect();
        let verb = if self.dry_run { "would be copied" } else { "copied" };
        print_line(&format_args!("{} {verb}, {} refused", parts.join(", "), self.refused));
    }

    pub(super) fn is_complete(&self) -> bool {
        self.refused == 0
    }
}
