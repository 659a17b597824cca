//! The text of a scope: `resource:positional?name=value&name=value`.

use std::fmt;

use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};
use url::form_urlencoded;

/// What would end a value, or be read as something else: in both places where values stand.
const ENCODED: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b'#').add(b'%').add(b'&').add(b'?').add(b'\\');
const ENCODED_PARAMETER: &AsciiSet = &ENCODED.add(b'+').add(b'=');

/// A scope, taken apart.
pub(super) struct Parts<'a> {
    pub(super) resource: &'a str,
    positional: Option<String>,
    parameters: Vec<(String, String)>,
}

impl<'a> Parts<'a> {
    pub(super) fn of(scope: &'a str) -> Result<Self, &'static str> {
        let (head, query) = match scope.split_once('?') {
            Some((head, query)) => (head, query),
            None => (scope, ""),
        };
        let (resource, positional) = match head.split_once(':') {
            Some((resource, value)) => (resource, Some(value)),
            None => (head, None),
        };
        if resource.is_empty() {
            return Err("it names no resource");
        }
        let positional = positional.map(|value| percent_decode_str(value).decode_utf8());
        let positional = positional.transpose().map_err(|_| "its percent encoding is no UTF-8")?;
        Ok(Self {
            resource,
            positional: positional.map(std::borrow::Cow::into_owned),
            parameters: form_urlencoded::parse(query.as_bytes()).into_owned().collect(),
        })
    }

    /// The same, from lists of values.
    pub(super) fn listed(resource: &'a str, parameters: &[(&str, &[String])]) -> Self {
        let pairs = parameters
            .iter()
            .flat_map(|(name, values)| values.iter().map(|value| ((*name).to_owned(), value.clone())));
        Self { resource, positional: None, parameters: pairs.collect() }
    }

    /// Refuses parameters of other names.
    pub(super) fn only(&self, names: &[&str]) -> Result<(), &'static str> {
        if self.parameters.iter().all(|(name, _)| names.contains(&name.as_str())) {
            return Ok(());
        }
        Err("it has a parameter that its resource does not have")
    }

    /// The values of a parameter, which may stand in the positional place instead. `None` when there are none.
    pub(super) fn values(&self, name: &str, is_positional: bool) -> Result<Option<Vec<&str>>, &'static str> {
        let named: Vec<&str> =
            self.parameters.iter().filter(|(n, _)| n == name).map(|(_, value)| value.as_str()).collect();
        match self.positional.as_deref().filter(|_| is_positional) {
            Some(_) if !named.is_empty() => Err("it says the same in two places"),
            Some(value) => Ok(Some(vec![value])),
            None => Ok(Some(named).filter(|named| !named.is_empty())),
        }
    }

    /// As [`Self::values`], for a parameter that has one.
    pub(super) fn value(&self, name: &str, is_positional: bool) -> Result<Option<&str>, &'static str> {
        match self.values(name, is_positional)?.as_deref() {
            None => Ok(None),
            Some([value]) => Ok(Some(value)),
            Some(_) => Err("a parameter that has one value is there twice"),
        }
    }
}

/// Writes a scope: one value of `first` stands in the positional place.
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
