//! Redacts secrets in a caller's input before it is written to the event log.

use std::borrow::Cow;

use serde_json::Value;

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

/// Redacts the values of fields with secret names, at any depth. A pair of strings in a list, as query parameters are
/// given, counts as a field too. Every other string is passed to `redact_text`, which replaces known secret values.
pub fn redact(value: &mut Value, redact_text: &impl Fn(&str) -> Cow<'_, str>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                if is_secret(name) {
                    *value = REDACTED.into();
                } else {
                    redact(value, redact_text);
                }
            }
        }
        Value::String(text) => {
            if let Cow::Owned(redacted) = redact_text(text) {
                *text = redacted;
            }
        }
        Value::Array(items) => match items.as_mut_slice() {
            [Value::String(name), value @ Value::String(_)] if is_secret(name) => *value = REDACTED.into(),
            items => items.iter_mut().for_each(|item| redact(item, redact_text)),
        },
        _ => {}
    }
}

fn is_secret(name: &str) -> bool {
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
        redact(&mut value, &|text| Cow::Borrowed(text));
        let expected = json!({
            "text": "hello", "password": REDACTED, "nested": [{ "Access-Token": REDACTED, "refreshJwt": REDACTED }],
            "api_key": REDACTED, "tokens_used": REDACTED,
        });
        assert_eq!(value, expected);
        let mut pairs = json!([["q", "secret"], ["token", "hunter2"]]);
        redact(&mut pairs, &|text| text.replace("secret", "***").into());
        assert_eq!(pairs, json!([["q", "***"], ["token", REDACTED]]));
    }
}
