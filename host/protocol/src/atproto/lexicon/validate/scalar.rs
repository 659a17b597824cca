//! Values without members.

use unicode_segmentation::UnicodeSegmentation;

use super::super::plan::{Integers, Limits, Strings, contains};
use super::super::steps;
use super::errors::Place;
use super::{Step, Validation};

impl Validation<'_> {
    pub(super) fn boolean(&mut self, constant: Option<bool>, value: bool, place: &Place<'_>) -> Step {
        match constant {
            Some(constant) if constant != value => {
                self.add(place, format_args!("expected {constant}, got {value}"))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn integer(&mut self, schema: &Integers, n: i64, place: &Place<'_>) -> Step {
        if n < schema.min {
            self.add(place, format_args!("integer too small: min {}, got {n}", schema.min))?;
        }
        if n > schema.max {
            self.add(place, format_args!("integer too large: max {}, got {n}", schema.max))?;
        }
        if let Some(constant) = schema.constant.filter(|constant| *constant != n) {
            self.add(place, format_args!("expected {constant}, got {n}"))?;
        }
        let order = |value: &i64| {
            steps::count();
            value.cmp(&n)
        };
        match &schema.values {
            Some(values) if values.binary_search_by(order).is_err() => {
                self.add(place, format_args!("value not in enum: {n}"))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn string(&mut self, schema: &Strings, text: &str, place: &Place<'_>) -> Step {
        if let Some(constant) = schema.constant.as_deref().filter(|constant| *constant != text) {
            self.add(place, format_args!("expected {constant:?}, got {text:?}"))?;
        }
        if schema.values.as_ref().is_some_and(|values| !contains(values, text)) {
            self.add(place, format_args!("value not in enum: {text:?}"))?;
        }
        self.limits(schema.bytes, text.len() as u64, ("string", " bytes"), place)?;
        let Limits { min, max } = schema.graphemes;
        // A grapheme has at least one character, which has at least one byte.
        if min > 0 || (text.len() as u64 > max && text.chars().count() as u64 > max) {
            self.limits(schema.graphemes, graphemes(text), ("string", " graphemes"), place)?;
        }
        match schema.format {
            Some(format) if !format.accepts(text) => {
                self.add(place, format_args!("invalid {}: {text:?}", format.name()))
            }
            _ => Ok(()),
        }
    }

    /// The spelling of a token's only value is its full name.
    pub(super) fn token(&mut self, token: &str, text: &str, place: &Place<'_>) -> Step {
        if token == text { Ok(()) } else { self.add(place, format_args!("expected {token:?}, got {text:?}")) }
    }

    /// `what` is too long or too short, and the unit.
    pub(super) fn limits(
        &mut self,
        limits: Limits,
        length: u64,
        (what, unit): (&str, &str),
        place: &Place<'_>,
    ) -> Step {
        let Limits { min, max } = limits;
        if length < min {
            self.add(place, format_args!("{what} too short: min {min}{unit}, got {length}"))
        } else if length > max {
            self.add(place, format_args!("{what} too long: max {max}{unit}, got {length}"))
        } else {
            Ok(())
        }
    }
}

/// The extended grapheme clusters (UAX #29).
fn graphemes(text: &str) -> u64 {
    if text.is_ascii() {
        // Each character is one, but CR LF are one together.
        return (text.len() - text.matches("\r\n").count()) as u64;
    }
    text.graphemes(true).count() as u64
}
