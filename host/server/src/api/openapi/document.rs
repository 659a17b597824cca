//! Makes the OpenAPI document of what the notation describes and of the route table.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::notation::{Api, Content, Field, Member, Operation, Type};
use crate::api::route::Route;

/// The document. Panics when a type is used that is not declared, or a route is missing.
pub(super) fn document(api: &Api, routes: &[Route]) -> Value {
    let types: BTreeMap<&str, &Type> = api.types.iter().map(|(name, kind)| (name.as_str(), kind)).collect();
    assert_eq!(types.len(), api.types.len(), "a type is declared twice");
    let schemas = Schemas { types: &types };
    let mut paths: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
    for operation in &api.operations {
        let route = routes
            .iter()
            .find(|route| route.path() == operation.path && route.method().as_str() == operation.method);
        let route = route.unwrap_or_else(|| panic!("{} {} is no route", operation.method, operation.path));
        let described = schemas.operation(operation, route);
        let twice =
            paths.entry(&operation.path).or_default().insert(operation.method.to_lowercase(), described);
        assert!(twice.is_none(), "{} {} is described twice", operation.method, operation.path);
    }
    let declared = types.iter().map(|(name, kind)| ((*name).to_owned(), schemas.of(kind)));
    let mut declared: Map<String, Value> = declared.collect();
    declared.insert(
        "Error".to_owned(),
        json!({
            "type": "object",
            "properties": {
                "error": { "type": "string" },
                "message": { "type": "string" },
                "correlationId": { "type": "string", "description": "Of an internal error: its cause is logged under it." }
            },
            "required": ["error"]
        }),
    );
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Belvedere: admin API",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "What operators and the dashboard use. Times are UTC."
        },
        "paths": paths,
        "components": {
            "schemas": declared,
            "responses": { "Error": {
                "description": "What was wrong, and what to do.",
                "content": { "application/json": { "schema": reference("Error") } }
            }, "Page": {
                "description": "The same as a page for people, unless the client asks for JSON and not for HTML.",
                "content": {
                    "text/html": { "schema": { "type": "string" } },
                    "application/json": { "schema": reference("Error") }
                }
            } },
            "securitySchemes": {
                "key": { "type": "http", "scheme": "bearer", "description": "An API key of an admin user." },
                "session": { "type": "apiKey", "in": "cookie", "name": "belvedere_session", "description": "A browser's login. Writes need the Origin header of one of the instance's pages." },
                "dpop": { "type": "http", "scheme": "dpop", "description": "A user's session at an application (docs/authentication.md)." }
            }
        }
    })
}

struct Schemas<'a> {
    types: &'a BTreeMap<&'a str, &'a Type>,
}

impl Schemas<'_> {
    fn operation(&self, operation: &Operation, route: &Route) -> Value {
        let in_path = operation.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
        let in_path = in_path.map(
            |name| json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } }),
        );
        let in_query = operation.query.iter().map(|field| self.parameter(field));
        let answers = operation.answers.iter().map(|(status, content)| {
            let mut answer = json!({ "description": description(*status) });
            if let Some(content) = content {
                answer["content"] = self.content(content);
            }
            (status.to_string(), answer)
        });
        let mut responses: Map<String, Value> = answers.collect();
        let error = if operation.has_error_pages { "Page" } else { "Error" };
        let error = format!("#/components/responses/{error}");
        responses.insert("default".to_owned(), json!({ "$ref": error }));
        let words = operation.path.split(['/', '-', '{', '}', '.']).filter(|word| !word.is_empty());
        let id: Vec<&str> = words.collect();
        let mut described = json!({
            "summary": operation.summary,
            "operationId": format!("{}_{}", operation.method.to_lowercase(), id.join("_")),
            "parameters": in_path.chain(in_query).collect::<Vec<_>>(),
            "responses": responses,
            "security": security(route),
        });
        if let Some(permissions) = route.permissions() {
            described["x-permissions"] = permissions.iter().map(|p| Value::from(p.as_str())).collect();
        }
        if let Some(body) = &operation.body {
            described["requestBody"] = json!({ "content": self.content(body) });
        }
        described
    }

    fn parameter(&self, field: &Field) -> Value {
        let mut parameter = json!({
            "name": field.name, "in": "query", "required": !field.is_optional, "schema": self.of(&field.kind)
        });
        if let Some(text) = &field.description {
            parameter["description"] = text.as_str().into();
        }
        parameter
    }

    fn content(&self, content: &Content) -> Value {
        match content {
            Content::Json(kind) => json!({ "application/json": { "schema": self.of(kind) } }),
            Content::Other(media) => json!({ media: { "schema": { "type": "string" } } }),
        }
    }

    fn of(&self, kind: &Type) -> Value {
        match kind {
            Type::Named(name) => basic(name).unwrap_or_else(|| {
                assert!(self.types.contains_key(name.as_str()), "there is no type {name}");
                reference(name)
            }),
            Type::Text(text) => json!({ "type": "string", "enum": [text] }),
            Type::List(kind) => json!({ "type": "array", "items": self.of(kind) }),
            Type::Map(kind) => json!({ "type": "object", "additionalProperties": self.of(kind) }),
            Type::Union(kinds) => self.union(kinds),
            Type::Object(members) => self.object(members),
        }
    }

    fn union(&self, kinds: &[Type]) -> Value {
        let mut texts: Vec<Value> = Vec::new();
        let mut others = Vec::new();
        let mut has_null = false;
        for kind in kinds {
            match kind {
                Type::Text(text) => texts.push(text.as_str().into()),
                Type::Named(name) if name == "null" => has_null = true,
                other => others.push(self.of(other)),
            }
        }
        if !texts.is_empty() {
            others.push(json!({ "type": "string", "enum": texts }));
        }
        if has_null {
            others.push(json!({ "type": "null" }));
        }
        if others.len() == 1 { others.remove(0) } else { json!({ "anyOf": others }) }
    }

    fn object(&self, members: &[Member]) -> Value {
        let (mut properties, mut required) = (Map::new(), Vec::new());
        for field in self.fields(members) {
            let mut schema = self.of(&field.kind);
            if let Some(text) = &field.description {
                schema["description"] = text.as_str().into();
            }
            if !field.is_optional {
                required.push(field.name.clone());
            }
            assert!(properties.insert(field.name.clone(), schema).is_none(), "{} is there twice", field.name);
        }
        json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
    }

    fn fields(&self, members: &[Member]) -> Vec<Field> {
        let fields = members.iter().flat_map(|member| match member {
            Member::Field(field) => vec![field.clone()],
            Member::FieldsOf(name) => match self.types.get(name.as_str()) {
                Some(Type::Object(members)) => self.fields(members),
                _ => panic!("{name} is no object"),
            },
        });
        fields.collect()
    }
}

fn basic(name: &str) -> Option<Value> {
    Some(match name {
        "string" => json!({ "type": "string" }),
        "int" => json!({ "type": "integer" }),
        "number" => json!({ "type": "number" }),
        "bool" => json!({ "type": "boolean" }),
        "null" => json!({ "type": "null" }),
        "any" => json!({}),
        "time" => json!({ "type": "string", "format": "date-time" }),
        "did" => json!({ "type": "string", "format": "did" }),
        "nsid" => json!({ "type": "string", "format": "nsid" }),
        "uri" => json!({ "type": "string", "format": "at-uri" }),
        _ => return None,
    })
}

fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

fn description(status: u16) -> &'static str {
    match status {
        200 => "Done.",
        201 => "Created.",
        202 => "Begun.",
        204 => "Done, without an answer.",
        303 => "A redirect.",
        _ => "Another answer.",
    }
}

fn security(route: &Route) -> Value {
    if route.permissions().is_some() {
        json!([{ "key": [] }, { "session": [] }])
    } else if route.limit().is_none() {
        json!([{ "dpop": [] }])
    } else {
        json!([{ "session": [] }, {}])
    }
}

/// Depth up to which objects have a line for each field: an operation and a type are one line each, so that a change of
/// one of them is a change of one line.
const DEPTH: usize = 3;

/// The text of the document.
pub(super) fn text(document: &Value) -> String {
    let mut text = String::new();
    write(document, 0, &mut text);
    text.push('\n');
    text
}

fn write(value: &Value, depth: usize, text: &mut String) {
    let fields = value.as_object().filter(|fields| depth < DEPTH && !fields.is_empty());
    let Some(fields) = fields else {
        text.push_str(&value.to_string());
        return;
    };
    let mut separator = "{\n";
    for (name, value) in fields {
        text.push_str(separator);
        text.push_str(&"  ".repeat(depth + 1));
        text.push_str(&Value::from(name.as_str()).to_string());
        text.push_str(": ");
        write(value, depth + 1, text);
        separator = ",\n";
    }
    text.push('\n');
    text.push_str(&"  ".repeat(depth));
    text.push('}');
}
