//! Collects the problems of the configuration, so that all are reported at once.

use std::fmt;

/// One invalid value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub variable: &'static str,
    /// The problem and its remedy. Never contains a secret.
    pub text: String,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Problems(Vec<Problem>);

impl Problems {
    pub fn add(&mut self, variable: &'static str, text: impl Into<String>) {
        self.0.push(Problem { variable, text: text.into() });
    }

    /// `value` if nothing was wrong.
    ///
    /// # Errors
    /// The problems, if there are any.
    pub fn into_result<T>(self, value: T) -> Result<T, Self> {
        if self.0.is_empty() { Ok(value) } else { Err(self) }
    }

    #[cfg(any(test, feature = "testing"))]
    pub fn iter(&self) -> impl Iterator<Item = &Problem> {
        self.0.iter()
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.0.len();
        write!(f, "the configuration has {count} problem{}:", if count == 1 { "" } else { "s" })?;
        for Problem { variable, text } in &self.0 {
            write!(f, "\n  {variable}: {text}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}
