//! Lexicons in the form that records are validated by: one graph of definitions, in which every reference is resolved and
//! every list of names is sorted. Validation looks nothing up by NSID but the record's own collection.

mod compile;

use std::cmp::Ordering;
use std::collections::HashMap;

pub(super) use self::compile::contains;
use serde_json::Value;

use super::format::Format;
use super::steps;

/// The definitions of all lexicons.
#[derive(Debug, Default)]
pub(super) struct Plan {
    definitions: Vec<Type>,
    /// By full name: `com.example.defs#part`, and without `#main`.
    by_name: HashMap<Box<str>, DefinitionId>,
    /// Queries, procedures and subscriptions, by NSID.
    methods: HashMap<Box<str>, Method>,
}

/// The parameters and bodies of a query or a procedure, or the messages of a subscription.
#[derive(Debug, Default)]
pub(super) struct Method {
    pub(super) params: Object,
    /// `None`: any body, or none.
    pub(super) input: Option<Type>,
    pub(super) output: Option<Type>,
    /// The union of the messages, of a subscription.
    pub(super) message: Option<Type>,
    /// The subprotocol that a subscription names as its default.
    pub(super) subprotocol: Option<Box<str>>,
}

impl Plan {
    /// Compiles documents. One that is not a lexicon is left out and logged: [`super::LexiconDoc::parse`] refuses it, so
    /// it was not uploaded here.
    pub(super) fn new<'a>(documents: impl Iterator<Item = &'a str>) -> Self {
        compile::plan(documents)
    }

    /// The definition of a full name.
    pub(super) fn named(&self, name: &str) -> Option<&Type> {
        self.by_name.get(name).map(|id| self.get(*id))
    }

    pub(super) fn get(&self, id: DefinitionId) -> &Type {
        self.definitions.get(id.0 as usize).unwrap_or(&Type::Any)
    }

    /// The schema of a record of a collection; `None` without a record lexicon.
    pub(super) fn record(&self, collection: &str) -> Option<&Object> {
        match self.named(collection) {
            Some(Type::Object(object)) if object.kind.is_some() => Some(object),
            _ => None,
        }
    }

    /// The object that a schema is or names.
    pub(super) fn object<'a>(&'a self, schema: &'a Type) -> Option<&'a Object> {
        match schema {
            Type::Object(object) => Some(object),
            Type::Named(id) => match self.get(*id) {
                Type::Object(object) => Some(object),
                _ => None,
            },
            _ => None,
        }
    }

    /// `None` for a method without a lexicon here.
    pub(super) fn method(&self, nsid: &str) -> Option<&Method> {
        self.methods.get(nsid)
    }
}

/// A definition of a [`Plan`], which is never itself a reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DefinitionId(u32);

/// The values that a schema accepts.
#[derive(Debug)]
pub(super) enum Type {
    /// Any value but null: of a definition that is missing here, or whose type says nothing about values.
    Any,
    Null,
    Boolean {
        constant: Option<bool>,
    },
    Integer(Box<Integers>),
    String(Box<Strings>),
    Bytes {
        length: Limits,
    },
    Link,
    Blob {
        /// Patterns of MIME types, sorted; `None`: all.
        accept: Option<Box<[Box<str>]>>,
        max_size: u64,
    },
    Array {
        items: Box<Type>,
        length: Limits,
    },
    Object(Object),
    Union {
        /// By full name, sorted; without a definition if it is missing here.
        members: Box<[(Box<str>, Option<DefinitionId>)]>,
        is_closed: bool,
    },
    /// An object without a schema.
    Unknown,
    /// The full name of a token.
    Token(Box<str>),
    Named(DefinitionId),
}

/// The range of a number of bytes, graphemes or items; both ends included.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) min: u64,
    pub(super) max: u64,
}

#[derive(Debug)]
pub(super) struct Integers {
    pub(super) min: i64,
    pub(super) max: i64,
    pub(super) constant: Option<i64>,
    /// Sorted.
    pub(super) values: Option<Box<[i64]>>,
}

#[derive(Debug)]
pub(super) struct Strings {
    pub(super) bytes: Limits,
    pub(super) graphemes: Limits,
    pub(super) constant: Option<Box<str>>,
    /// Sorted.
    pub(super) values: Option<Box<[Box<str>]>>,
    pub(super) format: Option<Format>,
}

#[derive(Debug, Default)]
pub(super) struct Object {
    /// The NSID, of a record.
    pub(super) kind: Option<Box<str>>,
    /// Sorted as the names in DAG-CBOR: the length decides most comparisons.
    properties: Box<[Property]>,
    /// The number of required properties.
    pub(super) required: usize,
    /// The values of properties that have a default.
    pub(super) defaults: Box<[(Box<str>, Value)]>,
}

#[derive(Debug)]
pub(super) struct Property {
    name: Box<str>,
    pub(super) schema: Type,
    /// A required property with a default may be missing: the default stands for it.
    pub(super) is_required: bool,
    pub(super) is_nullable: bool,
}

impl Object {
    pub(super) fn property(&self, name: &str) -> Option<&Property> {
        let order = |property: &Property| {
            steps::count();
            canonical_order(&property.name, name)
        };
        let at = self.properties.binary_search_by(order).ok()?;
        self.properties.get(at)
    }

    /// Whether any object matches it.
    pub(super) fn is_empty(&self) -> bool {
        self.properties.is_empty()
    }

    /// The names of the properties that a value must have.
    pub(super) fn required_names(&self) -> impl Iterator<Item = &str> {
        self.properties.iter().filter(|property| property.is_required).map(|property| &*property.name)
    }
}

/// The order of names in DAG-CBOR.
fn canonical_order(a: &str, b: &str) -> Ordering {
    a.len().cmp(&b.len()).then_with(|| a.cmp(b))
}
