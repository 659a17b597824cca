//! Warnings for an operator about an accepted document that says less than its author may think. Such documents are in
//! use on the network, so they are not refused.

use serde_json::Value;

use super::LexiconError;
use super::format::Format;
use super::node::Node;

/// More warnings are only counted.
const MAX_WARNINGS: usize = 20;

/// Warnings about a document that [`super::LexiconDoc::parse`] accepts, with the path in the document.
pub fn warnings(document: &Value) -> Vec<String> {
    let root = Node::root(document);
    let mut warnings = Warnings { document, found: Vec::new(), left_out: 0 };
    if let Some(definitions) = root.get("defs") {
        for (name, value) in definitions.value.as_object().into_iter().flatten() {
            let node = definitions.child(name, value);
            warnings.definition(&node);
            warnings.inside(&node);
        }
    }
    if warnings.left_out > 0 {
        warnings.found.push(format!("{} more warnings are left out", warnings.left_out));
    }
    warnings.found
}

struct Warnings<'a> {
    document: &'a Value,
    found: Vec<String>,
    left_out: usize,
}

impl Warnings<'_> {
    fn add(&mut self, node: &Node<'_>, reason: String) {
        if self.found.len() < MAX_WARNINGS {
            let LexiconError { path, reason } = node.fail(reason);
            self.found.push(format!("{path}: {reason}"));
        } else {
            self.left_out += 1;
        }
    }

    /// The types that named definitions have (specs/lexicon, Lexicon Files).
    fn definition(&mut self, node: &Node<'_>) {
        match kind(node.value) {
            "record" | "query" | "procedure" | "subscription" | "permission-set" | "space" | "boolean" | "integer"
            | "string" | "bytes" | "cid-link" | "blob" | "array" | "object" | "token" => {}
            other @ ("union" | "ref" | "unknown" | "null") => self.add(
                node,
                format!(
                    "the specification has no named definitions of type {other}: they work here, but other software may \
                     refuse the lexicon"
                ),
            ),
            other => self.add(node, format!("{other:?} is no type of values that is known here: they are not validated")),
        }
    }

    /// The schemas in a definition, and the definition itself.
    fn inside(&mut self, node: &Node<'_>) {
        match (kind(node.value), node.value) {
            ("string", _) => self.format(node),
            ("blob", _) => self.accept(node),
            ("ref", _) => {
                if let Some(target) = node.get("ref") {
                    self.reference(&target);
                }
            }
            ("union", _) => self.union(node),
            _ => {}
        }
        match node.value {
            Value::Object(members) => {
                for (name, value) in members {
                    self.inside(&node.child(name, value));
                }
            }
            Value::Array(_) => node.items().into_iter().flatten().for_each(|item| self.inside(&item)),
            _ => {}
        }
    }

    fn format(&mut self, node: &Node<'_>) {
        if let Some(format) = node.get("format")
            && let Some(name) = format.value.as_str()
            && Format::from_name(name).is_none()
        {
            self.add(&format, format!("the format {name:?} is not known here: it is not checked"));
        }
    }

    fn accept(&mut self, node: &Node<'_>) {
        let Some(accept) = node.get("accept") else { return };
        for pattern in accept.items().into_iter().flatten() {
            let text = pattern.value.as_str().unwrap_or_default();
            let is_partial = text != "*/*" && text.strip_suffix("/*").unwrap_or(text).contains('*');
            if is_partial {
                let reason = format!("{text:?} matches no MIME type: patterns are type/*, or */*");
                self.add(&pattern, reason);
            }
        }
    }

    fn union(&mut self, node: &Node<'_>) {
        let Some(refs) = node.get("refs") else { return };
        if refs.value.as_array().is_some_and(Vec::is_empty)
            && node.value.get("closed") == Some(&Value::Bool(true))
        {
            self.add(node, "no value matches a closed union without refs".to_owned());
        }
        for target in refs.items().into_iter().flatten() {
            match self.local(&target) {
                Local::Kind(other) if !matches!(other, "object" | "record") => {
                    self.add(
                        &target,
                        format!("it is a definition of type {other}: a union has objects and records only"),
                    );
                }
                Local::Missing => self.missing(&target),
                Local::Kind(_) | Local::Elsewhere => {}
            }
        }
    }

    fn reference(&mut self, target: &Node<'_>) {
        match self.local(target) {
            Local::Kind("token") => self.add(
                target,
                "it is a token: the only value is its full name. Say knownValues or enum instead".to_owned(),
            ),
            Local::Kind(other @ ("query" | "procedure" | "subscription" | "permission-set" | "space")) => {
                self.add(
                    target,
                    format!("it is a {other}, which says nothing of values: they are not validated"),
                );
            }
            Local::Missing => self.missing(target),
            Local::Kind(_) | Local::Elsewhere => {}
        }
    }

    fn missing(&mut self, target: &Node<'_>) {
        let text = target.value.as_str().unwrap_or_default();
        self.add(target, format!("{text:?} is not defined in this lexicon: its values are not validated"));
    }

    /// The definition in this document that a reference names.
    fn local(&self, target: &Node<'_>) -> Local<'_> {
        let text = target.value.as_str().unwrap_or_default();
        let (nsid, name) = text.split_once('#').unwrap_or((text, "main"));
        if !nsid.is_empty() && self.document["id"] != nsid {
            return Local::Elsewhere;
        }
        self.document["defs"].get(name).map_or(Local::Missing, |found| Local::Kind(kind(found)))
    }
}

enum Local<'a> {
    /// A definition of this type.
    Kind(&'a str),
    Missing,
    /// In another document.
    Elsewhere,
}

fn kind(schema: &Value) -> &str {
    schema.get("type").and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use belvedere_standins::vectors;
    use serde_json::json;

    use super::super::LexiconDoc;
    use super::*;

    fn of(defs: Value) -> Vec<String> {
        let document = json!({ "lexicon": 1, "id": "com.example.note", "defs": defs });
        LexiconDoc::parse(&document).unwrap();
        warnings(&document)
    }

    #[test]
    fn names_what_says_less_than_it_seems() {
        let record = |schema: Value| {
            json!({ "main": { "type": "record", "record": { "type": "object", "properties": { "a": schema } } },
                "part": { "type": "object" }, "token": { "type": "token" } })
        };
        let at = "defs.main.record.properties.a";
        for (schema, warning) in [
            (
                json!({ "type": "string", "format": "dattime" }),
                "format: the format \"dattime\" is not known here",
            ),
            (json!({ "type": "ref", "ref": "#prat" }), "ref: \"#prat\" is not defined in this lexicon"),
            (
                json!({ "type": "ref", "ref": "com.example.note#prat" }),
                "ref: \"com.example.note#prat\" is not",
            ),
            (json!({ "type": "ref", "ref": "#token" }), "ref: it is a token"),
            (json!({ "type": "union", "refs": ["#part", "#prat"] }), "refs[1]: \"#prat\" is not defined"),
            (json!({ "type": "union", "refs": ["#token"] }), "refs[0]: it is a definition of type token"),
            (
                json!({ "type": "blob", "accept": ["a/*", "b/c*"] }),
                "accept[1]: \"b/c*\" matches no MIME type",
            ),
        ] {
            let found = of(record(schema.clone()));
            assert_eq!(found.len(), 1, "{schema} {found:?}");
            assert!(found[0].starts_with(&format!("{at}.{warning}")), "{found:?}");
        }
        let empty = of(record(json!({ "type": "union", "refs": [], "closed": true })));
        assert_eq!(empty, [format!("{at}: no value matches a closed union without refs")]);
        let named = of(
            json!({ "either": { "type": "union", "refs": ["com.example.other"] }, "later": { "type": "x" } }),
        );
        assert!(
            named[0].starts_with("defs.either: the specification has no named definitions of type union")
        );
        assert!(named[1].starts_with("defs.later: \"x\" is no type of values that is known here"));
    }

    #[test]
    fn a_property_may_be_called_like_a_keyword_and_other_documents_are_not_judged() {
        let properties = json!({ "type": { "type": "string" }, "format": { "type": "string", "format": "uri" },
            "ref": { "type": "ref", "ref": "com.example.elsewhere#x" }, "self": { "type": "ref", "ref": "#main" } });
        assert_eq!(
            of(json!({ "main": { "type": "object", "properties": properties } })),
            Vec::<String>::new()
        );
    }

    #[test]
    fn many_warnings_are_counted() {
        let property = |n: usize| (format!("p{n}"), json!({ "type": "string", "format": "x" }));
        let properties: serde_json::Map<_, _> = (0..50).map(property).collect();
        let found = of(json!({ "main": { "type": "object", "properties": properties } }));
        assert_eq!(found.len(), MAX_WARNINGS + 1);
        assert_eq!(found.last().unwrap(), "30 more warnings are left out");
    }

    #[test]
    fn real_lexicons_have_few() {
        let Some(documents) = vectors::lexicons() else { return };
        let warned: Vec<_> = documents.iter().filter(|document| !warnings(document).is_empty()).collect();
        assert!(warned.len() * 50 < documents.len(), "{} of {}", warned.len(), documents.len());
    }
}
