//! Errors with their place in the record.

use std::fmt;

/// The errors that are reported at once: enough to repair a form, few enough to read.
pub(super) const MAX_ERRORS: usize = 10;
/// Bytes of one error: it may quote the record.
const MAX_ERROR_BYTES: usize = 500;

/// The path of a value. Built on the stack on the way down, and formatted only for an error.
#[derive(Clone, Copy, Debug)]
pub(in crate::atproto) enum Place<'a> {
    /// The name of the whole value, such as `record`.
    Root(&'static str),
    Field(&'a Place<'a>, &'a str),
    Item(&'a Place<'a>, u64),
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root(name) => f.write_str(name),
            Self::Field(parent, name) => write!(f, "{parent}.{name}"),
            Self::Item(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Errors(Vec<String>);

impl Errors {
    /// Returns whether more can follow.
    pub(super) fn add(&mut self, place: &Place<'_>, text: impl fmt::Display) -> bool {
        let mut error = format!("at {place}: {text}");
        error.truncate(error.floor_char_boundary(MAX_ERROR_BYTES));
        self.0.push(error);
        self.0.len() < MAX_ERRORS
    }
}

impl From<Errors> for Vec<String> {
    fn from(errors: Errors) -> Self {
        errors.0
    }
}
