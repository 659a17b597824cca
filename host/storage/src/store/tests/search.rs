//! `db.search`: the same matches in the same order with and without an index, on both databases.

use crate::store::testing::TestDb;
use std::time::Duration;

use sqlx::AssertSqlSafe;

use super::field_indexes::build_all;
use super::fixtures::*;

use crate::query::Search;
use crate::store::search;

use crate::query::path::Path;
use crate::store::fields::IndexKind;
use crate::store::index::AccountStatus;
use crate::store::search::walk::{self, explain};
use crate::store::{Db, intern};

const TEXTS: [&str; 14] = [
    "apple",
    "Apple pie",
    "APPLE",
    "an apple a day",
    "pineapple",
    "50% off_x",
    "50 percent off x",
    r#"say "apple" AND NOT pear"#,
    r"back\slash",
    "Ärger",
    "ärger",
    "ap",
    "日本語のテキスト",
    "NEAR(a b) OR *",
];

async fn store(db: &Db) {
    let put_text = |(n, text): (usize, &&str)| {
        let record = serde_json::json!({"text": text, "deep": {"list": [text]}, "n": n});
        put(&uri(n as u32, NOTE, &format!("r{n}")), 1, &record.to_string())
    };
    let mut changes: Vec<_> = TEXTS.iter().enumerate().map(put_text).collect();
    changes.push(put(&uri(50, NOTE, "number"), 1, r#"{"text":5,"deep":{"list":["apple"]}}"#));
    changes.push(put(&uri(51, NOTE, "list"), 1, r#"{"text":["apple"]}"#));
    changes.push(put(&uri(52, NOTE, "object"), 1, r#"{"text":{"a":"apple"}}"#));
    changes.push(put(&uri(53, LIKE, "like"), 1, r#"{"text":"apple"}"#));
    apply(db, 1, changes).await;
}

async fn find(db: &Db, field: &str, text: &str) -> Vec<String> {
    let search = Search::parse(nsid(NOTE), &[field], text.to_owned(), Some(100), None).unwrap();
    search::read(db, &search, &US).await.unwrap().rows.into_iter().map(|row| row.rkey).collect()
}

/// Whether the index of searches is in use: a search whose statement fails scans, and leaves the index alone from then on.
async fn uses_its_index(db: &Db, field: &str) -> bool {
    let note = intern::collection(db, &nsid(NOTE)).await.unwrap().unwrap();
    db.fields().index(note.id, &Path::parse(field).unwrap(), IndexKind::Search).is_some()
}

async fn assert_finds(db: &Db) {
    for (field, text, expected) in [
        // Exact matches by age, then prefixes, then the rest.
        ("text", "apple", &["r0", "r2", "r1", "r3", "r4", "r7"][..]),
        ("text", "APPLE", &["r0", "r2", "r1", "r3", "r4", "r7"]),
        ("deep.list[0]", "apple", &["r0", "r2", "number", "r1", "r3", "r4", "r7"]),
        ("text", "50%", &["r5"]),
        ("text", "off_x", &["r5"]),
        ("text", "%%%", &[]),
        ("text", r"k\s", &["r8"]),
        ("text", r#""apple""#, &["r7"]),
        ("text", "NOT pear", &["r7"]),
        ("text", "(a b) or *", &["r13"]),
        // Only ASCII letters match regardless of case.
        ("text", "Ärger", &["r9"]),
        ("text", "本語の", &["r12"]),
        // Too short for an index.
        ("text", "p", &["r11", "r0", "r1", "r2", "r3", "r4", "r6", "r7"]),
        ("text", "ap", &["r11", "r0", "r2", "r1", "r3", "r4", "r7"]),
        ("missing", "apple", &[]),
    ] {
        let mut found = find(db, field, text).await;
        let mut expected = expected.to_vec();
        if text == "p" {
            found.sort();
            expected.sort_unstable();
        }
        assert_eq!(found, expected, "{field} {text}");
    }
}

on_both!(
    finds_the_same_with_an_index,
    the_index_follows_later_writes,
    the_limit_keeps_the_best_matches,
    several_fields_and_pages,
    a_text_with_a_nul_is_a_result_as_others,
    a_common_text_is_found_in_the_same_order,
    a_rare_text_of_common_trigrams_is_found,
    postgres_reads_the_texts_or_the_candidates_whichever_is_less
);

async fn finds_the_same_with_an_index(db: TestDb) {
    store(&db).await;
    assert_finds(&db).await;
    build_all(&db).await;
    assert_finds(&db).await;
    assert!(uses_its_index(&db, "text").await, "a statement failed, and scanned instead");
}

async fn the_index_follows_later_writes(db: TestDb) {
    store(&db).await;
    find(&db, "text", "apple").await;
    build_all(&db).await;
    apply(
        &db,
        2,
        vec![
            put(&uri(0, NOTE, "r0"), 2, r#"{"text":"pear"}"#),
            take(&uri(2, NOTE, "r2"), 2),
            put(&uri(5, NOTE, "r5"), 2, r#"{"text":"apple"}"#),
            put(&uri(60, NOTE, "new"), 2, r#"{"text":"apple"}"#),
            put(&uri(61, NOTE, "none"), 2, "{}"),
        ],
    )
    .await;
    set_status(&db, 1, AccountStatus::Suspended).await;
    set_status(&db, 3, AccountStatus::Deleted).await;
    assert_eq!(find(&db, "text", "apple").await, ["r5", "new", "r4", "r7"]);
    assert_eq!(find(&db, "text", "pear").await, ["r0", "r7"]);
}

async fn the_limit_keeps_the_best_matches(db: TestDb) {
    store(&db).await;
    let search = Search::parse(nsid(NOTE), &["text"], "apple".to_owned(), Some(2), None).unwrap();
    let rows = search::read(&db, &search, &US).await.unwrap().rows;
    assert_eq!(rows.iter().map(|row| row.rkey.as_str()).collect::<Vec<_>>(), ["r0", "r2"]);
}

/// All results, read in pages.
async fn all_pages(db: &Db, fields: &[&str], text: &str, limit: i64) -> Vec<String> {
    let (mut found, mut cursor) = (Vec::new(), None::<String>);
    loop {
        let search =
            Search::parse(nsid(NOTE), fields, text.to_owned(), Some(limit), cursor.as_deref()).unwrap();
        let page = search::read(db, &search, &US).await.unwrap();
        assert!(page.rows.len() <= limit as usize);
        found.extend(page.rows.into_iter().map(|row| row.rkey));
        match page.next {
            Some(next) => cursor = Some(next.cursor()),
            None => return found,
        }
    }
}

/// PostgreSQL does not store the record.
async fn a_text_with_a_nul_is_a_result_as_others(db: TestDb) {
    for (n, text) in ["apple b", r"apple\u0000x", "apple a"].into_iter().enumerate() {
        let record = format!(r#"{{"text":"{text}"}}"#);
        apply(&db, 1, vec![put(&uri(1, NOTE, &format!("r{n}")), 1, &record)]).await;
    }
    let expected: &[&str] = if matches!(*db, Db::Sqlite(_)) { &["r1", "r2", "r0"] } else { &["r2", "r0"] };
    assert_eq!(all_pages(&db, &["text"], "apple", 1).await, expected);
}

async fn several_fields_and_pages(db: TestDb) {
    let words = ["apple", "Apple pie", "an apple", "pear", "APPLE", "pineapple", "apple a", ""];
    let mut records = Vec::new();
    for n in 0..72 {
        let mut record = serde_json::json!({ "title": words[n % 8], "text": words[n / 8 % 8] });
        match n % 9 {
            0 => record["title"] = serde_json::json!(5),
            1 => record["text"] = serde_json::json!(format!("{} apple", "ä".repeat(300))),
            _ => {}
        }
        records.push(record);
    }
    let put_record = |(n, record): (usize, &serde_json::Value)| {
        put(&uri(n as u32 % 3, NOTE, &format!("r{n}")), 1, &record.to_string())
    };
    // One after the other, so that the ids are in this order.
    for record in records.iter().enumerate() {
        apply(&db, 1, vec![put_record(record)]).await;
    }
    let place = |record: &serde_json::Value, fields: &[&str], wanted: &str| {
        let texts = fields.iter().enumerate().filter_map(|(n, field)| Some((n, record[*field].as_str()?)));
        let ranked = texts.filter_map(|(n, text)| {
            let text = text.to_ascii_lowercase();
            let kind = [text == wanted, text.starts_with(wanted), text.contains(wanted)];
            let kind = kind.iter().position(|is_one| *is_one)?;
            Some((kind, n, text.chars().take(256).collect::<String>()))
        });
        ranked.min_by_key(|(kind, n, _)| (*kind, *n))
    };
    let searches = [
        (&["title", "text"][..], "apple"),
        (&["text", "title", "none"], "pple"),
        (&["title"], "apple"),
        (&["text", "title"], "a"),
    ];
    for indexed in [false, true] {
        for (fields, wanted) in searches {
            let mut expected: Vec<_> =
                (0..records.len()).filter_map(|n| Some((place(&records[n], fields, wanted)?, n))).collect();
            expected.sort();
            let expected: Vec<_> = expected.into_iter().map(|(_, n)| format!("r{n}")).collect();
            for limit in [1, 7, 100] {
                assert_eq!(
                    all_pages(&db, fields, wanted, limit).await,
                    expected,
                    "{fields:?} {wanted} by {limit} indexed: {indexed}"
                );
            }
        }
        if !indexed {
            build_all(&db).await;
        }
    }
    assert!(uses_its_index(&db, "text").await && uses_its_index(&db, "title").await, "a statement failed");
}

async fn a_common_text_is_found_in_the_same_order(db: TestDb) {
    let text = |n: u32| match n {
        0 => "common".to_owned(),
        1 => "COMMON".to_owned(),
        2 => "Common sense".to_owned(),
        3 => format!("{} common", "x".repeat(300)),
        4 => format!("common {}", "y".repeat(300)),
        5 => "Uncommon".to_owned(),
        n => format!("text {} is common, {}", (n * 7_919) % 2_500, "ä".repeat(n as usize % 3)),
    };
    let record = |n: u32| serde_json::json!({ "text": text(n) }).to_string();
    let changes = (0..2_500).map(|n| put(&uri(n % 4, NOTE, &format!("r{n}")), 1, &record(n))).collect();
    apply(&db, 1, changes).await;
    set_status(&db, 3, AccountStatus::Suspended).await;
    let words = ["common", "COMMON", "uncommon", "text 1", " is com", "ä", "ncommo", "common y", "x common"];
    let mut expected = Vec::new();
    for word in words {
        expected.push(find(&db, "text", word).await);
    }
    assert_eq!(expected[0][..3], ["r0", "r1", "r2"]);
    build_all(&db).await;
    for (word, expected) in words.into_iter().zip(expected) {
        assert_eq!(find(&db, "text", word).await, expected, "{word}");
    }
    // The pages of a walk along the texts.
    let (large, small) =
        (all_pages(&db, &["text"], "common", 100).await, all_pages(&db, &["text"], "common", 31).await);
    assert_eq!((large.len(), &large), (1_875, &small));
    assert!(uses_its_index(&db, "text").await, "a statement failed, and scanned instead");
}

async fn a_rare_text_of_common_trigrams_is_found(db: TestDb) {
    let text = |n: u32| match n {
        7 | 2_300 | 2_499 => format!("number {n}: therent"),
        n => format!("{n}: the her ere ren ent"),
    };
    let record = |n: u32| serde_json::json!({ "text": text(n) }).to_string();
    let changes = (0..2_500).map(|n| put(&uri(n % 4, NOTE, &format!("r{n}")), 1, &record(n))).collect();
    apply(&db, 1, changes).await;
    build_all(&db).await;
    let expected = ["r2300", "r2499", "r7"];
    assert_eq!(find(&db, "text", "therent").await, expected);
    build_all(&db).await;
    assert_eq!(find(&db, "text", "therent").await, expected);
    assert!(uses_its_index(&db, "text").await, "a statement failed, and scanned instead");
    let Db::Sqlite(sqlite) = &*db else { return };
    let (note, field) = (nsid(NOTE), Path::parse("text").unwrap());
    let args = Search::parse(note.clone(), &["text"], "therent".to_owned(), Some(20), None).unwrap();
    let collection = intern::collection(&db, &note).await.unwrap().unwrap();
    let index = db.fields().index(collection.id, &field, IndexKind::Search).unwrap();
    // So many other texts that a walk takes some tens of milliseconds.
    let others = format!(
        "WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 500000) \
         INSERT INTO field_texts_{index} (key, id) SELECT printf('zz%08d', x), 1000000 + x FROM n"
    );
    sqlx::query(AssertSqlSafe(others)).execute(&sqlite.writer).await.unwrap();
    let found = walk::sqlite(sqlite, collection, index, &args, Duration::from_millis(1)).await.unwrap();
    assert!(found.is_none(), "the candidates are sorted instead");
    assert_eq!(find(&db, "text", "therent").await, expected);
}

async fn postgres_reads_the_texts_or_the_candidates_whichever_is_less(db: TestDb) {
    let record = |n: u32| {
        let word = if n.is_multiple_of(5_000) { "quixotry" } else { "plain" };
        serde_json::json!({ "text": format!("{} of a {word} day", (n * 7_919) % 20_000) }).to_string()
    };
    let changes = (0..20_000).map(|n| put(&uri(n % 100, NOTE, &format!("r{n}")), 1, &record(n))).collect();
    apply(&db, 1, changes).await;
    let count = async |word| find(&db, "text", word).await.len();
    assert_eq!((count("plain").await, count("quixotry").await), (100, 4));
    build_all(&db).await;
    assert_eq!((count("plain").await, count("quixotry").await), (100, 4));
    for (text, index) in [("plain", "field_texts_"), ("quixotry", "field_search_")] {
        let args = Search::parse(nsid(NOTE), &["text"], text.to_owned(), Some(20), None).unwrap();
        let Some(plan) = explain(&db, &args).await.unwrap() else { continue };
        assert!(plan.contains(index) && !plan.contains("Seq Scan on records"), "{text}: {plan}");
    }
}
