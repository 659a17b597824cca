//! Checks what plugins return before it is stored or shown. A value that can't be used becomes a fault of the call. It
//! is no trap: what a service answers, or a user typed, can cause it.

use std::collections::BTreeSet;

use serde::de::IgnoredAny;
use url::Url;

use crate::plugins::limits;
use crate::plugins::values::{Fault, FaultCode, Function, Info, Page, Profile, Tokens};

/// The fault of a value that can't be used.
fn unusable(text: impl Into<String>) -> Fault {
    Fault::new(FaultCode::Upstream, text)
}

/// Checks an answer's value, and tidies it.
pub(super) fn answer<T>(
    answer: Result<T, Fault>,
    check: impl FnOnce(&mut T) -> Result<(), Fault>,
) -> Result<T, Fault> {
    let mut value = answer?;
    check(&mut value)?;
    Ok(value)
}

/// The fault with texts that a response and a row can hold.
pub(super) fn shortened(mut fault: Fault) -> Fault {
    let cut = |text: &mut String, max: usize| text.truncate(text.floor_char_boundary(max));
    cut(&mut fault.message, limits::TEXT_BYTES);
    if let Some(body) = &mut fault.body {
        cut(body, limits::LONG_TEXT_BYTES);
    }
    fault
}

/// A text of 1 to `max` bytes without U+0000, which the database can't store.
fn text(what: &str, text: &str, max: usize) -> Result<(), Fault> {
    if text.is_empty() || text.len() > max || text.contains('\0') {
        return Err(unusable(format!("{what} must have 1 to {max} bytes without U+0000")));
    }
    Ok(())
}

/// Like [`text`], but an empty text becomes `None`.
fn optional(what: &str, value: &mut Option<String>, max: usize) -> Result<(), Fault> {
    value.take_if(|value| value.is_empty());
    value.as_ref().map_or(Ok(()), |value| text(what, value, max))
}

/// JSON text. Escapes of U+0000 are the caller's matter: they are valid JSON.
pub(super) fn json(what: &str, value: &str, max: usize) -> Result<(), Fault> {
    if value.len() > max {
        return Err(unusable(format!("{what} is larger than {max} bytes")));
    }
    let parsed: Result<IgnoredAny, _> = serde_json::from_str(value);
    parsed.map(drop).map_err(|error| unusable(format!("{what} is not JSON: {error}")))
}

pub(super) fn url(what: &str, value: &str) -> Result<(), Fault> {
    text(what, value, limits::URL_BYTES)?;
    let parsed = Url::parse(value).map_err(|error| unusable(format!("{what} is not a URL: {error}")))?;
    if !matches!(parsed.scheme(), "https" | "http") {
        return Err(unusable(format!("{what} does not begin with https://")));
    }
    Ok(())
}

pub(super) fn info(info: &mut Info) -> Result<(), Fault> {
    for (what, value) in [("id", &info.id), ("name", &info.name), ("version", &info.version)] {
        text(&format!("describe: {what}"), value, limits::TEXT_BYTES)?;
    }
    for secret in &mut info.secrets {
        text("describe: a secret's name", &secret.name, limits::TEXT_BYTES)?;
        text("describe: a secret's label", &secret.label, limits::TEXT_BYTES)?;
        optional("describe: a secret's help", &mut secret.help, limits::LONG_TEXT_BYTES)?;
    }
    match &info.config_schema {
        Some(schema) => json("describe: config-schema", schema, limits::LONG_TEXT_BYTES),
        None => Ok(()),
    }
}

pub(super) fn tokens(tokens: &mut Tokens) -> Result<(), Fault> {
    text("the access token", &tokens.access, limits::TOKEN_BYTES)?;
    optional("the refresh token", &mut tokens.refresh, limits::TOKEN_BYTES)?;
    text("token-type", &tokens.token_type, limits::TEXT_BYTES)?;
    optional("the scope", &mut tokens.scope, limits::LONG_TEXT_BYTES)
}

/// An address that is not a web page is left out: a service's picture must not keep its users from linking.
pub(super) fn profile(profile: &mut Profile) -> Result<(), Fault> {
    text("account-id", &profile.account_id, limits::TEXT_BYTES)?;
    optional("display-name", &mut profile.display_name, limits::TEXT_BYTES)?;
    for address in [&mut profile.profile_url, &mut profile.avatar_url] {
        address.take_if(|address| url("the address", address).is_err());
    }
    Ok(())
}

/// Items are checked one by one when they become records: one that is not valid is left out.
pub(super) fn page(page: &mut Page) -> Result<(), Fault> {
    let (count, max) = (page.items.len(), limits::PAGE_ITEMS);
    if count > max {
        let text = format!("the page has {count} items; at most {max} are allowed");
        return Err(Fault::new(FaultCode::TooLarge, text));
    }
    if page.next.as_ref().is_some_and(|next| next.len() > limits::CURSOR_BYTES) {
        let max = limits::CURSOR_BYTES;
        return Err(Fault::new(FaultCode::TooLarge, format!("next is larger than {max} bytes")));
    }
    optional("next", &mut page.next, limits::CURSOR_BYTES)
}

pub(super) fn functions(functions: &mut [Function]) -> Result<(), Fault> {
    if functions.is_empty() || functions.len() > limits::LIBRARY_FUNCTIONS {
        return Err(unusable(format!("a library has 1 to {} functions", limits::LIBRARY_FUNCTIONS)));
    }
    let mut names = BTreeSet::new();
    for Function { name, params, help } in functions {
        let letters = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if name.is_empty() || name.len() > 64 || name.starts_with(|c: char| c.is_ascii_digit()) {
            return Err(unusable("a function's name has 1 to 64 characters and begins with a letter"));
        }
        if !name.chars().all(letters) || !names.insert(name.clone()) {
            return Err(unusable(format!("{name:?} is not the name of a function, or occurs twice")));
        }
        if params.len() > limits::PARAMETERS {
            return Err(unusable(format!("{name} has more than {} parameters", limits::PARAMETERS)));
        }
        for parameter in params.iter() {
            text(&format!("a parameter of {name}"), parameter, limits::TEXT_BYTES)?;
        }
        optional(&format!("the help of {name}"), help, limits::LONG_TEXT_BYTES)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile_with(name: Option<&str>, picture: &str) -> Profile {
        Profile {
            account_id: "1".to_owned(),
            display_name: name.map(str::to_owned),
            profile_url: Some("https://service.example/1".to_owned()),
            avatar_url: Some(picture.to_owned()),
        }
    }

    #[test]
    fn empty_texts_are_none_and_addresses_that_are_no_web_pages_are_left_out() {
        for picture in ["", "x", "javascript:alert(1)", "https://a\0.example/", &"x".repeat(10_000)] {
            let mut given = profile_with(Some(""), picture);
            profile(&mut given).unwrap();
            assert_eq!((given.display_name, given.avatar_url), (None, None), "{picture}");
            assert!(given.profile_url.is_some());
        }
        let mut given = Page { items: Vec::new(), next: Some(String::new()) };
        page(&mut given).unwrap();
        assert_eq!(given.next, None, "the last page");
    }

    #[test]
    fn what_is_too_large_or_unusable_is_a_fault() {
        let long = Page { items: Vec::new(), next: Some("x".repeat(limits::CURSOR_BYTES + 1)) };
        let code = |page: Page| match answer(Ok(page), self::page) {
            Err(fault) => fault.code,
            other => panic!("{other:?}"),
        };
        assert_eq!(code(long), FaultCode::TooLarge);
        assert_eq!(code(Page { items: Vec::new(), next: Some("\0".to_owned()) }), FaultCode::Upstream);
    }
}
