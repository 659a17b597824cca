//! The mistakes of a view's document, all listed at once.

use std::fmt;

use super::limits;

/// A mistake, with its place in the document (`with.author.profile`) and its remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offence {
    pub at: String,
    pub message: String,
}

/// The mistakes of a document, in the order in which they were found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Offences(Vec<Offence>);

impl Offences {
    pub(super) fn add(&mut self, at: &str, message: impl Into<String>) {
        if self.0.len() < limits::OFFENCES {
            self.0.push(Offence { at: at.to_owned(), message: message.into() });
        }
    }

    /// The value, or an offence at this place.
    pub(super) fn check<T, E: fmt::Display>(&mut self, at: &str, checked: Result<T, E>) -> Option<T> {
        checked.map_err(|error| self.add(at, error.to_string())).ok()
    }

    pub fn list(&self) -> &[Offence] {
        &self.0
    }

    /// # Errors
    /// The offences, if there is one.
    pub(super) fn into_result<T>(self, value: Option<T>) -> Result<T, Self> {
        match value {
            Some(value) if self.0.is_empty() => Ok(value),
            _ => Err(self),
        }
    }
}

impl fmt::Display for Offence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.at.is_empty() {
            f.write_str(&self.message)
        } else {
            write!(f, "{}: {}", self.at, self.message)
        }
    }
}

impl fmt::Display for Offences {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, offence) in self.0.iter().enumerate() {
            let separator = if n == 0 { "" } else { "; " };
            write!(f, "{separator}{offence}")?;
        }
        Ok(())
    }
}
