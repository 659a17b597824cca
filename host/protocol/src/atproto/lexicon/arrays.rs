//! Finds the empty arrays that a script's JSON writes as `{}`: in Lua an empty table is both an empty array and an empty
//! object, and the lexicon knows which one is meant. References are followed to the lexicons that are known; values of
//! other types, and values that no lexicon describes, stay as they are.
//!
//! The text is parsed once, whatever the lexicon: lexicons of trees refer to themselves.

use std::borrow::Cow;
use std::fmt;
use std::sync::LazyLock;

use super::plan::{Object, Plan, Type};
use crate::atproto::json::plain_len;
use bytes::Bytes;
use memchr::memmem::Finder;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

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
pub(super) fn of_record(plan: &Plan, collection: &str, text: &Parsed<'_>) -> Vec<usize> {
    let mut search = Search { plan, empty: &text.empty, found: Vec::new() };
    if let Some(schema) = plan.record(collection) {
        search.object(&text.root, schema);
    }
    search.found
}

/// The empty arrays in a method's output.
pub(super) fn of_output(plan: &Plan, method: &str, text: &Parsed<'_>) -> Vec<usize> {
    let mut search = Search { plan, empty: &text.empty, found: Vec::new() };
    if let Some(schema) = plan.method(method).and_then(|method| method.output.as_ref()) {
        search.value(&text.root, schema);
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

struct Search<'a> {
    plan: &'a Plan,
    empty: &'a [usize],
    found: Vec<usize>,
}

impl Search<'_> {
    fn value(&mut self, value: &Node<'_>, schema: &Type) {
        match (schema, value) {
            (Type::Named(id), _) => self.value(value, self.plan.get(*id)),
            // An open union has types that it does not name.
            (Type::Union { .. }, Node::Object { kind: Some(kind), .. }) => {
                let name = kind.strip_suffix("#main").unwrap_or(kind);
                if let Some(Type::Object(object)) = self.plan.named(name) {
                    self.object(value, object);
                }
            }
            (Type::Object(object), _) => self.object(value, object),
            (Type::Array { .. }, Node::Empty(index)) => self.found.extend(self.empty.get(*index)),
            (Type::Array { items, .. }, Node::Array(list)) => {
                for item in list {
                    self.value(item, items);
                }
            }
            _ => {}
        }
    }

    fn object(&mut self, value: &Node<'_>, object: &Object) {
        let Node::Object { members, .. } = value else { return };
        for (name, member) in members {
            if let Some(property) = object.property(name) {
                self.value(member, &property.schema);
            }
        }
    }
}

#[cfg(test)]
mod tests;
