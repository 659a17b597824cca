//! Compiles lexicon documents.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Map, Value};

use super::super::LexiconDoc;
use super::super::format::Format;
use super::super::steps;
use super::{DefinitionId, Integers, Limits, Method, Object, Plan, Property, Strings, Type, canonical_order};

/// References that a reference may pass through to a definition. The protocol has no definitions that are references; a
/// circle of them ends here.
const MAX_ALIASES: usize = 16;

pub(super) fn plan<'a>(documents: impl Iterator<Item = &'a str>) -> Plan {
    let documents: BTreeMap<String, Value> = documents.filter_map(read).collect();
    let definitions = || {
        documents.iter().flat_map(|(nsid, document)| {
            let definitions = document.get("defs").and_then(Value::as_object);
            definitions
                .into_iter()
                .flatten()
                .map(move |(name, schema)| (nsid.as_str(), name.as_str(), schema))
        })
    };
    let mut names = Names::default();
    for (nsid, name, schema) in definitions() {
        let full = full_name(nsid, name);
        if let ("ref", Some(target)) = (kind(schema), text(schema, "ref")) {
            names.aliases.insert(full, absolute(nsid, target));
        } else {
            let id = DefinitionId(names.by_name.len() as u32);
            names.by_name.insert(full, id);
        }
    }
    let mut plan = Plan::default();
    for (nsid, name, schema) in definitions() {
        let compiler = Compiler { names: &names, nsid };
        let full = full_name(nsid, name);
        if name == "main" && matches!(kind(schema), "query" | "procedure" | "subscription") {
            plan.methods.insert(nsid.into(), compiler.method(schema));
        }
        if names.by_name.contains_key(&full) {
            plan.definitions.push(compiler.definition(full, schema));
        }
    }
    plan.by_name = names.by_name;
    plan
}

fn read(text: &str) -> Option<(String, Value)> {
    let read = || {
        let document: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let id = LexiconDoc::parse(&document).map_err(|error| error.to_string())?.id;
        Ok::<_, String>((id.as_str().to_owned(), document))
    };
    read()
        .inspect_err(|error| tracing::warn!(%error, "a lexicon can't be read: its records are not validated"))
        .ok()
}

/// The definitions that references of all documents name.
#[derive(Default)]
struct Names {
    by_name: HashMap<Box<str>, DefinitionId>,
    /// The targets of definitions that are references.
    aliases: HashMap<Box<str>, Box<str>>,
}

impl Names {
    fn resolve(&self, name: &str) -> Option<DefinitionId> {
        let mut name = name;
        for _ in 0..MAX_ALIASES {
            match self.aliases.get(name) {
                Some(target) => name = target,
                None => return self.by_name.get(name).copied(),
            }
        }
        None
    }
}

/// Compiles the schemas of one document.
#[derive(Clone, Copy)]
struct Compiler<'a> {
    names: &'a Names,
    nsid: &'a str,
}

impl Compiler<'_> {
    /// The definition of this full name.
    fn definition(self, full: Box<str>, schema: &Value) -> Type {
        match (kind(schema), schema.get("record")) {
            ("record", Some(record)) => Type::Object(Object { kind: Some(full), ..self.object(record) }),
            ("token", _) => Type::Token(full),
            _ => self.schema(schema),
        }
    }

    fn method(self, schema: &Value) -> Method {
        let body = |name: &str| schema.pointer(name).map(|schema| self.schema(schema));
        let params = schema.get("parameters").map(|params| self.params(params)).unwrap_or_default();
        Method {
            params,
            input: body("/input/schema"),
            output: body("/output/schema"),
            message: body("/message/schema"),
            subprotocol: text(schema, "subprotocol").map(Into::into),
        }
    }

    fn params(self, schema: &Value) -> Object {
        let mut object = self.object(schema);
        for property in &mut object.properties {
            // The protocol says nothing about the text of such a parameter.
            if matches!(property.schema, Type::Unknown) {
                property.schema = Type::Any;
            }
        }
        object
    }

    fn schema(self, schema: &Value) -> Type {
        let limits = |low, high| limits(schema, low, high);
        match kind(schema) {
            "null" => Type::Null,
            "boolean" => Type::Boolean { constant: schema.get("const").and_then(Value::as_bool) },
            "integer" => {
                let number = |name: &str| schema.get(name).and_then(Value::as_i64);
                Type::Integer(Box::new(Integers {
                    min: number("minimum").unwrap_or(i64::MIN),
                    max: number("maximum").unwrap_or(i64::MAX),
                    constant: number("const"),
                    values: sorted(schema, "enum", Value::as_i64),
                }))
            }
            "string" => Type::String(Box::new(Strings {
                bytes: limits("minLength", "maxLength"),
                graphemes: limits("minGraphemes", "maxGraphemes"),
                constant: text(schema, "const").map(Into::into),
                values: sorted(schema, "enum", boxed),
                format: text(schema, "format").and_then(Format::from_name),
            })),
            "bytes" => Type::Bytes { length: limits("minLength", "maxLength") },
            "cid-link" => Type::Link,
            "blob" => Type::Blob {
                accept: sorted(schema, "accept", boxed),
                max_size: schema.get("maxSize").and_then(Value::as_u64).unwrap_or(u64::MAX),
            },
            "array" => Type::Array {
                items: Box::new(schema.get("items").map_or(Type::Any, |items| self.schema(items))),
                length: limits("minLength", "maxLength"),
            },
            "object" => Type::Object(self.object(schema)),
            "ref" => text(schema, "ref")
                .and_then(|target| self.names.resolve(&absolute(self.nsid, target)))
                .map_or(Type::Any, Type::Named),
            "union" => self.union(schema),
            "unknown" => Type::Unknown,
            // Methods, permissions and the types of later versions of the protocol are no types of values.
            _ => Type::Any,
        }
    }

    fn object(self, schema: &Value) -> Object {
        let empty = Map::new();
        let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&empty);
        let list = |name: &str| sorted(schema, name, boxed).unwrap_or_default();
        let (required, nullable) = (list("required"), list("nullable"));
        let property = |(name, schema): (&String, &Value)| Property {
            name: name.as_str().into(),
            schema: self.schema(schema),
            is_required: contains(&required, name) && schema.get("default").is_none(),
            is_nullable: contains(&nullable, name),
        };
        let default =
            |(name, schema): (&String, &Value)| Some((name.as_str().into(), schema.get("default")?.clone()));
        let defaults = properties.iter().filter_map(default).collect();
        let mut properties: Box<[Property]> = properties.iter().map(property).collect();
        properties.sort_unstable_by(|a, b| canonical_order(&a.name, &b.name));
        let required = properties.iter().filter(|property| property.is_required).count();
        Object { kind: None, properties, required, defaults }
    }

    fn union(self, schema: &Value) -> Type {
        let member = |target: &Value| {
            let name = absolute(self.nsid, target.as_str()?);
            let id = self.names.resolve(&name);
            Some((name, id))
        };
        let refs = schema.get("refs").and_then(Value::as_array);
        let mut members: Vec<_> = refs.into_iter().flatten().filter_map(member).collect();
        members.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        members.dedup_by(|a, b| a.0 == b.0);
        let is_closed = schema.get("closed").and_then(Value::as_bool).unwrap_or_default();
        Type::Union { members: members.into(), is_closed }
    }
}

fn kind(schema: &Value) -> &str {
    text(schema, "type").unwrap_or_default()
}

fn text<'a>(schema: &'a Value, name: &str) -> Option<&'a str> {
    schema.get(name).and_then(Value::as_str)
}

fn limits(schema: &Value, low: &str, high: &str) -> Limits {
    let limit = |name: &str| schema.get(name).and_then(Value::as_u64);
    Limits { min: limit(low).unwrap_or(0), max: limit(high).unwrap_or(u64::MAX) }
}

fn boxed(value: &Value) -> Option<Box<str>> {
    value.as_str().map(Into::into)
}

/// The values of a list, sorted; `None` without the list.
fn sorted<T: Ord>(schema: &Value, name: &str, read: impl Fn(&Value) -> Option<T>) -> Option<Box<[T]>> {
    let mut values: Box<[T]> = schema.get(name)?.as_array()?.iter().filter_map(read).collect();
    values.sort_unstable();
    Some(values)
}

/// Whether a sorted list contains a text.
pub(in super::super) fn contains(sorted: &[Box<str>], text: &str) -> bool {
    let order = |value: &str| {
        steps::count();
        value.cmp(text)
    };
    sorted.binary_search_by(|value| order(value)).is_ok()
}

/// The full name of a definition of a document.
fn full_name(nsid: &str, name: &str) -> Box<str> {
    if name == "main" { nsid.into() } else { format!("{nsid}#{name}").into() }
}

/// The full name that a reference in a document means.
fn absolute(nsid: &str, reference: &str) -> Box<str> {
    match reference.split_once('#') {
        Some((of, name)) => full_name(if of.is_empty() { nsid } else { of }, name),
        None => reference.into(),
    }
}
