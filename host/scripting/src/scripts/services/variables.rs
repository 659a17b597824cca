//! Script variables: values that operators set for scripts outside the source, such as keys and addresses. Sealed in
//! the store, opened in memory. Neither the admin API nor an event ever shows a value.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use zeroize::Zeroizing;

use belvedere_base::random::Random;
use belvedere_base::reloadable::Reloadable;
use belvedere_instance::events::redact;
use belvedere_protocol::crypto::SealingKey;
use belvedere_storage::store::script_variables::{self, VariableRow};
use belvedere_storage::store::{Db, StoreError};

/// Bytes of a value: enough for a key pair or a small document.
pub const MAX_VALUE: usize = 16 << 10;
/// Bytes of a key.
pub const MAX_KEY: usize = 128;
/// Variables in all; every run gets all of them.
pub const MAX_COUNT: i64 = 200;

/// The variables of all runs. Cheap to clone; replaced as a whole.
#[derive(Clone, Default)]
pub struct Variables(Arc<Reloadable<VariableSet>>);

struct VariableSet {
    /// The JSON object that becomes the global `env`.
    rendered: Zeroizing<Vec<u8>>,
    pairs: Vec<(String, Zeroizing<String>)>,
}

impl Default for VariableSet {
    fn default() -> Self {
        Self { rendered: Zeroizing::new(b"{}".to_vec()), pairs: Vec::new() }
    }
}

impl Variables {
    pub fn new<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let owned = pairs.into_iter().map(|(key, value)| (key.to_owned(), Zeroizing::new(value.to_owned())));
        Self(Arc::new(Reloadable::new(VariableSet::new(owned.collect()))))
    }

    /// Loads the variables from the store, for the runs that begin from now on.
    ///
    /// # Errors
    /// When the store can't be read; the variables stay as they were.
    pub async fn reload(&self, sealing: &SealingKey, db: &Db) -> Result<(), StoreError> {
        self.0.reload(async |_| Ok(VariableSet::open(sealing, &script_variables::list(db).await?))).await
    }

    /// The same names, each with `[env.NAME]` as its value.
    pub(in crate::scripts) fn placeholders(&self) -> Self {
        let set = self.0.load();
        let pairs = set.pairs.iter().map(|(key, _)| (key.clone(), Zeroizing::new(placeholder(key))));
        Self(Arc::new(Reloadable::new(VariableSet::new(pairs.collect()))))
    }

    /// Appends the JSON object that becomes the global `env`.
    pub(in crate::scripts) fn render(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0.load().rendered);
    }

    /// The names and the values, the longest value first.
    pub(in crate::scripts) fn pairs(&self) -> Vec<(String, Zeroizing<String>)> {
        self.0.load().pairs.clone()
    }

    /// The text with every value replaced by its name.
    pub fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let set = self.0.load();
        redact::replace_values(
            text,
            set.pairs.iter().map(|(key, value)| (&**key, value.as_str())),
            placeholder,
        )
    }
}

/// The placeholder for the value of a variable.
fn placeholder(key: &str) -> String {
    format!("[env.{key}]")
}

impl VariableSet {
    /// Opens the stored variables. One that can't be opened is left out and logged.
    fn open(sealing: &SealingKey, rows: &[VariableRow]) -> Self {
        let pairs = rows.iter().filter_map(|row| {
            let value = open(sealing, row);
            if value.is_none() {
                tracing::error!(
                    key = row.key,
                    "a script variable can't be decrypted: TOKEN_ENCRYPTION_KEY has changed; set the variable again"
                );
            }
            Some((row.key.clone(), value?))
        });
        Self::new(pairs.collect())
    }

    fn new(mut pairs: Vec<(String, Zeroizing<String>)>) -> Self {
        let map: serde_json::Map<_, _> =
            pairs.iter().map(|(key, value)| (key.clone(), value.as_str().into())).collect();
        let rendered = Zeroizing::new(serde_json::Value::Object(map).to_string().into_bytes());
        // The longest first, so that a value that contains another one is redacted whole.
        pairs.sort_by_key(|(_, value)| std::cmp::Reverse(value.len()));
        Self { rendered, pairs }
    }
}

impl fmt::Debug for Variables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Variables").field("count", &self.0.load().pairs.len()).finish()
    }
}

fn purpose(key: &str) -> String {
    format!("script_variables.{key}")
}

/// Seals a value for the store.
pub fn seal(sealing: &SealingKey, random: &Random, key: &str, value: &str) -> Vec<u8> {
    sealing.seal(random, &purpose(key), value.as_bytes())
}

/// Opens a stored value; `None` when it was sealed with another key or for another variable.
pub fn open(sealing: &SealingKey, row: &VariableRow) -> Option<Zeroizing<String>> {
    let value = sealing.open(&purpose(&row.key), &row.sealed).ok()?;
    std::str::from_utf8(&value).ok().map(|value| Zeroizing::new(value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use belvedere_base::clock::Timestamp;

    fn row(key: &str, sealed: Vec<u8>) -> VariableRow {
        VariableRow { key: key.to_owned(), sealed, created_at: Timestamp(0), updated_at: Timestamp(0) }
    }

    #[test]
    fn values_are_sealed_each_under_its_name() {
        let random = Random::seeded(1);
        let key = |byte| {
            use base64::Engine as _;
            let text = base64::engine::general_purpose::STANDARD.encode([byte; 32]);
            SealingKey::from_base64(&text).unwrap()
        };
        let sealed = seal(&key(1), &random, "A", "s3cret value");
        assert!(!sealed.windows(6).any(|window| window == b"s3cret"));
        assert_eq!(open(&key(1), &row("A", sealed.clone())).unwrap().as_str(), "s3cret value");
        assert!(open(&key(1), &row("B", sealed.clone())).is_none());
        assert!(open(&key(2), &row("A", sealed.clone())).is_none());

        let rows = [row("A", sealed.clone()), row("B", sealed)];
        let variables = Variables(Arc::new(Reloadable::new(VariableSet::open(&key(1), &rows))));
        let mut env = Vec::new();
        variables.render(&mut env);
        assert_eq!(env, br#"{"A":"s3cret value"}"#);
        assert!(!format!("{variables:?}").contains("s3cret"));
    }

    #[test]
    fn values_are_replaced_by_their_names() {
        let variables = Variables::new([("INNER", "abcdef"), ("OUTER", "xxabcdefxx"), ("SHORT", "no")]);
        assert_eq!(variables.redact("say xxabcdefxx, abcdef and no"), "say [env.OUTER], [env.INNER] and no");
        assert!(matches!(variables.redact("nothing here"), Cow::Borrowed(_)));
        let mut env = Vec::new();
        variables.placeholders().render(&mut env);
        let env: serde_json::Value = serde_json::from_slice(&env).unwrap();
        assert_eq!(
            env,
            serde_json::json!({ "INNER": "[env.INNER]", "OUTER": "[env.OUTER]", "SHORT": "[env.SHORT]" })
        );
    }
}
