//! The form of a view's document. The JSON schema for editors is made of these types; `docs/views.md` describes them.
//!
//! Parts are read one by one ([`part`]), so that the mistakes of all of them are listed.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use belvedere_storage::query::group::MAX_GROUP_KEYS;
use belvedere_storage::query::sort::MAX_KEYS;

use super::offence::Offences;

/// A view: answers a query method without code.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "View")]
pub(super) struct Document {
    /// The address of this schema, for editors.
    #[serde(rename = "$schema")]
    pub(super) _schema: Option<String>,
    /// The version of the language.
    #[schemars(range(min = 1, max = 1))]
    pub(super) view: u64,
    /// The records that the view shows.
    #[schemars(with = "Source")]
    pub(super) from: Value,
    /// Conditions by field, which all hold. Row fields are `did`, `rkey` and `indexedAt`.
    #[serde(default, rename = "where")]
    #[schemars(with = "BTreeMap<String, Condition>")]
    pub(super) conditions: Map<String, Value>,
    /// Fields, each with `-` for descending. Newest first without one.
    #[serde(default)]
    #[schemars(length(max = MAX_KEYS))]
    pub(super) order: Vec<String>,
    /// Counts the records by values of theirs, instead of showing them.
    #[schemars(with = "Option<Group>")]
    pub(super) group: Option<Value>,
    /// Additions to each row, by name.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, Addition>")]
    pub(super) with: Map<String, Value>,
    /// `labels:VALUE`, `viewer:COLLECTION` or `toViewer:COLLECTION`: the rows that are left out.
    #[serde(default)]
    pub(super) hide: Vec<String>,
    /// The answer. A text that begins with `@` is replaced.
    pub(super) output: Value,
}

/// The forms of `from`, for the schema.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only describes the document")]
enum Source {
    Collection(String),
    List(ListSource),
    Record(RecordSource),
    Tree(TreeSource),
}

/// The records of a collection.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListSource {
    pub(super) collection: String,
    /// Their author, or the accounts to which an account's records link.
    #[schemars(with = "Option<Accounts>")]
    pub(super) did: Option<Value>,
}

/// The forms of `did`, for the schema.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only describes the document")]
enum Accounts {
    One(String),
    Among(Among),
    LinkedFrom(LinkedFrom),
}

/// Several accounts.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only describes the document")]
struct Among {
    /// A list, or a parameter that is an array.
    #[serde(rename = "in")]
    accounts: Value,
}

/// The accounts to which the records of an account link.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct LinkedFrom {
    /// The account: `$viewer`, a parameter, or a DID.
    #[serde(rename = "linkedFrom")]
    pub(super) account: String,
    /// The collection of the linking records.
    pub(super) by: String,
    /// The place of the link in them.
    pub(super) path: Option<String>,
}

/// One record; 404 when it is not in the index.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RecordSource {
    /// A parameter with its AT URI.
    pub(super) uri: String,
    /// The only collection that is shown.
    pub(super) collection: Option<String>,
}

/// A record with the records that link to it, to these, and so on.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TreeSource {
    /// A parameter with the AT URI of the root.
    pub(super) tree: String,
    /// The collection of all records of the tree.
    pub(super) collection: String,
    /// The place of the link to the record above.
    pub(super) path: String,
    /// Levels below the root: a number, or a parameter.
    #[schemars(with = "Option<Value>")]
    pub(super) depth: Option<Value>,
    /// Records of the tree.
    #[schemars(range(min = 1, max = super::limits::TREE))]
    pub(super) limit: Option<u32>,
}

/// A row for each combination of values, with the number of its records.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Group {
    /// Fields, `did` or `indexedAt`, and times by their spans: `{ "day": "createdAt" }`, with `hour`, `day`, `week` or `month`.
    #[schemars(with = "Vec<Key>", length(min = 1, max = MAX_GROUP_KEYS))]
    pub(super) by: Vec<Value>,
    /// Fields of `by`, or `count`, with `-` for descending. The largest groups first without one.
    #[serde(default)]
    pub(super) order: Vec<String>,
    /// Rows: a number, or a parameter.
    #[schemars(with = "Option<Value>")]
    pub(super) limit: Option<Value>,
}

/// The forms of a key of a group, for the schema.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only describes the document")]
enum Key {
    Field(String),
    Span(BTreeMap<String, String>),
}

/// The forms of a condition, for the schema.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only describes the document")]
enum Condition {
    Equal(Value),
    Tests(Box<Tests>),
    Alternatives(Vec<BTreeMap<String, Value>>),
}

/// Tests of a field, which all hold. Values are constants, `$parameter` or `$viewer`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Tests {
    pub(super) eq: Option<Value>,
    #[serde(rename = "in")]
    pub(super) among: Option<Value>,
    pub(super) gt: Option<Value>,
    pub(super) gte: Option<Value>,
    pub(super) lt: Option<Value>,
    pub(super) lte: Option<Value>,
    pub(super) prefix: Option<Value>,
    pub(super) contains: Option<Value>,
    /// Whether the field is absent or null.
    pub(super) missing: Option<bool>,
}

/// An addition to each row: exactly one of `follow`, `list`, `count`, `mine`, `profile`, `record` and `labels`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Addition {
    /// The path of an AT URI or a strong reference: the record that it names.
    pub(super) follow: Option<String>,
    /// The collection of that record: one of another is left out.
    pub(super) collection: Option<String>,
    /// A collection: its records that link to the row, or those of an account.
    pub(super) list: Option<String>,
    /// A collection: the number of its records that link to the row.
    pub(super) count: Option<String>,
    /// A collection: the AT URI of the viewer's record that links to the row.
    pub(super) mine: Option<String>,
    /// `did` or a path: the profile of that account.
    pub(super) profile: Option<String>,
    /// A collection: the record of an account with a fixed key.
    pub(super) record: Option<String>,
    /// `uri`, `did` or a path: the labels of that subject.
    pub(super) labels: Option<String>,
    /// The place of the link in the records of the collection.
    pub(super) path: Option<String>,
    /// The target of the link: `uri`, the default, `did` or a path.
    pub(super) to: Option<String>,
    /// The account: `did` or a path.
    pub(super) of: Option<String>,
    /// The record key of `record`: `self` without one.
    pub(super) rkey: Option<String>,
    /// `-indexedAt` or `indexedAt`, of a `list`.
    pub(super) order: Option<Vec<String>>,
    /// Records of a `list`.
    #[schemars(range(min = 1, max = super::limits::LIST))]
    pub(super) limit: Option<u32>,
    /// Additions to the joined rows.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, Value>")]
    pub(super) with: Map<String, Value>,
    /// The form of a joined row.
    pub(super) output: Option<Value>,
}

/// Reads a part of a document. A part of another form is an offence.
pub(super) fn part<T: DeserializeOwned>(value: &Value, at: &str, offences: &mut Offences) -> Option<T> {
    // By reference, so that a large value is not copied.
    offences.check(at, T::deserialize(value))
}

/// The JSON schema of documents.
pub fn schema() -> Value {
    schemars::schema_for!(Document).to_value()
}
