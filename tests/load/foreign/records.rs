//! Records, by which their lexicons cost the most.

use http::Method;
use serde_json::{Map, Value, json};

use super::Row;
use super::scene::Scene;
use crate::Plan;
use crate::server::COLLECTION;
use belvedere_standins::jetstream::{synthetic_did, synthetic_record};

/// Number of times that each is sent.
const TIMES: u32 = 5;

/// The repo that sends them.
const REPO: usize = 888_888;

/// Bytes of the text of a record: the index stores as many.
const RECORD_BYTES: usize = 1 << 20;

/// A schema of a record, and a record of the largest size.
struct Shape {
    case: &'static str,
    nsid: String,
    properties: Value,
    more: Value,
    record: Value,
}

pub async fn measure(scene: &Scene, plan: &Plan) -> anyhow::Result<Vec<Row>> {
    let shapes: Vec<Shape> =
        shapes().into_iter().filter(|shape| format!("record: {}", shape.case).contains(&plan.only)).collect();
    for shape in &shapes {
        let main = json!({ "type": "record", "key": "any", "record": {
            "type": "object", "properties": shape.properties } });
        let mut definitions = shape.more.clone();
        definitions["main"] = main;
        scene.server.upload(json!({ "lexicon": 1, "id": shape.nsid, "defs": definitions }), None).await;
    }
    if let Some(last) = shapes.last() {
        scene.wait_for_stream_of(&last.nsid).await;
    }
    let did = synthetic_did(REPO);
    let mut rows = Vec::new();
    for shape in &shapes {
        let bytes = shape.record.to_string().len();
        anyhow::ensure!(bytes <= RECORD_BYTES, "{}: {bytes} bytes", shape.case);
        let send = async {
            for n in 0..TIMES {
                scene.push(&did, &shape.nsid, &shape.record);
                // The records of a repo are stored in order.
                let rkey = scene.push(&did, COLLECTION, &synthetic_record(COLLECTION, n as usize));
                scene.wait_for(&did, &rkey).await;
            }
            Ok(())
        };
        rows.push(scene.row(&format!("record: {}", shape.case), bytes, TIMES, send).await?);
        let path = format!("/admin/records?collection={}", shape.nsid);
        let page = scene.server.admin(Method::GET, &path, None).await;
        let first = &page.body["records"][0];
        anyhow::ensure!(first.is_object(), "{}: no record was indexed: {}", shape.case, page.text);
        eprintln!("valid: {} {}", first["valid"], first["invalid_reason"]);
    }
    Ok(rows)
}

fn shapes() -> Vec<Shape> {
    let empty = || json!({});
    let words = |count: usize| (0..count).map(|n| format!("w{n:05}")).collect::<Vec<_>>();
    let members = |count: usize| (0..count).map(|n| (format!("m{n:05}"), json!(n))).collect::<Map<_, _>>();
    let integers = members(16_000).into_iter().map(|(name, _)| (name, json!({ "type": "integer" })));
    let shapes = vec![
        (
            "500,000 numbers",
            json!({ "a": { "type": "array", "items": { "type": "integer" } } }),
            empty(),
            json!({ "a": vec![1; 500_000] }),
        ),
        (
            "115,000 texts of an enum of 20,000",
            json!({ "a": { "type": "array", "items": { "type": "string", "enum": words(20_000) } } }),
            empty(),
            json!({ "a": (0..115_000).map(|n| format!("w{:05}", n * 7 % 20_000)).collect::<Vec<_>>() }),
        ),
        (
            "unions inside each other around 500,000 numbers",
            json!({ "a": { "type": "union", "refs": ["#b"] } }),
            json!({ "b": { "type": "object", "properties": {
                "a": { "type": "union", "refs": ["#b"] },
                "n": { "type": "array", "items": { "type": "integer" } } } } }),
            nested("com.example.load.worst2#b", 58, json!({ "n": vec![1; 500_000] })),
        ),
        (
            "70,000 members, of which the lexicon names 16,000",
            Value::Object(integers.collect()),
            empty(),
            Value::Object(members(70_000)),
        ),
        (
            "a text of 260,000 graphemes",
            json!({ "a": { "type": "string", "maxGraphemes": 1_000_000, "minGraphemes": 1 } }),
            empty(),
            json!({ "a": "\u{1f1e6}".repeat(260_000) }),
        ),
        (
            "a text of one letter and 520,000 marks",
            json!({ "a": { "type": "string", "maxGraphemes": 10 } }),
            empty(),
            json!({ "a": format!("e{}", "\u{301}".repeat(520_000)) }),
        ),
        (
            "a text of words",
            json!({ "a": { "type": "string" } }),
            empty(),
            json!({ "a": words(140_000).join(" ") }),
        ),
        (
            "14,000 links to records",
            json!({ "a": { "type": "array", "items": { "type": "string", "format": "at-uri" } } }),
            empty(),
            json!({ "a": (0..14_000).map(|n| format!("at://{}/{COLLECTION}/{n}", synthetic_did(n))).collect::<Vec<_>>() }),
        ),
        (
            "a wrong number after all else",
            json!({ "a": { "type": "array", "items": { "type": "integer" } },
            "zzzz": { "type": "integer", "maximum": 1 } }),
            empty(),
            json!({ "a": vec![1; 500_000], "zzzz": 2 }),
        ),
    ];
    let shape = |(n, (case, properties, more, mut record)): (usize, (&'static str, Value, Value, Value))| {
        let nsid = format!("com.example.load.worst{n}");
        record["$type"] = nsid.clone().into();
        Shape { case, nsid, properties, more, record }
    };
    shapes.into_iter().enumerate().map(shape).collect()
}

/// A value of a union in another one, `depth` times.
fn nested(kind: &str, depth: usize, inner: Value) -> Value {
    let mut value = inner;
    for _ in 0..depth {
        value["$type"] = kind.into();
        value = json!({ "a": value });
    }
    value
}
