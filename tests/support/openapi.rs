//! Compares every answer that a test receives with the description of the API, so that neither can change
//! without the other.

use std::sync::LazyLock;

use http::Method;
use serde_json::{Map, Value};

use super::instance::Answer;

static DESCRIPTION: LazyLock<Value> = LazyLock::new(|| {
    serde_json::from_str(include_str!("../../dashboard/openapi.json")).expect("the description is JSON")
});

/// The paths that are described. The others are not for the dashboard.
const DESCRIBED: [&str; 4] = ["/admin/", "/auth/", "/external-auth/", "/api/setup/"];

/// Panics when the answer is not one that the description has. A path may be none of the routes: that is an error.
pub fn check(method: &Method, path_and_query: &str, answer: &Answer) {
    let path = path_and_query.split('?').next().unwrap_or_default();
    let is_described = DESCRIBED.iter().any(|prefix| path.starts_with(prefix)) || path == "/config";
    if !is_described || [Method::HEAD, Method::OPTIONS].contains(method) {
        return;
    }
    let named = format!("{method} {path} {}", answer.status.as_u16());
    let is_error = answer.status.is_client_error() || answer.status.is_server_error();
    let operation = match operation(method, path) {
        None if is_error => return,
        found => found.unwrap_or_else(|| panic!("{named} is not described")),
    };
    let status = if is_error { "default" } else { answer.status.as_str() };
    let described = resolved(&operation["responses"][status]);
    assert!(described.is_object(), "{named}: this status is not described");
    let Some(content) = described["content"].as_object() else {
        assert!(answer.text.is_empty(), "{named}: a body that is not described: {}", answer.text);
        return;
    };
    let kind = answer.headers.get("content-type").and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default();
    let range = kind.split('/').next().map(|kind| format!("{kind}/*")).unwrap_or_default();
    let media = content
        .get(kind)
        .or_else(|| content.get(&range))
        .unwrap_or_else(|| panic!("{named}: {kind} is not described"));
    if kind == "application/json" {
        let mut problems = Vec::new();
        compare(&media["schema"], &answer.body, "", &mut problems);
        assert!(
            problems.is_empty(),
            "{named} is not as described (dashboard/openapi.json): {problems:#?}\n{}",
            answer.text
        );
    }
}

/// The value that a reference names, or the value itself.
fn resolved(value: &'static Value) -> &'static Value {
    let path = value["$ref"].as_str().and_then(|reference| reference.strip_prefix('#'));
    path.and_then(|path| DESCRIPTION.pointer(path)).unwrap_or(value)
}

/// Every operation that needs permissions: method, path with its parameters filled in, and the permissions.
pub fn operations_with_permissions() -> Vec<(Method, String, Vec<&'static str>)> {
    let paths = DESCRIPTION["paths"].as_object().expect("the description has paths");
    let mut found = Vec::new();
    for (path, methods) in paths {
        let filled: Vec<&str> =
            path.split('/').map(|part| if part.starts_with('{') { "x" } else { part }).collect();
        for (method, operation) in methods.as_object().expect("a path has methods") {
            let Some(needed) = operation["x-permissions"].as_array() else { continue };
            let method = method.to_uppercase().parse().expect("a method");
            found.push((method, filled.join("/"), needed.iter().filter_map(Value::as_str).collect()));
        }
    }
    found
}

/// The operation of the pattern with the most literal parts.
fn operation(method: &Method, path: &str) -> Option<&'static Value> {
    let parts: Vec<&str> = path.split('/').collect();
    let literals = |pattern: &str| {
        let pattern: Vec<&str> = pattern.split('/').collect();
        let fits = pattern.len() == parts.len()
            && pattern.iter().zip(&parts).all(|(pattern, part)| pattern.starts_with('{') || pattern == part);
        fits.then(|| pattern.iter().filter(|part| !part.starts_with('{')).count())
    };
    let paths = DESCRIPTION["paths"].as_object()?;
    let found = paths.iter().filter_map(|(pattern, methods)| Some((literals(pattern)?, methods)));
    found.max_by_key(|(literals, _)| *literals)?.1.get(method.as_str().to_lowercase())
}

/// Adds what is wrong with a value, and where. Knows the part of JSON Schema that the description uses.
fn compare(schema: &'static Value, value: &Value, at: &str, problems: &mut Vec<String>) {
    let schema = resolved(schema);
    if let Some(kinds) = schema["anyOf"].as_array().or(schema["oneOf"].as_array()) {
        let fits = |kind: &'static Value| {
            let mut problems = Vec::new();
            compare(kind, value, at, &mut problems);
            problems.is_empty()
        };
        if !kinds.iter().any(fits) {
            problems.push(format!("{at}: {value} is none of {}", Value::from(kinds.clone())));
        }
        return;
    }
    let is_of = |kind: &Value| match kind.as_str().unwrap_or_default() {
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("{other} is not used by the description"),
    };
    let fits = match &schema["type"] {
        Value::Null => true,
        Value::Array(kinds) => kinds.iter().any(is_of),
        kind => is_of(kind),
    };
    let listed = schema["enum"].as_array().map(Vec::as_slice);
    let listed = listed.or(schema.get("const").map(std::slice::from_ref));
    let is_listed = listed.is_none_or(|values| values.contains(value));
    if !fits || !is_listed {
        problems.push(format!("{at}: {value} is not {schema}"));
        return;
    }
    for (index, item) in value.as_array().into_iter().flatten().enumerate() {
        compare(&schema["items"], item, &format!("{at}/{index}"), problems);
    }
    if let Some(fields) = value.as_object() {
        compare_fields(schema, fields, at, problems);
    }
}

fn compare_fields(schema: &'static Value, fields: &Map<String, Value>, at: &str, problems: &mut Vec<String>) {
    for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if !fields.contains_key(name) {
            problems.push(format!("{at}: {name} is missing"));
        }
    }
    for (name, value) in fields {
        let at = format!("{at}/{name}");
        match (&schema["properties"][name], &schema["additionalProperties"]) {
            (Value::Null, Value::Null) => {}
            (Value::Null, Value::Bool(false)) => problems.push(format!("{at} is not described")),
            (Value::Null, others) => compare(others, value, &at, problems),
            (described, _) => compare(described, value, &at, problems),
        }
    }
}

#[test]
fn differences_are_found() {
    let answer = |status: u16, text: &str| Answer {
        status: http::StatusCode::from_u16(status).expect("a status"),
        headers: [(http::header::CONTENT_TYPE, http::HeaderValue::from_static("application/json"))]
            .into_iter()
            .collect(),
        body: serde_json::from_str(text).unwrap_or_default(),
        text: text.to_owned(),
    };
    let holds = |path: &str, status, text: &str| {
        let answer = answer(status, text);
        std::panic::catch_unwind(|| check(&Method::GET, path, &answer)).is_ok()
    };
    assert!(holds("/admin/events/count?severity=info", 200, r#"{"count":1}"#));
    assert!(holds("/admin/events/count", 400, r#"{"error":"why","anything":1}"#));
    assert!(holds("/admin/no-such-path", 404, "{}"));
    assert!(holds("/health", 200, r#"{"anything":1}"#));
    for (path, status, text) in [
        ("/admin/events/count", 200, r#"{"count":"1"}"#),
        ("/admin/events/count", 200, r#"{"count":1.5}"#),
        ("/admin/events/count", 200, r#"{"count":1,"more":1}"#),
        ("/admin/events/count", 200, "{}"),
        ("/admin/events/count", 201, r#"{"count":1}"#),
        ("/admin/events/count", 400, r#"{"anything":1}"#),
        ("/admin/no-such-path", 200, "{}"),
        ("/admin/events", 200, r#"{"events":[{"id":"a"}]}"#),
        ("/admin/settings", 200, r#"[{"key":"a","value":"b","source":"elsewhere"}]"#),
    ] {
        assert!(!holds(path, status, text), "{path} {text}");
    }
}
