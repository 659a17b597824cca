//! Prints what was copied, and what was not and why.

use std::collections::BTreeMap;

use super::super::super::folder::count;
use super::super::super::{print_line, print_stderr};
use super::part::{Kind, Part};
use super::send::Outcome;

#[derive(Default)]
pub(super) struct Report {
    /// Nothing is sent.
    dry_run: bool,
    /// Parts of each kind that were copied or replaced.
    copied: BTreeMap<Kind, usize>,
    present: usize,
    kept: usize,
    refused: usize,
}

impl Report {
    pub(super) fn new(dry_run: bool) -> Self {
        Self { dry_run, ..Self::default() }
    }

    pub(super) fn add(&mut self, part: &Part, result: anyhow::Result<Outcome>) {
        let (kind, name) = (part.kind.name(), &part.name);
        let would = if self.dry_run { "would be " } else { "" };
        match result {
            Ok(Outcome::Copied) => {
                *self.copied.entry(part.kind).or_default() += 1;
                print_line(&format_args!("{would}copied: {kind} {name}"));
            }
            Ok(Outcome::Replaced) => {
                *self.copied.entry(part.kind).or_default() += 1;
                print_line(&format_args!("{would}replaced: {kind} {name}"));
            }
            Ok(Outcome::Present) => {
                self.present += 1;
                print_line(&format_args!("there already: {kind} {name}"));
            }
            Ok(Outcome::Kept(lines)) => {
                self.kept += 1;
                print_line(&format_args!(
                    "there already, and different: {kind} {name} (--replace replaces it)"
                ));
                for line in lines {
                    print_line(&format_args!("  {line}"));
                }
            }
            Err(error) => {
                self.refused += 1;
                print_stderr(&format_args!("refused: {kind} {name}: {error:#}"));
            }
        }
    }

    pub(super) fn print_summary(&self) {
        let copied: Vec<String> =
            self.copied.iter().map(|(kind, number)| count(*number, kind.name())).collect();
        let copied = if copied.is_empty() { "nothing".to_owned() } else { copied.join(", ") };
        let would = if self.dry_run { "would be " } else { "" };
        print_line(&format_args!(
            "{copied} {would}copied, {} there already, {} of them different, {} refused",
            self.present + self.kept,
            self.kept,
            self.refused
        ));
    }

    pub(super) fn is_complete(&self) -> bool {
        self.refused == 0 && self.kept == 0
    }
}
