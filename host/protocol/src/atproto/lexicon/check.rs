//! Checks the definitions of a lexicon document.

use serde_json::Value;

use super::node::Node;
use super::{KeyType, LexiconError, MAX_SPACE_NAME};
use crate::atproto::Nsid;

type CheckResult = Result<(), LexiconError>;

/// Maximum depth of nested schemas within one definition: twice that of a record, because `items` and `properties` are
/// separate levels. Protects the recursion here and in every later walk from a stack overflow.
const MAX_DEPTH: usize = 128;

/// One entry of `defs`.
pub(super) fn definition(node: &Node<'_>, name: &str) -> CheckResult {
    node.object()?;
    let kind = node.require("type")?;
    let text = kind.string()?;
    if name != "main" && matches!(text, "record" | "query" | "procedure" | "subscription") {
        return Err(kind.fail(format!("a {text} must be the main definition")));
    }
    match text {
        "record" => record(node),
        "query" => method(node, &["output"]),
        "procedure" => method(node, &["input", "output"]),
        "subscription" => subscription(node),
        "space" if name == "main" => space(node),
        // Definitions of other types belong to later versions of the protocol, or are checked where they are used.
        _ if is_field_type(text) => field(node, 0),
        _ => Ok(()),
    }
}

fn record(node: &Node<'_>) -> CheckResult {
    optional_string(node, "description")?;
    if let Some(key) = node.get("key")
        && KeyType::parse(key.string()?).is_none()
    {
        return Err(key.fail("must be tid, nsid, any or literal:<record key>"));
    }
    let record = node.require("record")?;
    record.object()?;
    let kind = record.require("type")?;
    if kind.string()? != "object" {
        return Err(kind.fail("must be object"));
    }
    object(&record, 0)
}

fn method(node: &Node<'_>, bodies: &[&str]) -> CheckResult {
    optional_string(node, "description")?;
    if let Some(params) = node.get("parameters") {
        parameters(&params)?;
    }
    for name in bodies {
        let Some(body) = node.get(name) else { continue };
        body.object()?;
        optional_string(&body, "description")?;
        body.require("encoding")?.string()?;
        if let Some(schema) = body.get("schema") {
            field(&schema, 0)?;
        }
    }
    if let Some(errors) = node.get("errors") {
        for error in errors.items()? {
            error.object()?;
            error.require("name")?.string()?;
        }
    }
    Ok(())
}

/// A method whose message is a union, and whose optional `subprotocol` is the token of one (proposal 0015).
fn subscription(node: &Node<'_>) -> CheckResult {
    method(node, &[])?;
    optional_string(node, "subprotocol")?;
    let Some(message) = node.get("message") else { return Ok(()) };
    message.object()?;
    optional_string(&message, "description")?;
    let Some(schema) = message.get("schema") else { return Ok(()) };
    schema.object()?;
    let kind = schema.require("type")?;
    if kind.string()? != "union" {
        return Err(kind.fail("the message of a subscription is a union"));
    }
    field(&schema, 0)
}

/// Query parameters: scalars and arrays of scalars.
fn parameters(node: &Node<'_>) -> CheckResult {
    node.object()?;
    if let Some(kind) = node.get("type")
        && kind.string()? != "params"
    {
        return Err(kind.fail("must be params"));
    }
    object(node, 0)?;
    let Some(properties) = node.get("properties") else { return Ok(()) };
    for (name, value) in properties.object()? {
        let property = properties.child(name, value);
        let items = property.get("items").filter(|_| value["type"] == "array");
        let scalar = items.as_ref().unwrap_or(&property);
        let kind = scalar.require("type")?;
        if !matches!(kind.string()?, "boolean" | "integer" | "string" | "unknown") {
            return Err(
                kind.fail("a parameter is a boolean, integer, string or unknown, or an array of one of them")
            );
        }
    }
    Ok(())
}

fn space(node: &Node<'_>) -> CheckResult {
    node.require("key")?.string()?;
    let name = node.require("name")?;
    if !(1..=MAX_SPACE_NAME).contains(&name.string()?.chars().count()) {
        return Err(name.fail("must have 1 to 64 characters"));
    }
    strings(&node.require("collections")?)
}

fn is_field_type(text: &str) -> bool {
    matches!(
        text,
        "null"
            | "boolean"
            | "integer"
            | "string"
            | "bytes"
            | "cid-link"
            | "blob"
            | "array"
            | "object"
            | "ref"
            | "union"
            | "unknown"
            | "token"
    )
}

/// The schema of one value.
fn field(node: &Node<'_>, depth: usize) -> CheckResult {
    if depth > MAX_DEPTH {
        return Err(node.fail("nests too deep"));
    }
    node.object()?;
    optional_string(node, "description")?;
    let kind = node.require("type")?;
    match kind.string()? {
        "boolean" => {
            optional(node, "default", Value::is_boolean, "must be a boolean")?;
            optional(node, "const", Value::is_boolean, "must be a boolean")
        }
        "integer" => {
            for name in ["default", "const", "minimum", "maximum"] {
                optional(node, name, Value::is_i64, "must be an integer")?;
            }
            each(node, "enum", Value::is_i64, "must be an integer")?;
            ordered(node, "minimum", "maximum")
        }
        "string" => string(node),
        "bytes" => lengths(node, "minLength", "maxLength"),
        "blob" => {
            each(node, "accept", Value::is_string, "must be a string")?;
            optional(node, "maxSize", is_count, "must be a number of bytes, 0 or more")
        }
        "array" => {
            lengths(node, "minLength", "maxLength")?;
            field(&node.require("items")?, depth + 1)
        }
        "object" => object(node, depth),
        "ref" => reference(&node.require("ref")?),
        "union" => {
            optional(node, "closed", Value::is_boolean, "must be a boolean")?;
            let refs = node.require("refs")?;
            refs.items()?.try_for_each(|r| reference(&r))
        }
        "null" | "cid-link" | "unknown" | "token" => Ok(()),
        other => Err(kind.fail(format!("{other:?} is not a type of the lexicon language"))),
    }
}

fn string(node: &Node<'_>) -> CheckResult {
    for name in ["default", "const", "format"] {
        optional_string(node, name)?;
    }
    for name in ["enum", "knownValues"] {
        each(node, name, Value::is_string, "must be a string")?;
    }
    lengths(node, "minLength", "maxLength")?;
    lengths(node, "minGraphemes", "maxGraphemes")
}

/// `properties`, `required` and `nullable` of an object or of parameters.
fn object(node: &Node<'_>, depth: usize) -> CheckResult {
    optional_string(node, "description")?;
    let properties = node.get("properties");
    if let Some(properties) = &properties {
        for (name, value) in properties.object()? {
            field(&properties.child(name, value), depth + 1)?;
        }
    }
    if let Some(required) = node.get("required") {
        for name in required.items()? {
            let text = name.string()?;
            if properties.as_ref().is_none_or(|p| p.value.get(text).is_none()) {
                return Err(name.fail(format!("{text:?} is not among the properties")));
            }
        }
    }
    node.get("nullable").map_or(Ok(()), |nullable| strings(&nullable))
}

/// `#name`, an NSID, or `nsid#name`.
fn reference(node: &Node<'_>) -> CheckResult {
    let text = node.string()?;
    let (nsid, name) = text.split_once('#').map_or((text, None), |(nsid, name)| (nsid, Some(name)));
    let named = name.is_none_or(|n| !n.is_empty() && !n.contains('#'));
    let whole = if nsid.is_empty() { name.is_some() } else { Nsid::try_from(nsid).is_ok() };
    if named && whole { Ok(()) } else { Err(node.fail("must be #name, an NSID, or an NSID with #name")) }
}

fn strings(node: &Node<'_>) -> CheckResult {
    node.items()?.try_for_each(|item| item.string().map(drop))
}

pub(super) fn optional_string(node: &Node<'_>, name: &str) -> CheckResult {
    optional(node, name, Value::is_string, "must be a string")
}

/// Checks that the field, if present, satisfies `test`.
fn optional(node: &Node<'_>, name: &str, test: impl Fn(&Value) -> bool, reason: &str) -> CheckResult {
    match node.get(name) {
        Some(value) if !test(value.value) => Err(value.fail(reason)),
        _ => Ok(()),
    }
}

/// Checks that the array, if present, has only items that satisfy `test`.
fn each(node: &Node<'_>, name: &str, test: impl Fn(&Value) -> bool, reason: &str) -> CheckResult {
    let Some(array) = node.get(name) else { return Ok(()) };
    match array.items()?.find(|item| !test(item.value)) {
        Some(item) => Err(item.fail(reason)),
        None => Ok(()),
    }
}

fn is_count(value: &Value) -> bool {
    value.is_u64()
}

fn lengths(node: &Node<'_>, low: &str, high: &str) -> CheckResult {
    for name in [low, high] {
        optional(node, name, is_count, "must be an integer, 0 or more")?;
    }
    ordered(node, low, high)
}

fn ordered(node: &Node<'_>, low: &str, high: &str) -> CheckResult {
    let number = |name| node.value.get(name).and_then(Value::as_i64);
    match (number(low), number(high)) {
        (Some(a), Some(b)) if a > b => Err(node.fail(format!("{low} is above {high}"))),
        _ => Ok(()),
    }
}
