//! The values of a call that neither the plugin's log nor an error shows.

use serde_json::Value;
use zeroize::Zeroizing;

use crate::plugins::values::{Callback, Start, Tokens};

/// Names and values.
pub(super) type PrivateValues = Vec<(&'static str, Zeroizing<String>)>;

/// Parameters of a callback that tell what went wrong (RFC 6749 §4.1.2.1). They are for people.
const ERRORS: [&str; 3] = ["error", "error_description", "error_uri"];

fn private(name: &'static str, value: &str) -> (&'static str, Zeroizing<String>) {
    (name, Zeroizing::new(value.to_owned()))
}

pub(super) fn of_start(start: &Start) -> PrivateValues {
    let mut values = of_config(&start.config);
    values.push(private("state", &start.state));
    values
}

pub(super) fn of_callback(callback: &Callback) -> PrivateValues {
    let mut values = of_config(&callback.config);
    values.push(private("state", &callback.state));
    let params = callback.params.iter().filter(|(name, _)| !ERRORS.contains(&name.as_str()));
    values.extend(params.map(|(_, value)| private("callback parameter", value)));
    values
}

/// Tokens, and the configuration that comes with them.
pub(super) fn of_account(tokens: &Tokens, config: &str) -> PrivateValues {
    let mut values = vec![private("access token", &tokens.access)];
    values.extend(tokens.refresh.as_ref().map(|refresh| private("refresh token", refresh)));
    values.extend(of_config(config));
    values
}

/// All texts in JSON text.
pub(super) fn of_config(config: &str) -> PrivateValues {
    fn collect(value: &Value, values: &mut PrivateValues) {
        match value {
            Value::String(text) => values.push(private("config", text)),
            Value::Array(items) => items.iter().for_each(|item| collect(item, values)),
            Value::Object(fields) => fields.values().for_each(|value| collect(value, values)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    let mut values = Vec::new();
    if let Ok(config) = serde_json::from_str(config) {
        collect(&config, &mut values);
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_a_configuration_and_of_a_callback_are_private() {
        let callback = Callback {
            state: "s".to_owned(),
            redirect_uri: "https://here.example/".to_owned(),
            params: [("code", "c"), ("error_description", "no")]
                .map(|(a, b)| (a.to_owned(), b.to_owned()))
                .into(),
            config: r#"{"a": ["b", {"c": "d"}], "e": 1}"#.to_owned(),
        };
        let values = of_callback(&callback);
        let values: Vec<&str> = values.iter().map(|(_, value)| value.as_str()).collect();
        assert_eq!(values, ["b", "d", "s", "c"]);
    }
}
