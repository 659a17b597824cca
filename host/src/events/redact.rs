//! What of a caller's input is fit for the event log.

use std::borrow::Cow;

use serde_json::Value;

/// What stands in for a value that was left out.
const REDACTED: &str = "[redacted]";

/// Parts of names whose values are nobody's business, without case, `-` and `_`.
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

/// Replaces the values of fields that are named like secrets, at any depth. A list of pairs, as a query string comes,
/// counts as fields too. Every other text becomes what `known` makes of it, which knows the secrets by sight.
pub fn redact(value: &mut Value, known: &impl Fn(&str) -> Cow<'_, str>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                if is_secret(name) {
                    *value = REDACTED.into();
                } else {
                    redact(value, known);
                }
            }
        }
        Value::String(text) => {
            if let Cow::Owned(redacted) = known(text) {
                *text = redacted;
            }
        }
        Value::Array(items) => match items.as_mut_slice() {
            [Value::String(name), value @ Value::String(_)] if is_secret(name) => *value = REDACTED.into(),
            items => items.iter_mut().for_each(|item| redact(item, known)),
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
    fn what_is_named_like_a_secret_is_left_out() {
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
