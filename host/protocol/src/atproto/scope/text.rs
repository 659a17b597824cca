//! Reads and writes the syntax of a scope: `resource:positional?name=value&name=value`.

use std::fmt;

use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};
use url::form_urlencoded;

/// Characters that are escaped in every value: they would end it or have another meaning.
const ENCODED: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b'#').add(b'%').add(b'&').add(b'?').add(b'\\');
/// Characters that are escaped in the value of a named parameter.
const ENCODED_PARAMETER: &AsciiSet = &ENCODED.add(b'+').add(b'=');

/// A scope split into its resource, its positional value and its named parameters.
pub(super) struct ScopeText<'a> {
    pub(super) resource: &'a str,
    positional: Option<String>,
    parameters: Vec<(String, String)>,
}

impl<'a> ScopeText<'a> {
    pub(super) fn parse(scope: &'a str) -> Result<Self, &'static str> {
        let (head, query) = match scope.split_once('?') {
            Some((head, query)) => (head, query),
            None => (scope, ""),
        };
        let (resource, positional) = match head.split_once(':') {
            Some((resource, value)) => (resource, Some(value)),
            None => (head, None),
        };
        if resource.is_empty() {
            return Err("the resource is missing");
        }
        let positional = positional.map(|value| percent_decode_str(value).decode_utf8());
        let positional = positional.transpose().map_err(|_| "its percent encoding is not UTF-8")?;
        Ok(Self {
            resource,
            positional: positional.map(std::borrow::Cow::into_owned),
            parameters: form_urlencoded::parse(query.as_bytes()).into_owned().collect(),
        })
    }

    /// Builds a scope from lists of values, as permission sets contain them.
    pub(super) fn from_lists(resource: &'a str, parameters: &[(&str, &[String])]) -> Self {
        let pairs = parameters
            .iter()
            .flat_map(|(name, values)| values.iter().map(|value| ((*name).to_owned(), value.clone())));
        Self { resource, positional: None, parameters: pairs.collect() }
    }

    /// Rejects parameters with other names.
    pub(super) fn allow_only(&self, names: &[&str]) -> Result<(), &'static str> {
        if self.parameters.iter().all(|(name, _)| names.contains(&name.as_str())) {
            return Ok(());
        }
        Err("it has a parameter that its resource does not define")
    }

    /// The values of a parameter: named, or the positional value if `is_positional`. `None` when there are none.
    pub(super) fn values(&self, name: &str, is_positional: bool) -> Result<Option<Vec<&str>>, &'static str> {
        let named: Vec<&str> =
            self.parameters.iter().filter(|(n, _)| n == name).map(|(_, value)| value.as_str()).collect();
        match self.positional.as_deref().filter(|_| is_positional) {
            Some(_) if !named.is_empty() => Err("a parameter is both positional and named"),
            Some(value) => Ok(Some(vec![value])),
            None => Ok(Some(named).filter(|named| !named.is_empty())),
        }
    }

    /// Like [`Self::values`], for a parameter with a single value.
    pub(super) fn value(&self, name: &str, is_positional: bool) -> Result<Option<&str>, &'static str> {
        match self.values(name, is_positional)?.as_deref() {
            None => Ok(None),
            Some([value]) => Ok(Some(value)),
            Some(_) => Err("a parameter with a single value occurs twice"),
        }
    }
}

/// Writes a scope. If `first` has a single value, it becomes the positional value.
pub(super) fn write<'a>(
    f: &mut fmt::Formatter<'_>,
    resource: &str,
    first: (&str, &[&'a str]),
    others: &[(&str, &[&'a str])],
) -> fmt::Result {
    f.write_str(resource)?;
    let mut parameters: Vec<(&str, &str)> = Vec::new();
    match first {
        (_, [single]) => write!(f, ":{}", utf8_percent_encode(single, ENCODED))?,
        (name, many) => parameters.extend(many.iter().map(|value| (name, *value))),
    }
    for (name, values) in others {
        parameters.extend(values.iter().map(|value| (*name, *value)));
    }
    for (n, (name, value)) in parameters.into_iter().enumerate() {
        let mark = if n == 0 { '?' } else { '&' };
        write!(f, "{mark}{name}={}", utf8_percent_encode(value, ENCODED_PARAMETER))?;
    }
    Ok(())
}
