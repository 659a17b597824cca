//! `matches` in SQL finds what `db.search` finds.

use super::*;

on_both!(finds_literal_texts, refuses_everything_else);

async fn finds_literal_texts(db: TestDb) {
    let texts = ["Apple pie", "pineapple", "50% off_x", r"back\slash", "it's", "ÄRGER"];
    let records = texts.iter().map(|text| json!({ "text": text, "deep": { "list": [text] } }));
    let records: Vec<_> = records.chain([json!({ "text": 5 }), json!({}), json!({ "text": null })]).collect();
    let put_record =
        |(n, record): (usize, &Value)| put(&uri(1, NOTE, &format!("r{n}")), 1, &record.to_string());
    apply(&db, 1, records.iter().enumerate().map(put_record).collect()).await;
    for (query, expected) in [
        ("APPLE", &["r0", "r1"][..]),
        ("%", &["r2"]),
        ("f_X", &["r2"]),
        (r"k\s", &["r3"]),
        ("it's", &["r4"]),
        ("Ärger", &["r5"]),
        ("ärger", &[]),
        ("' OR 1 = 1 --", &[]),
    ] {
        for path in ["text", "deep.list[0]"] {
            let sql = format!("SELECT rkey FROM records WHERE matches(record, '{path}', $1) ORDER BY rkey");
            let found = rows(&db, &sql, &[json!(query)]).await;
            let expected: Vec<_> = expected.iter().map(|rkey| json!({ "rkey": rkey })).collect();
            assert_eq!(found, json!(expected), "{path} {query}");
        }
    }
    // False, not NULL, for a record without a text.
    let sql =
        "SELECT count(*) AS n FROM records r WHERE NOT matches(r.record, 'text', 'p') AND collection = $1";
    assert_eq!(rows(&db, sql, &[json!(NOTE)]).await, json!([{ "n": 7 }]));
}

async fn refuses_everything_else(db: TestDb) {
    for call in [
        "matches(record, 'text')",
        "matches(record, uri, 'x')",
        "matches(record, 'text', uri)",
        "matches(record, '$.text', 'x')",
        "matches(record, 'a b', 'x')",
        "matches(*)",
        "matches(record, 'text', 5)",
        "matches(secret, 'text', 'x')",
        "main.matches(record, 'text', 'x')",
    ] {
        error(&db, &format!("SELECT 1 AS n FROM records WHERE {call}")).await;
    }
    let long = format!("SELECT 1 AS n FROM records WHERE matches(record, 'text', '{}')", "x".repeat(300));
    assert_eq!(error(&db, &long).await.to_string(), "a pattern is too long here: 250 bytes at most");
}
