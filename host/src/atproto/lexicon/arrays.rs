//! Finds the empty arrays that a script's JSON writes as `{}`: in Lua an empty table is both an empty array and an empty
//! object, and the lexicon knows which one is meant. References are followed to the lexicons that are known; values of
//! other types, and values that no lexicon describes, stay as they are.
//!
//! The text is parsed once, whatever the lexicon: lexicons of trees refer to themselves.

use std::borrow::Cow;
use std::fmt;
use std::sync::LazyLock;

use bytes::Bytes;
use memchr::memmem::Finder;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use shrike::lexicon::{Catalog, Def, FieldSchema, ObjectDef, Schema, split_ref};

use crate::atproto::json::plain_len;

/// An empty table, as the guest's encoder writes it.
const EMPTY: &[u8] = b"{}";

static FINDER: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(EMPTY));

/// A text with more empty tables stays as it is. Bounds the memory of the parsed tree, which has a node for each.
const MAX_EMPTY: usize = 100_000;

/// Replaces `{}` by `[]` at the positions that `find` returns for the parsed text. A text without `{}` costs one search.
pub(super) fn mend(text: Bytes, find: impl FnOnce(&Parsed<'_>) -> Vec<usize>) -> Bytes {
    if FINDER.find(&text).is_none() {
        return text;
    }
    let found = Parsed::new(&text).map(|parsed| find(&parsed)).unwrap_or_default();
    if found.is_empty() {
        return text;
    }
    let mut bytes = Vec::from(text);
    for at in found {
        if let Some(empty) = bytes.get_mut(at..at + EMPTY.len()) {
            empty.copy_from_slice(b"[]");
        }
    }
    bytes.into()
}

/// The empty arrays in a record.
pub(super) fn of_record(catalog: &Catalog, collection: &str, text: &Parsed<'_>) -> Vec<usize> {
    find(catalog, collection, text, |main| match main {
        Def::Record(record) => Some(Shape::Object(&record.record)),
        _ => None,
    })
}

/// The empty arrays in a method's output.
pub(super) fn of_output(catalog: &Catalog, method: &str, text: &Parsed<'_>) -> Vec<usize> {
    find(catalog, method, text, |main| {
        let output = match main {
            Def::Query(query) => query.output.as_ref(),
            Def::Procedure(procedure) => procedure.output.as_ref(),
            _ => None,
        };
        output?.schema.as_ref().map(Shape::Field)
    })
}

fn find<'a>(
    catalog: &'a Catalog,
    nsid: &str,
    text: &Parsed<'_>,
    shape: impl FnOnce(&'a Def) -> Option<Shape<'a>>,
) -> Vec<usize> {
    let mut search = Search { catalog, empty: &text.empty, found: Vec::new() };
    if let Some(schema) = catalog.get(nsid)
        && let Some(shape) = schema.defs.get("main").and_then(shape)
    {
        search.value(&text.root, schema, shape);
    }
    search.found
}

/// A JSON text as the tree of its empty objects and of what contains them.
pub(super) struct Parsed<'t> {
    root: Node<'t>,
    /// The positions of the empty objects, in order.
    empty: Vec<usize>,
}

/// A value that is or contains an empty object.
enum Node<'t> {
    /// An empty object, by its index in [`Parsed::empty`].
    Empty(usize),
    /// The items that contain empty objects.
    Array(Vec<Node<'t>>),
    Object {
        /// The value of `$type`.
        kind: Option<Cow<'t, str>>,
        /// The members that contain empty objects.
        members: Vec<(Cow<'t, str>, Node<'t>)>,
    },
}

impl<'t> Parsed<'t> {
    /// `None` for a text that is not JSON, or has no empty object, or too many.
    fn new(text: &'t [u8]) -> Option<Self> {
        let empty = positions(text);
        if empty.len() > MAX_EMPTY {
            return None;
        }
        let mut parser = serde_json::Deserializer::from_slice(text);
        let mut seen = 0;
        let root = Parse { seen: &mut seen }.deserialize(&mut parser).ok()?;
        parser.end().ok()?;
        let is_whole = seen == empty.len();
        root.filter(|_| is_whole).map(|root| Self { root, empty })
    }
}

/// The positions of `{}` outside of strings.
fn positions(text: &[u8]) -> Vec<usize> {
    let (mut at, mut found) = (0, Vec::new());
    while let Some(skipped) = text.get(at..).and_then(|rest| memchr::memchr2(b'"', b'{', rest)) {
        at += skipped;
        if text.get(at) == Some(&b'"') {
            at = end_of_string(text, at + 1);
        } else {
            if text.get(at..).is_some_and(|rest| rest.starts_with(EMPTY)) {
                found.push(at);
            }
            at += 1;
        }
    }
    found
}

/// The position after the string whose content begins at `at`.
fn end_of_string(text: &[u8], mut at: usize) -> usize {
    loop {
        at += plain_len(text, at);
        match text.get(at) {
            Some(b'\\') => at += 2,
            Some(b'"') | None => return at + 1,
            Some(_) => at += 1,
        }
    }
}

/// Parses a value; `None` when it contains no empty object.
struct Parse<'s> {
    /// The empty objects so far.
    seen: &'s mut usize,
}

impl<'de> DeserializeSeed<'de> for Parse<'_> {
    type Value = Option<Node<'de>>;

    fn deserialize<D: Deserializer<'de>>(self, parser: D) -> Result<Self::Value, D::Error> {
        parser.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Parse<'_> {
    type Value = Option<Node<'de>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element_seed(Parse { seen: self.seen })? {
            items.extend(item);
        }
        Ok((!items.is_empty()).then_some(Node::Array(items)))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut kind, mut members, mut is_empty) = (None, Vec::new(), true);
        while let Some(Text(name)) = map.next_key()? {
            is_empty = false;
            if name == "$type" {
                kind = map.next_value::<Kind<'de>>()?.text();
            } else if let Some(member) = map.next_value_seed(Parse { seen: self.seen })? {
                members.push((name, member));
            }
        }
        if is_empty {
            *self.seen += 1;
            return Ok(Some(Node::Empty(*self.seen - 1)));
        }
        Ok((!members.is_empty()).then_some(Node::Object { kind, members }))
    }
}

/// A string that is borrowed from the text if it has no escapes.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// The value of `$type`.
#[derive(Deserialize)]
#[serde(untagged)]
enum Kind<'a> {
    Text(#[serde(borrow)] Text<'a>),
    Other(IgnoredAny),
}

impl<'a> Kind<'a> {
    fn text(self) -> Option<Cow<'a, str>> {
        match self {
            Self::Text(Text(text)) => Some(text),
            Self::Other(_) => None,
        }
    }
}

/// What a lexicon says of a value.
#[derive(Clone, Copy)]
enum Shape<'a> {
    Field(&'a FieldSchema),
    Object(&'a ObjectDef),
    /// An array of such items.
    Array(&'a FieldSchema),
}

struct Search<'a> {
    catalog: &'a Catalog,
    empty: &'a [usize],
    found: Vec<usize>,
}

impl<'a> Search<'a> {
    /// `schema` is the lexicon of the shape.
    fn value(&mut self, value: &Node<'_>, schema: &'a Schema, shape: Shape<'a>) {
        match (shape, value) {
            (Shape::Field(FieldSchema::Object(object)), _) => {
                self.value(value, schema, Shape::Object(object));
            }
            (Shape::Field(FieldSchema::Array { items, .. }), _) => {
                self.value(value, schema, Shape::Array(items));
            }
            (Shape::Field(FieldSchema::Ref { reference, .. }), _) => self.referred(value, schema, reference),
            (Shape::Field(FieldSchema::Union { .. }), Node::Object { kind: Some(kind), .. }) => {
                self.referred(value, schema, kind);
            }
            (Shape::Object(object), Node::Object { members, .. }) => {
                for (name, member) in members {
                    if let Some(field) = object.properties.get(&**name) {
                        self.value(member, schema, Shape::Field(field));
                    }
                }
            }
            (Shape::Array(_), Node::Empty(index)) => self.found.extend(self.empty.get(*index)),
            (Shape::Array(items), Node::Array(list)) => {
                for item in list {
                    self.value(item, schema, Shape::Field(items));
                }
            }
            _ => {}
        }
    }

    /// Searches a value that the definition `reference` describes.
    fn referred(&mut self, value: &Node<'_>, schema: &'a Schema, reference: &str) {
        let (nsid, name) = split_ref(&schema.id, reference);
        let Some(schema) = self.catalog.get(&nsid) else { return };
        let shape = match schema.defs.get(name) {
            Some(Def::Object(object)) => Shape::Object(object),
            Some(Def::Record(record)) => Shape::Object(&record.record),
            Some(Def::ArrayDef(array)) => Shape::Array(&array.items),
            _ => return,
        };
        self.value(value, schema, shape);
    }
}

#[cfg(test)]
mod tests;
