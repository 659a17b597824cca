//! Compares the form of an answer with the schema of a lexicon's output.

use serde_json::Value;

use super::Documents;
use crate::views::offence::Offences;
use crate::views::plan::{Addition, Insert, Joined, Kind, Template, View};

pub(super) struct Shapes<'a> {
    pub(super) documents: &'a Documents,
    pub(super) offences: &'a mut Offences,
    /// The schemas with which the form of a tree's record was compared. They refer to themselves, as trees do.
    nodes: Vec<&'a Value>,
}

/// A schema, and the lexicon in which it stands, to which its local references belong.
#[derive(Clone, Copy)]
struct Schema<'a> {
    schema: &'a Value,
    lexicon: &'a str,
}

/// References that are followed one after the other. A circle of references has no end.
const MAX_REFERENCES: usize = 10;

impl<'a> Shapes<'a> {
    pub(super) fn new(documents: &'a Documents, offences: &'a mut Offences) -> Self {
        Self { documents, offences, nodes: Vec::new() }
    }

    pub(super) fn compare(&mut self, view: &View, schema: &'a Value, method: &'a str) {
        self.template(&view.output, &view.additions, Schema { schema, lexicon: method }, "output");
    }

    fn template(&mut self, template: &Template, additions: &[Addition], of: Schema<'a>, at: &str) {
        // A schema that is not here can't be compared.
        let Some(of) = self.resolved(of) else { return };
        let kind = of.schema["type"].as_str().unwrap_or_default();
        match template {
            Template::Object { fields, .. } => self.object(fields, additions, of, at),
            Template::Rows(row) => self.elements(std::slice::from_ref(row.as_ref()), additions, of, at),
            Template::Array(elements) => self.elements(elements, additions, of, at),
            Template::Constant(text) => {
                let value: Value = serde_json::from_str(text).unwrap_or_default();
                let actual = match value {
                    Value::Null => "null",
                    Value::Bool(_) => "boolean",
                    Value::Number(number) if number.is_f64() => "number with a fraction",
                    Value::Number(_) => "integer",
                    _ => "string",
                };
                self.expect(actual, kind, at);
            }
            Template::Insert(insert) => self.insert(insert, additions, of, at),
        }
    }

    fn insert(&mut self, insert: &Insert, additions: &[Addition], of: Schema<'a>, at: &str) {
        let kind = of.schema["type"].as_str().unwrap_or_default();
        match insert {
            // The type of a field is known when a record has it.
            Insert::Field(_) => {}
            Insert::Record => {
                if !matches!(kind, "unknown" | "object" | "record" | "union") {
                    self.offences.add(at, format!("it is a record, and the lexicon declares {kind}"));
                }
            }
            // `object` compares their elements, whose form is its own.
            Insert::Children => self.expect("array", kind, at),
            Insert::Count => self.expect("integer", kind, at),
            Insert::Group(members) => {
                let fields: Vec<(String, Template)> = members
                    .iter()
                    .map(|(name, member)| (name.clone(), Template::Insert(Insert::Addition(*member))))
                    .collect();
                self.object(&fields, additions, of, at);
            }
            Insert::Addition(number) => {
                if let Some(addition) = additions.get(*number) {
                    self.addition(&addition.kind, of, at);
                }
            }
            Insert::Uri
            | Insert::Cid
            | Insert::Did
            | Insert::Rkey
            | Insert::IndexedAt
            | Insert::Handle
            | Insert::Blob(_)
            | Insert::Cursor
            | Insert::PreviousCursor => self.expect("string", kind, at),
        }
    }

    fn addition(&mut self, addition: &Kind, of: Schema<'a>, at: &str) {
        let kind = of.schema["type"].as_str().unwrap_or_default();
        match addition {
            Kind::Count { .. } => self.expect("integer", kind, at),
            Kind::Mine { .. } => self.expect("string", kind, at),
            Kind::Labels { .. } => self.expect("array", kind, at),
            Kind::List { joined: Joined { additions, output }, .. } => {
                self.elements(std::slice::from_ref(output), additions, of, at);
            }
            Kind::Follow { joined, .. } | Kind::Profile { joined, .. } | Kind::Record { joined, .. } => {
                self.template(&joined.output, &joined.additions, of, at);
            }
        }
    }

    fn expect(&mut self, actual: &str, declared: &str, at: &str) {
        let fits = match declared {
            "unknown" | "" => true,
            "cid-link" | "bytes" | "blob" => false,
            "union" | "ref" => actual == "object",
            declared => declared == actual,
        };
        if !fits {
            self.offences
                .add(at, format!("it is {}, and the lexicon declares {declared}", with_article(actual)));
        }
    }

    fn elements(&mut self, elements: &[Template], additions: &[Addition], of: Schema<'a>, at: &str) {
        let kind = of.schema["type"].as_str().unwrap_or_default();
        self.expect("array", kind, at);
        if kind == "array" {
            for element in elements {
                let items = Schema { schema: &of.schema["items"], ..of };
                self.template(element, additions, items, &format!("{at}[]"));
            }
        }
    }

    fn object(&mut self, fields: &[(String, Template)], additions: &[Addition], of: Schema<'a>, at: &str) {
        let kind = of.schema["type"].as_str().unwrap_or_default();
        if kind == "union" {
            let Some(variant) = self.variant(fields, of, at) else { return };
            return self.object(fields, additions, variant, at);
        }
        if kind == "unknown" {
            return;
        }
        if kind != "object" {
            return self.expect("object", kind, at);
        }
        if fields.iter().any(|(_, field)| *field == Template::Insert(Insert::Children)) {
            if self.nodes.iter().any(|compared| std::ptr::eq(*compared, of.schema)) {
                return;
            }
            self.nodes.push(of.schema);
        }
        let properties = &of.schema["properties"];
        let nullable = of.schema["nullable"].as_array().map(Vec::as_slice).unwrap_or_default();
        for (name, field) in fields {
            let name: String = serde_json::from_str(name).unwrap_or_default();
            let at = format!("{at}.{name}");
            let is_null = matches!(field, Template::Constant(text) if text == "null");
            if name == "$type" || is_null && nullable.iter().any(|nullable| *nullable == *name) {
                continue;
            }
            let Some(schema) = properties.get(&name) else {
                self.offences.add(&at, "the lexicon's output has no such property");
                continue;
            };
            let of = Schema { schema, ..of };
            self.template(field, additions, of, &at);
            if *field == Template::Insert(Insert::Children) {
                self.children(fields, additions, of, &at);
            }
        }
        for required in of.schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            let has = |(name, _): &(String, Template)| {
                serde_json::from_str::<String>(name).ok().as_deref() == Some(required)
            };
            if !fields.iter().any(has) {
                self.offences.add(at, format!("it lacks {required}, which the lexicon requires"));
            }
        }
    }

    /// Compares the form of a tree's record with the elements of its children.
    fn children(&mut self, node: &[(String, Template)], additions: &[Addition], of: Schema<'a>, at: &str) {
        let Some(of) = self.resolved(of) else { return };
        if of.schema["type"] == "array"
            && let Some(items) = self.resolved(Schema { schema: &of.schema["items"], ..of })
        {
            self.object(node, additions, items, &format!("{at}[]"));
        }
    }

    /// The variant of a union that the `$type` of an object names.
    fn variant(&mut self, fields: &[(String, Template)], of: Schema<'a>, at: &str) -> Option<Schema<'a>> {
        let named = fields.iter().find_map(|(name, field)| match field {
            Template::Constant(text) if name == "\"$type\"" => serde_json::from_str::<String>(text).ok(),
            _ => None,
        });
        let Some(named) = named else {
            self.offences.add(at, "the lexicon declares a union: add a $type that names one of its variants");
            return None;
        };
        let full = |reference: &str| {
            let lexicon = if reference.starts_with('#') { of.lexicon } else { "" };
            let full = format!("{lexicon}{reference}");
            full.strip_suffix("#main").map_or(full.clone(), str::to_owned)
        };
        let mut variants = of.schema["refs"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let variant = variants.find(|variant| full(variant) == full(&named));
        if let Some(variant) = variant {
            return self.resolved_reference(variant, of.lexicon);
        }
        if of.schema["closed"] == true {
            self.offences.add(at, format!("{named} is not a variant of the union"));
        }
        None
    }

    /// The schema behind references; `None` for one that is not here.
    fn resolved(&self, of: Schema<'a>) -> Option<Schema<'a>> {
        match of.schema["type"].as_str() {
            Some("ref") => self.resolved_reference(of.schema["ref"].as_str()?, of.lexicon),
            _ => Some(of),
        }
    }

    fn resolved_reference(&self, reference: &'a str, lexicon: &'a str) -> Option<Schema<'a>> {
        let mut of = (reference, lexicon);
        for _ in 0..MAX_REFERENCES {
            let (reference, lexicon) = of;
            let (target, name) = reference.split_once('#').unwrap_or((reference, "main"));
            let target = if target.is_empty() { lexicon } else { target };
            let schema = self.documents.get(target)?.get("defs")?.get(name)?;
            match schema["type"].as_str()? {
                "ref" => of = (schema["ref"].as_str()?, target),
                // The properties of a record stand below.
                "record" => return Some(Schema { schema: &schema["record"], lexicon: target }),
                _ => return Some(Schema { schema, lexicon: target }),
            }
        }
        None
    }
}

fn with_article(kind: &str) -> String {
    match kind {
        "object" | "array" | "integer" => format!("an {kind}"),
        "null" => kind.to_owned(),
        kind => format!("a {kind}"),
    }
}
