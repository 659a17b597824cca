//! Parses and checks the lexicon documents that operators upload or the network publishes.
//!
//! The check is as strict as the protocol's own parser where a document would be meaningless (a property without a
//! type, a required field that does not exist) and accepts what it does not know: other fields, definition types and
//! string formats of later protocol versions. [`warnings()`] names those.

mod arrays;
mod check;
mod evolution;
mod fields;
mod format;
mod node;
mod params;
mod plan;
mod record_key;
mod schemas;
mod steps;
#[cfg(test)]
mod tests;
mod validate;
mod warnings;

use serde_json::{Map, Value};

pub use self::evolution::{breaking_change, covers};
pub use self::fields::{FieldKind, RecordField, record_fields};
pub use self::format::Format;
use self::node::Node;
pub use self::record_key::KeyType;
pub use self::schemas::{SchemaErrors, Schemas};
pub use self::warnings::warnings;
use super::Nsid;

/// The kind of a lexicon: the type of its `main` definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LexiconKind {
    Record,
    Query,
    Procedure,
    Subscription,
    Space,
    /// Any other type, or no `main`: the lexicon is stored, but nothing is routed or indexed because of it.
    Definitions,
}

impl LexiconKind {
    /// The name that the admin API shows as `lexicon_type`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Record => "record",
            Self::Query => "query",
            Self::Procedure => "procedure",
            Self::Subscription => "subscription",
            Self::Space => "space",
            Self::Definitions => "definitions",
        }
    }

    /// The kind that [`Self::as_str`] writes as `name`; any other name counts as definitions.
    pub fn from_name(name: &str) -> Self {
        [Self::Record, Self::Query, Self::Procedure, Self::Subscription, Self::Space]
            .into_iter()
            .find(|kind| kind.as_str() == name)
            .unwrap_or(Self::Definitions)
    }
}

/// A checked lexicon document.
#[derive(Clone, Debug, PartialEq)]
pub struct LexiconDoc {
    pub id: Nsid,
    pub kind: LexiconKind,
    /// `defs.main.record`, of record lexicons.
    pub record_schema: Option<Value>,
    /// `defs.main.key`, of record and space lexicons.
    pub key: Option<String>,
}

/// The first error in an invalid document, with its path.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("invalid lexicon: {path}: {reason}")]
pub struct LexiconError {
    /// Path from the document's root, such as `defs.main.record.properties.text.type` or `defs.main.errors[0].name`.
    pub path: String,
    pub reason: String,
}

/// The longest name of a space, in characters (admin-api.md §7).
const MAX_SPACE_NAME: usize = 64;

impl LexiconDoc {
    /// Checks a document.
    ///
    /// # Errors
    /// The first error in the document.
    pub fn parse(document: &Value) -> Result<Self, LexiconError> {
        let root = Node::root(document);
        root.object()?;
        let version = root.require("lexicon")?;
        if version.value.as_f64() != Some(1.0) {
            return Err(version.fail("must be 1"));
        }
        let id = root.require("id")?;
        let nsid = Nsid::try_from(id.string()?).map_err(|_| id.fail("must be a valid NSID"))?;
        check::optional_string(&root, "description")?;
        let defs = root.require("defs")?;
        for (name, value) in defs.object()? {
            check::definition(&defs.child(name, value), name)?;
        }
        let Some(main) = defs.get("main") else {
            return Ok(Self { id: nsid, kind: LexiconKind::Definitions, record_schema: None, key: None });
        };
        let kind = match main.value.get("type").and_then(Value::as_str) {
            Some("record") => LexiconKind::Record,
            Some("query") => LexiconKind::Query,
            Some("procedure") => LexiconKind::Procedure,
            Some("subscription") => LexiconKind::Subscription,
            Some("space") => LexiconKind::Space,
            _ => LexiconKind::Definitions,
        };
        let key = main.get("key").filter(|_| matches!(kind, LexiconKind::Record | LexiconKind::Space));
        let key = key.map(|key| key.string().map(str::to_owned)).transpose()?;
        let record_schema = main.value.get("record").filter(|_| kind == LexiconKind::Record).cloned();
        Ok(Self { id: nsid, kind, record_schema, key })
    }

    /// The names of the fields that a record must have.
    pub fn required_fields(&self) -> impl Iterator<Item = &str> {
        let required = self.record_schema.as_ref().and_then(|schema| schema.get("required")?.as_array());
        required.into_iter().flatten().filter_map(Value::as_str)
    }

    /// The fields of a record that have a default value, with that value.
    pub fn default_fields(&self) -> impl Iterator<Item = (&str, &Value)> {
        let properties = self.record_schema.as_ref().and_then(|schema| schema.get("properties")?.as_object());
        properties.into_iter().flat_map(Map::iter).filter_map(|(k, v)| Some((k.as_str(), v.get("default")?)))
    }
}
