//! The costs of validating a record, counted in bytes that are read and comparisons with lists of the lexicon.

use serde_json::{Map, json};

use super::super::super::steps;
use super::*;
use crate::atproto::record;

/// Bytes read in times the size of the record: once in the pass, up to eight times ahead of it, and once for each error about
/// members that are missing.
const TIMES: usize = 1 + 8 + 10;

/// Bytes read ahead for a small record.
const FLOOR: usize = 64 << 10;

/// The bytes that are read to validate a record, its size, and the errors.
fn cost(schemas: &Schemas, record: &Value) -> (usize, usize, Option<String>) {
    let cbor = record::to_cbor(record.to_string().as_bytes()).unwrap().unwrap();
    let before = record::cbor::bytes_read();
    let verdict = schemas.validate(NOTE, &cbor);
    (record::cbor::bytes_read() - before, cbor.len(), verdict.err().map(|errors| errors.to_string()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn the_cost_is_linear_in_the_size_of_the_record(
        lexicon in prop::collection::vec(any::<u8>(), 0..400),
        tape in prop::collection::vec(any::<u8>(), 0..400),
        copies in 1..200_usize,
    ) {
        let documents = generate::documents(&mut Tape(&lexicon));
        let mut record = generate::record(&mut Tape(&tape), &documents, NOTE);
        // The same again and again, in each of its arrays.
        for array in record.as_object_mut().into_iter().flatten().filter_map(|(_, value)| value.as_array_mut()) {
            *array = array.iter().cycle().take(array.len() * copies).cloned().collect();
        }
        if record::to_cbor(record.to_string().as_bytes()).is_ok_and(|cbor| cbor.is_ok()) {
            let (read, size, _) = cost(&schemas(&documents), &record);
            prop_assert!(read <= TIMES * size + FLOOR, "{read} for {size}: {record}");
        }
    }
}

/// Values of each list of a lexicon, and of the array of a record.
const VALUES: usize = 20_000;
const ITEMS: usize = 2_000;

/// Comparisons with a list: a binary search takes 15 or 16, and a blob has three.
const COMPARISONS: usize = 3 * 16;

#[test]
fn lists_of_a_lexicon_are_searched_instead_of_read() {
    let names = |prefix: &str| (1..VALUES).map(|n| format!("{prefix}{n}")).collect::<Vec<_>>();
    let properties: Map<_, _> =
        names("m").into_iter().map(|name| (name, json!({ "type": "integer" }))).collect();
    let accept: Vec<_> = names("image/").into_iter().chain(["video/*".to_owned()]).collect();
    let link = "bafkreiccldh766hwcnuxnf2wh6jgzepf2nlu2lvcllt63eww5p6chi4ity";
    let cases = [
        (json!({ "type": "string", "enum": names("w") }), json!("w19999")),
        (json!({ "type": "integer", "enum": (1..VALUES).collect::<Vec<_>>() }), json!(19_999)),
        (
            json!({ "type": "union", "refs": names("#d"), "closed": true }),
            json!({ "$type": format!("{NOTE}#d19999") }),
        ),
        (json!({ "type": "object", "properties": properties }), json!({ "m19999": 1 })),
        (
            json!({ "type": "blob", "accept": accept }),
            json!({ "$type": "blob", "ref": { "$link": link }, "mimeType": "video/a", "size": 1 }),
        ),
    ];
    for (items, value) in cases {
        let properties = json!({ "a": { "type": "array", "items": items } });
        let main = json!({ "type": "record", "key": "any", "record": { "type": "object", "properties": properties } });
        let document = json!({ "lexicon": 1, "id": NOTE, "defs": { "main": main } });
        let schemas = schemas(&Documents::from([(NOTE.to_owned(), document)]));
        let before = steps::counted();
        let (_, _, error) = cost(&schemas, &json!({ "$type": NOTE, "a": vec![value.clone(); ITEMS] }));
        assert_eq!(error, None);
        let steps = steps::counted() - before;
        // The record's own members, `$type` and `a`, are searched for as well.
        assert!((ITEMS..=COMPARISONS * ITEMS + 2).contains(&steps), "{steps} for {value}");
    }
}

/// A lexicon whose `a` is a value of a union that has such a value itself.
fn nesting() -> Schemas {
    let union = json!({ "type": "union", "refs": ["#inner"] });
    let inner = json!({ "type": "object", "properties": { "a": union, "n": { "type": "array", "items": { "type": "integer" } } } });
    let main = json!({ "type": "record", "key": "any", "record": { "type": "object", "properties": { "a": union } } });
    let document = json!({ "lexicon": 1, "id": NOTE, "defs": { "main": main, "inner": inner } });
    schemas(&Documents::from([(NOTE.to_owned(), document)]))
}

fn nested(depth: usize, numbers: usize) -> Value {
    let mut value = json!({ "n": vec![1; numbers] });
    for _ in 0..depth {
        value["$type"] = format!("{NOTE}#inner").into();
        value = json!({ "a": value });
    }
    value["$type"] = NOTE.into();
    value
}

#[test]
fn what_is_read_ahead_for_the_types_of_unions_is_bounded() {
    let schemas = nesting();
    for (depth, numbers) in [(4, 100_000), (8, 100_000), (50, 100)] {
        let (read, size, error) = cost(&schemas, &nested(depth, numbers));
        assert_eq!(error, None, "{depth} deep around {size} bytes, of which {read} were read");
    }
    let (read, size, error) = cost(&schemas, &nested(60, 500_000));
    let text = "at record: values of unions with long members before $type are inside each other";
    assert!(error.unwrap_or_default().starts_with(text));
    assert!(read <= 10 * size, "{read} for {size}");
}
