//! Hides secrets in texts and in JSON before they are stored or shown.

use std::borrow::Cow;

use serde_json::Value;

/// Shorter values are not hidden: they may be any word of a text, and are not treated as secrets.
pub const MIN_BYTES: usize = 6;

/// Replaces a redacted value.
const REDACTED: &str = "[redacted]";

/// A field is secret when its name, in lower case and without `-` and `_`, contains one of these.
const SECRET_NAMES: [&str; 11] = [
    "password",
    "passwd",
    "secret",
    "token",
    "jwt",
    "apikey",
    "authorization",
    "credential",
    "privatekey",
    "cookie",
    "dpop",
];

/// The names of fields, when a JSON value is redacted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// They are ours, and stay.
    Ours,
    /// They are a caller's, and stay. The value of a field with a secret name is redacted, whatever it is. A pair of strings in
    /// a list, as query parameters are given, counts as a field too.
    OfCaller,
    /// They are texts like all others.
    Texts,
}

impl Names {
    fn redact_value_of(self, name: &str) -> bool {
        self == Self::OfCaller && is_secret(name)
    }
}

/// Passes each text in a value, at any depth, to `redact_text`, which replaces known secret values. In the text of the JSON,
/// escapes could hide one.
pub fn redact<F: Fn(&str) -> Cow<'_, str>>(value: &mut Value, names: Names, redact_text: &F) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields.iter_mut() {
                if names.redact_value_of(name) {
                    *value = REDACTED.into();
                } else {
                    redact(value, names, redact_text);
                }
            }
            if names == Names::Texts {
                let renamed = std::mem::take(fields).into_iter();
                *fields = renamed.map(|(name, value)| (redact_text(&name).into_owned(), value)).collect();
            }
        }
        Value::String(text) => {
            if let Cow::Owned(redacted) = redact_text(text) {
                *text = redacted;
            }
        }
        Value::Array(items) => match items.as_mut_slice() {
            [Value::String(name), value @ Value::String(_)] if names.redact_value_of(name) => {
                *value = REDACTED.into();
            }
            items => items.iter_mut().for_each(|item| redact(item, names, redact_text)),
        },
        _ => {}
    }
}

/// The text with each value, of pairs of a name and a value, replaced by `placeholder` of its name. The longest values come
/// first: one may contain another.
pub fn replace_values<'t, 'v>(
    text: &'t str,
    values: impl IntoIterator<Item = (&'v str, &'v str)>,
    placeholder: impl Fn(&str) -> String,
) -> Cow<'t, str> {
    let mut text = Cow::Borrowed(text);
    for (name, value) in values {
        if value.len() >= MIN_BYTES && text.contains(value) {
            text = Cow::Owned(text.replace(value, &placeholder(name)));
        }
    }
    text
}

/// Whether a field, a parameter or a header of this name is secret.
pub fn is_secret(name: &str) -> bool {
    let name: String =
        name.chars().filter(|c| !matches!(c, '-' | '_')).map(|c| c.to_ascii_lowercase()).collect();
    SECRET_NAMES.iter().any(|secret| name.contains(secret))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_of_fields_with_secret_names_are_redacted() {
        let mut value = json!({
            "text": "hello", "password": "hunter2", "nested": [{ "Access-Token": { "a": 1 }, "refreshJwt": "x" }],
            "api_key": "k", "tokens_used": 5,
        });
        redact(&mut value, Names::OfCaller, &|text| Cow::Borrowed(text));
        let expected = json!({
            "text": "hello", "password": REDACTED, "nested": [{ "Access-Token": REDACTED, "refreshJwt": REDACTED }],
            "api_key": REDACTED, "tokens_used": REDACTED,
        });
        assert_eq!(value, expected);
        let mut pairs = json!([["q", "secret"], ["token", "hunter2"]]);
        redact(&mut pairs, Names::OfCaller, &|text| text.replace("secret", "***").into());
        assert_eq!(pairs, json!([["q", "***"], ["token", REDACTED]]));
    }

    #[test]
    fn names_of_fields_are_texts_or_stay() {
        fn hide(text: &str) -> Cow<'_, str> {
            text.replace("hidden", "***").into()
        }
        let fields = json!({ "hidden": ["hidden", 1, null, { "token": "a hidden one" }] });
        let mut texts = fields.clone();
        redact(&mut texts, Names::Texts, &hide);
        assert_eq!(texts, json!({ "***": ["***", 1, null, { "token": "a *** one" }] }));
        let mut ours = fields;
        redact(&mut ours, Names::Ours, &hide);
        assert_eq!(ours, json!({ "hidden": ["***", 1, null, { "token": "a *** one" }] }));
    }

    #[test]
    fn values_are_replaced_by_their_names_unless_they_are_short() {
        let values = [("outer", "xx-abcdef-yy"), ("inner", "abcdef"), ("short", "abcde")];
        let replaced = |text| replace_values(text, values, |name| format!("[{name}]"));
        assert_eq!(replaced("xx-abcdef-yy abcdef abcde"), "[outer] [inner] abcde");
        assert!(matches!(replaced("nothing here"), Cow::Borrowed(_)));
    }
}
