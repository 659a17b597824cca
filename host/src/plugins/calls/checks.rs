//! Checks what plugins return before it is stored or shown. An offence is a failure of the plugin.

use std::collections::BTreeSet;

use serde::de::IgnoredAny;
use url::Url;
use wasmtime::format_err;

use super::Answer;
use super::values::{Fault, Function, Info, Page, Profile, Tokens};
use crate::plugins::limits;

/// Checks an answer's value, and shortens the texts of its fault.
pub(super) fn answer<T>(
    answer: Answer<T>,
    check: impl FnOnce(&T) -> Result<(), String>,
) -> wasmtime::Result<Answer<T>> {
    match answer {
        Some(Ok(value)) => match check(&value) {
            Ok(()) => Ok(Some(Ok(value))),
            Err(offence) => Err(format_err!("{offence}")),
        },
        Some(Err(fault)) => Ok(Some(Err(shortened(fault)))),
        None => Ok(None),
    }
}

/// The fault with texts that a response and a row can hold.
fn shortened(mut fault: Fault) -> Fault {
    let cut = |text: &mut String, max: usize| {
        text.retain(|c| c != '\0');
        text.truncate(text.floor_char_boundary(max));
    };
    cut(&mut fault.message, limits::TEXT_BYTES);
    if let Some(body) = &mut fault.body {
        cut(body, limits::LONG_TEXT_BYTES);
    }
    fault
}

/// A text of 1 to `max` bytes without U+0000, which the database can't store.
fn text(what: &str, text: &str, max: usize) -> Result<(), String> {
    if text.is_empty() || text.len() > max || text.contains('\0') {
        return Err(format!("{what} must have 1 to {max} bytes without U+0000"));
    }
    Ok(())
}

fn optional(what: &str, value: Option<&String>, max: usize) -> Result<(), String> {
    value.map_or(Ok(()), |value| text(what, value, max))
}

/// JSON text. Escapes of U+0000 are the caller's matter: they are valid JSON.
pub(super) fn json(what: &str, value: &str, max: usize) -> Result<(), String> {
    if value.len() > max {
        return Err(format!("{what} is larger than {max} bytes"));
    }
    let parsed: Result<IgnoredAny, _> = serde_json::from_str(value);
    parsed.map(drop).map_err(|error| format!("{what} is not JSON: {error}"))
}

pub(super) fn url(what: &str, value: &str) -> Result<(), String> {
    text(what, value, limits::URL_BYTES)?;
    let parsed = Url::parse(value).map_err(|error| format!("{what} is not a URL: {error}"))?;
    if !matches!(parsed.scheme(), "https" | "http") {
        return Err(format!("{what} does not begin with https://"));
    }
    Ok(())
}

pub(super) fn info(info: &Info) -> Result<(), String> {
    for (what, value) in [("id", &info.id), ("name", &info.name), ("version", &info.version)] {
        text(&format!("describe: {what}"), value, limits::TEXT_BYTES)?;
    }
    for secret in &info.secrets {
        text("describe: a secret's name", &secret.name, limits::TEXT_BYTES)?;
        text("describe: a secret's label", &secret.label, limits::TEXT_BYTES)?;
        optional("describe: a secret's help", secret.help.as_ref(), limits::LONG_TEXT_BYTES)?;
    }
    match &info.config_schema {
        Some(schema) => json("describe: config-schema", schema, limits::LONG_TEXT_BYTES),
        None => Ok(()),
    }
}

pub(super) fn tokens(tokens: &Tokens) -> Result<(), String> {
    text("the access token", &tokens.access, limits::TOKEN_BYTES)?;
    optional("the refresh token", tokens.refresh.as_ref(), limits::TOKEN_BYTES)?;
    text("token-type", &tokens.token_type, limits::TEXT_BYTES)?;
    optional("the scope", tokens.scope.as_ref(), limits::LONG_TEXT_BYTES)
}

pub(super) fn profile(profile: &Profile) -> Result<(), String> {
    text("account-id", &profile.account_id, limits::TEXT_BYTES)?;
    optional("display-name", profile.display_name.as_ref(), limits::TEXT_BYTES)?;
    for (what, value) in [("profile-url", &profile.profile_url), ("avatar-url", &profile.avatar_url)] {
        if let Some(value) = value {
            url(what, value)?;
        }
    }
    Ok(())
}

pub(super) fn page(page: &Page) -> Result<(), String> {
    if page.items.len() > limits::PAGE_ITEMS {
        return Err(format!("a page has at most {} items", limits::PAGE_ITEMS));
    }
    optional("next", page.next.as_ref(), limits::CURSOR_BYTES)?;
    for item in &page.items {
        text("an item's collection", &item.collection, limits::TEXT_BYTES)?;
        optional("an item's dedup-key", item.dedup_key.as_ref(), limits::TEXT_BYTES)?;
        json("an item's value", &item.value, limits::RECORD_BYTES)?;
    }
    Ok(())
}

pub(super) fn functions(functions: &[Function]) -> Result<(), String> {
    if functions.is_empty() || functions.len() > limits::LIBRARY_FUNCTIONS {
        return Err(format!("a library has 1 to {} functions", limits::LIBRARY_FUNCTIONS));
    }
    let mut names = BTreeSet::new();
    for function in functions {
        let name = &function.name;
        let letters = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if name.is_empty() || name.len() > 64 || name.starts_with(|c: char| c.is_ascii_digit()) {
            return Err("a function's name has 1 to 64 characters and begins with a letter".to_owned());
        }
        if !name.chars().all(letters) || !names.insert(name) {
            return Err(format!("{name:?} is no name of a function, or there are two of it"));
        }
        if function.params.len() > limits::PARAMETERS {
            return Err(format!("{name} has more than {} parameters", limits::PARAMETERS));
        }
        for parameter in &function.params {
            text(&format!("a parameter of {name}"), parameter, limits::TEXT_BYTES)?;
        }
        optional(&format!("the help of {name}"), function.help.as_ref(), limits::LONG_TEXT_BYTES)?;
    }
    Ok(())
}
