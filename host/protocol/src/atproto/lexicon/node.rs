//! A value of a lexicon document together with its path, for error messages.

use std::fmt::Write;

use serde_json::{Map, Value};

use super::LexiconError;

/// A value and its path from the root. The path is formatted only for an error.
#[derive(Clone, Copy)]
pub(super) struct Node<'a> {
    pub(super) value: &'a Value,
    step: Step<'a>,
    parent: Option<&'a Node<'a>>,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Root,
    Field(&'a str),
    Item(usize),
}

impl<'a> Node<'a> {
    pub(super) fn root(value: &'a Value) -> Self {
        Self { value, step: Step::Root, parent: None }
    }

    pub(super) fn child(&'a self, name: &'a str, value: &'a Value) -> Self {
        Self { value, step: Step::Field(name), parent: Some(self) }
    }

    pub(super) fn get(&'a self, name: &'a str) -> Option<Self> {
        self.value.get(name).map(|value| self.child(name, value))
    }

    /// The field `name`, which must be present.
    pub(super) fn require(&'a self, name: &'a str) -> Result<Self, LexiconError> {
        self.get(name).ok_or_else(|| self.child(name, &Value::Null).fail("is missing"))
    }

    pub(super) fn items(&'a self) -> Result<impl Iterator<Item = Node<'a>>, LexiconError> {
        let items = self.value.as_array().ok_or_else(|| self.fail("must be an array"))?;
        let item = |(i, value)| Node { value, step: Step::Item(i), parent: Some(self) };
        Ok(items.iter().enumerate().map(item))
    }

    pub(super) fn object(&self) -> Result<&'a Map<String, Value>, LexiconError> {
        self.value.as_object().ok_or_else(|| self.fail("must be an object"))
    }

    pub(super) fn string(&self) -> Result<&'a str, LexiconError> {
        self.value.as_str().ok_or_else(|| self.fail("must be a string"))
    }

    pub(super) fn fail(&self, reason: impl Into<String>) -> LexiconError {
        LexiconError { path: self.path(), reason: reason.into() }
    }

    fn path(&self) -> String {
        let mut steps = Vec::new();
        let mut node = Some(self);
        while let Some(here) = node {
            steps.push(here.step);
            node = here.parent;
        }
        let mut path = String::new();
        for step in steps.into_iter().rev() {
            // Writing to a String does not fail.
            let _ = match step {
                Step::Root => Ok(()),
                Step::Field(name) if path.is_empty() => write!(path, "{name}"),
                Step::Field(name) => write!(path, ".{name}"),
                Step::Item(i) => write!(path, "[{i}]"),
            };
        }
        if path.is_empty() { "document".to_owned() } else { path }
    }
}
