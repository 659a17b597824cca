//! Lexicons and records from a tape of bytes, which proptest shortens to the smallest failing case.

use serde_json::{Map, Value, json};

use super::model::{CID, Documents, TEXTS};

pub(super) const NOTE: &str = "com.example.note";
pub(super) const DEFS: &str = "com.example.defs";

/// The definitions of each generated document, besides `main`.
const NAMES: &[&str] = &["a", "b", "c", "d"];

/// Maximum depth of generated schemas and values.
const DEPTH: usize = 4;

/// Choices; an exhausted tape always takes the first.
#[derive(Debug)]
pub(super) struct Tape<'a>(pub(super) &'a [u8]);

impl Tape<'_> {
    fn below(&mut self, count: usize) -> usize {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        usize::from(*first) % count
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    fn is(&mut self, one_in: usize) -> bool {
        self.below(one_in) == one_in - 1
    }
}

/// A record lexicon and one of definitions, which refer to each other and to what is missing.
pub(super) fn documents(tape: &mut Tape<'_>) -> Documents {
    let mut note = json!({ "main": { "type": "record", "key": "any", "record": object(tape, DEPTH) } });
    let mut defs = json!({ "main": definition(tape) });
    for name in NAMES {
        note[name] = definition(tape);
        defs[name] = definition(tape);
    }
    let document = |id: &str, defs: Value| (id.to_owned(), json!({ "lexicon": 1, "id": id, "defs": defs }));
    [document(NOTE, note), document(DEFS, defs)].into()
}

fn definition(tape: &mut Tape<'_>) -> Value {
    match tape.below(10) {
        0 => json!({ "type": "token" }),
        1 => json!({ "type": "com.example.future" }),
        _ => schema(tape, DEPTH),
    }
}

fn schema(tape: &mut Tape<'_>, depth: usize) -> Value {
    let scalars = ["string", "integer", "boolean", "bytes", "cid-link", "blob", "unknown", "null", "token"];
    let nested = ["ref", "union", "object", "array"];
    let kind = if depth > 0 && tape.is(2) { tape.pick(&nested) } else { tape.pick(&scalars) };
    let mut schema = json!({ "type": kind });
    let mut limits = |low: &str, high: &str, tape: &mut Tape<'_>| {
        let min = tape.pick(&[0, 0, 0, 1, 3]);
        let max = min + tape.pick(&[30, 8, 2, 0]);
        schema[low] = min.into();
        schema[high] = max.into();
    };
    match kind {
        "string" => match tape.below(6) {
            0 => {}
            1 => limits("minLength", "maxLength", tape),
            2 => limits("minGraphemes", "maxGraphemes", tape),
            3 => schema["enum"] = json!([tape.pick(TEXTS).0, tape.pick(TEXTS).0]),
            4 => schema["const"] = tape.pick(TEXTS).0.into(),
            _ => schema["format"] = tape.pick(FORMATS).into(),
        },
        "integer" => match tape.below(4) {
            0 => {}
            1 => limits("minimum", "maximum", tape),
            2 => schema["enum"] = json!([tape.below(5), tape.below(5)]),
            _ => schema["const"] = tape.below(5).into(),
        },
        "boolean" if tape.is(2) => schema["const"] = tape.is(2).into(),
        "bytes" if tape.is(2) => limits("minLength", "maxLength", tape),
        "blob" if tape.is(2) => {
            schema["accept"] = tape.pick(&[&["*/*"][..], &["image/*", "text/plain"], &[]]).into();
            schema["maxSize"] = 1000.into();
        }
        "ref" => schema["ref"] = reference(tape).into(),
        "union" => {
            schema["refs"] = (0..tape.below(4)).map(|_| reference(tape)).collect::<Vec<_>>().into();
            schema["closed"] = tape.is(3).into();
        }
        "object" => schema = object(tape, depth - 1),
        "array" => {
            limits("minLength", "maxLength", tape);
            schema["items"] = self::schema(tape, depth - 1);
        }
        _ => {}
    }
    if matches!(kind, "string" | "integer" | "boolean") && tape.is(5) {
        let defaults = [("string", json!("a")), ("integer", json!(1)), ("boolean", json!(true))];
        schema["default"] = defaults.iter().find(|(of, _)| *of == kind).unwrap().1.clone();
    }
    schema
}

const FORMATS: &[&str] = &[
    "datetime",
    "uri",
    "did",
    "handle",
    "at-identifier",
    "at-uri",
    "nsid",
    "tid",
    "record-key",
    "language",
    "cid",
    "future",
];

fn object(tape: &mut Tape<'_>, depth: usize) -> Value {
    let count = tape.below(4);
    let properties: Map<String, Value> =
        NAMES.iter().take(count).map(|name| ((*name).to_owned(), schema(tape, depth))).collect();
    let mut some = || properties.keys().filter(|_| tape.is(3)).cloned().collect::<Vec<_>>();
    let (required, nullable) = (some(), some());
    json!({ "type": "object", "properties": properties, "required": required, "nullable": nullable })
}

fn reference(tape: &mut Tape<'_>) -> String {
    let name = tape.pick(&["a", "b", "c", "d", "main", "missing"]);
    match tape.below(4) {
        0 => format!("#{name}"),
        1 if name == "main" => DEFS.to_owned(),
        1 | 2 => format!("{DEFS}#{name}"),
        _ => tape.pick(&["com.example.note", "com.example.missing", "com.example.missing#a"]).to_owned(),
    }
}

/// A record that is often valid.
pub(super) fn record(tape: &mut Tape<'_>, documents: &Documents, collection: &str) -> Value {
    let schema = &documents[collection]["defs"]["main"]["record"];
    let mut record = of_object(tape, documents, (collection, schema), 0);
    if !tape.is(30) {
        record["$type"] = collection.into();
    }
    record
}

/// A value that often matches the schema.
fn value(tape: &mut Tape<'_>, documents: &Documents, (nsid, schema): (&str, &Value), depth: usize) -> Value {
    if depth > 2 * DEPTH || tape.is(16) {
        return junk(tape);
    }
    match schema["type"].as_str().unwrap() {
        "null" => Value::Null,
        "boolean" => schema.get("const").cloned().unwrap_or_else(|| tape.is(2).into()),
        "integer" => match (schema.get("enum"), schema.get("const")) {
            (Some(list), _) => list[0].clone(),
            (_, Some(constant)) => constant.clone(),
            _ => (schema["minimum"].as_i64().unwrap_or(-1) + tape.below(9) as i64).into(),
        },
        "string" => match (schema.get("enum"), schema.get("const"), schema["format"].as_str()) {
            (Some(list), ..) => list[0].clone(),
            (_, Some(constant), _) => constant.clone(),
            (.., Some(format)) if !tape.is(4) => {
                let fits = TEXTS.iter().find(|(_, formats)| formats.contains(&format));
                fits.map_or("a", |(text, _)| text).into()
            }
            _ => tape.pick(TEXTS).0.into(),
        },
        "bytes" => json!({ "$bytes": tape.pick(&["AAAA", "", "AAAAAAAA"]) }),
        "cid-link" => json!({ "$link": CID }),
        "blob" => blob(tape),
        "array" => {
            let count = tape.below(4);
            (0..count).map(|_| value(tape, documents, (nsid, &schema["items"]), depth + 1)).collect()
        }
        "object" => of_object(tape, documents, (nsid, schema), depth),
        "record" => of_object(tape, documents, (nsid, &schema["record"]), depth),
        "ref" => of_definition(tape, documents, (nsid, schema["ref"].as_str().unwrap()), depth),
        "union" => {
            let refs: Vec<&str> =
                schema["refs"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
            if refs.is_empty() || tape.is(4) {
                let kind = tape.pick(&[
                    "com.example.else",
                    "#a",
                    "com.example.defs#a#b",
                    "com.example.defs#main",
                    "",
                ]);
                return json!({ "$type": if kind.is_empty() { "blob2" } else { kind }, "a": 1 });
            }
            let target = tape.pick(&refs);
            let mut value = of_definition(tape, documents, (nsid, target), depth);
            if !value.is_object() || value.get("$link").is_some() || value.get("$bytes").is_some() {
                value = json!({});
            }
            let target = target.strip_suffix("#main").unwrap_or(target);
            let kind = if target.starts_with('#') { format!("{nsid}{target}") } else { target.to_owned() };
            value["$type"] = if kind.is_empty() { nsid.into() } else { kind.into() };
            value
        }
        "unknown" => json!({ "x": [1] }),
        _ => junk(tape),
    }
}

fn of_definition(
    tape: &mut Tape<'_>,
    documents: &Documents,
    (nsid, target): (&str, &str),
    depth: usize,
) -> Value {
    let (of, name) = target.split_once('#').unwrap_or((target, "main"));
    let of = if of.is_empty() { nsid } else { of };
    match documents.get(of).and_then(|document| document["defs"].get(name)) {
        Some(token) if token["type"] == "token" => format!("{of}#{name}").into(),
        Some(schema) => value(tape, documents, (of, schema), depth + 1),
        None => junk(tape),
    }
}

fn of_object(
    tape: &mut Tape<'_>,
    documents: &Documents,
    (nsid, schema): (&str, &Value),
    depth: usize,
) -> Value {
    let mut members = Map::new();
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let is_required =
            schema["required"].as_array().is_some_and(|names| names.contains(&name.as_str().into()));
        if tape.is(if is_required { 20 } else { 4 }) {
            continue;
        }
        let value =
            if tape.is(20) { Value::Null } else { value(tape, documents, (nsid, property), depth + 1) };
        members.insert(name.clone(), value);
    }
    if tape.is(6) {
        members.insert("other".to_owned(), junk(tape));
    }
    Value::Object(members)
}

fn blob(tape: &mut Tape<'_>) -> Value {
    let kind = tape.pick(&["image/png", "text/plain", "video/mp4", ""]);
    let whole = json!({ "$type": "blob", "ref": { "$link": CID }, "mimeType": kind, "size": tape.pick(&[5, 1000, 1001]) });
    match tape.below(6) {
        0 => json!({ "cid": CID, "mimeType": kind }),
        1 => json!({ "cid": "a", "mimeType": kind }),
        2 => json!({ "ref": { "$link": CID }, "mimeType": kind, "size": 5 }),
        3 => {
            let mut blob = whole;
            blob["url"] = "https://example.com/a?b".into();
            blob
        }
        _ => whole,
    }
}

/// Any value of the data model.
fn junk(tape: &mut Tape<'_>) -> Value {
    match tape.below(12) {
        0 => Value::Null,
        1 => true.into(),
        2 => (tape.below(7) as i64 - 3).into(),
        3 => tape.pick(TEXTS).0.into(),
        4 => json!({ "$bytes": "AAAA" }),
        5 => json!({ "$link": CID }),
        6 => blob(tape),
        7 => json!([]),
        8 => json!([1, null]),
        9 => json!({}),
        10 => json!({ "$type": tape.pick(&["com.example.defs", "com.example.defs#a", "#a", "x"]) }),
        _ => json!({ "a": "a", "b": { "$link": CID } }),
    }
}
