//! Values that no log line, no error and no failure shows: secrets, tokens, what users typed.

use std::borrow::Cow;

use serde_json::Value;
use zeroize::Zeroizing;

use crate::plugins::manifest::Manifest;
use crate::plugins::secrets;
use crate::plugins::services::PluginServices;
use belvedere_instance::config::Secret;
use belvedere_instance::events::redact::{self, Names};

/// Names and values, the longest values first: one may contain another.
#[derive(Default)]
pub(in crate::plugins) struct Hidden(Vec<(&'static str, Zeroizing<String>)>);

impl Hidden {
    /// The secrets of a plugin, whether or not it reads them: an earlier call may have kept them.
    pub(in crate::plugins) fn of_secrets(services: &PluginServices, manifest: &Manifest) -> Self {
        let mut hidden = Self::default();
        for name in secrets::names(manifest) {
            if let Some(secret) = (services.secrets)(&manifest.id, name) {
                hidden.add_secret(&secret);
            }
        }
        hidden
    }

    /// Hides each line of a secret too: what a program prints becomes lines of the log.
    pub(super) fn add_secret(&mut self, secret: &Secret<String>) {
        let secret = secret.reveal();
        self.add("secret", secret);
        if secret.contains('\n') {
            secret.lines().for_each(|line| self.add("secret", line.trim()));
        }
    }

    pub(super) fn add(&mut self, name: &'static str, value: &str) {
        let known = self.0.iter().any(|(_, hidden)| hidden.as_str() == value);
        if !known {
            let at = self.0.partition_point(|(_, hidden)| hidden.len() >= value.len());
            self.0.insert(at, (name, Zeroizing::new(value.to_owned())));
        }
    }

    /// The text with every hidden value replaced by its name.
    pub(in crate::plugins) fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let values = self.0.iter().map(|(name, value)| (*name, value.as_str()));
        redact::replace_values(text, values, |name| format!("[{name}]"))
    }

    /// The same for all texts in a value, names of fields among them.
    pub(super) fn redact_json(&self, mut value: Value) -> Value {
        redact::redact(&mut value, Names::Texts, &|text| self.redact(text));
        value
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_secret_of_lines_is_hidden_line_by_line() {
        let mut hidden = Hidden::default();
        hidden.add_secret(&Secret::new("-----BEGIN\r\n  QUJDREVG\nab\n".to_owned()));
        assert_eq!(hidden.redact("-----BEGIN"), "[secret]");
        assert_eq!(hidden.redact("key: QUJDREVG, ab"), "key: [secret], ab");
    }

    #[test]
    fn values_are_replaced_by_their_names() {
        let mut hidden = Hidden::default();
        hidden.add("token", "abcdef");
        hidden.add("config", "xx-abcdef-yy");
        hidden.add("config", "short");
        assert_eq!(hidden.redact("xx-abcdef-yy abcdef short"), "[config] [token] short");
        let fields: Value = serde_json::from_str(r#"{"\u0061bcdef": ["x\u0061bcdef", 1, null]}"#).unwrap();
        assert_eq!(hidden.redact_json(fields), json!({"[token]": ["x[token]", 1, null]}));
    }
}
