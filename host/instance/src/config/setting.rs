//! A setting is one row: `--help`, the check of its value, the documents and the dashboard read it.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

use super::{Problems, parse};

/// A setting with a constant default.
#[derive(Clone, Copy, Debug)]
pub struct Setting<T> {
    pub variable: &'static str,
    pub default: T,
    /// Its meaning, in one sentence without a period.
    pub about: &'static str,
}

/// A setting whose value is a number within a range.
#[derive(Clone, Debug)]
pub struct NumberSetting<T> {
    pub variable: &'static str,
    pub default: T,
    pub range: RangeInclusive<T>,
    /// Its meaning, in one sentence without a period.
    pub about: &'static str,
}

impl<T: Display> Setting<T> {
    /// The text of `--help`. `docs/operations.md` has the same default.
    pub fn help(&self) -> String {
        format!("{} [default: {}]", self.about, self.default)
    }
}

impl Setting<bool> {
    pub(super) fn read(&self, value: Option<String>, problems: &mut Problems) -> bool {
        parse::flag(self.variable, value, self.default, problems)
    }
}

impl Setting<&'static str> {
    pub(super) fn read(&self, value: Option<String>) -> String {
        parse::text(value).unwrap_or_else(|| self.default.to_owned())
    }
}

impl<T: FromStr + PartialOrd + Display + Copy> NumberSetting<T> {
    /// The text of `--help`. `docs/operations.md` has the same default and range.
    pub fn help(&self) -> String {
        let (low, high) = (self.range.start(), self.range.end());
        format!("{} [default: {}; {low} to {high}]", self.about, self.default)
    }

    pub(super) fn read(&self, value: Option<String>, problems: &mut Problems) -> T {
        parse::number(self.variable, value, self.default, self.range.clone(), problems)
    }
}

/// For a variable that admins may override while the server runs.
impl<T> Setting<T> {
    /// The key in `/admin/settings`.
    pub fn key(&self) -> String {
        self.variable.to_ascii_lowercase()
    }
}

impl<T> NumberSetting<T> {
    /// The key in `/admin/settings`, of a variable that admins may override while the server runs.
    pub fn key(&self) -> String {
        self.variable.to_ascii_lowercase()
    }
}
