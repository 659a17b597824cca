//! Makes the OpenAPI document of the route table: permissions from its lines, and the rest from the types and the comments
//! of the handlers.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::comments::Comments;
use super::schemas::Schemas;
use crate::api::route::Route;

/// The paths that are described. The others are not for the dashboard.
const DESCRIBED: [&str; 4] = ["/admin/", "/auth/", "/external-auth/", "/api/setup/"];

fn is_described(route: &Route) -> bool {
    let path = route.path();
    DESCRIBED.iter().any(|prefix| path.starts_with(prefix)) || path == "/config"
}

/// The document. Panics when a route has no types or no comment.
pub(super) fn document(routes: &[Route], comments: &Comments) -> Value {
    let mut schemas = Schemas::new();
    let mut paths: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
    for route in routes.iter().filter(|route| is_described(route)) {
        let described = operation(&mut schemas, route, comments);
        paths.entry(route.path()).or_default().insert(route.method().as_str().to_lowercase(), described);
    }
    let mut declared = schemas.named();
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
                "content": { "application/json": { "schema": { "$ref": "#/components/schemas/Error" } } }
            }, "Page": {
                "description": "The same as a page for people, unless the client asks for JSON and not for HTML.",
                "content": {
                    "text/html": { "schema": { "type": "string" } },
                    "application/json": { "schema": { "$ref": "#/components/schemas/Error" } }
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

fn operation(schemas: &mut Schemas, route: &Route, comments: &Comments) -> Value {
    let (method, path) = (route.method().as_str(), route.path());
    let said = comments.get(&(path.to_owned(), method.to_owned()));
    let (summary, more) = said.unwrap_or_else(|| panic!("no comment begins with `{method} {path}`: "));
    let answers = schemas.answers(&route.types);
    assert!(
        !answers.is_empty(),
        "the handler of {method} {path} returns a type that says nothing of its answer"
    );
    // The errors of a page for people are pages too.
    let is_page =
        |content: &Option<Value>| content.as_ref().is_some_and(|content| content.get("text/html").is_some());
    let has_error_pages = answers.iter().any(|(status, content)| *status == 303 || is_page(content));
    let mut responses: Map<String, Value> = Map::new();
    for (status, content) in answers {
        let answer = responses.entry(status.to_string());
        let answer = answer.or_insert_with(|| json!({ "description": description(status) }));
        // A status may have bodies of several kinds.
        for (media, schema) in content.as_ref().and_then(Value::as_object).into_iter().flatten() {
            answer["content"][media] = schema.clone();
        }
    }
    let error = if has_error_pages { "Page" } else { "Error" };
    responses.insert("default".to_owned(), json!({ "$ref": format!("#/components/responses/{error}") }));
    let in_path = path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let in_path = in_path
        .map(|name| json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } }));
    let words = path.split(['/', '-', '{', '}', '.']).filter(|word| !word.is_empty());
    let id: Vec<&str> = words.collect();
    let mut described = json!({
        "summary": summary,
        "operationId": format!("{}_{}", method.to_lowercase(), id.join("_")),
        "parameters": in_path.chain(schemas.parameters(&route.types)).collect::<Vec<_>>(),
        "responses": responses,
        "security": security(route),
    });
    if let Some(more) = more {
        described["description"] = more.as_str().into();
    }
    if let Some(permissions) = route.permissions() {
        described["x-permissions"] = permissions.iter().map(|p| Value::from(p.as_str())).collect();
    }
    if let Some(body) = schemas.body(&route.types) {
        described["requestBody"] = json!({ "content": body });
    }
    described
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
