//! Reads on the caller's thread (`in_place`): they are used, and answer what sqlx's connections answer.

use serde_json::json;

use super::fixtures::*;
use crate::query::{Filter, Query};
use crate::store::index::AccountStatus;
use crate::store::records::{self, RecordRow};
use crate::store::testing;
use crate::store::{Db, Sqlite, query};

const LARGE: usize = 100_000;

/// A page of notes, as text.
async fn page(db: &Db, query: &Query) -> String {
    let page = query::read(db, query, &US).await.unwrap();
    let shown: Vec<_> = page.rows.iter().map(|row| (row.uri(), row.cid, row.indexed_at, json(row))).collect();
    format!("{shown:?} {:?}", page.next)
}

async fn filled() -> (testing::TestDb, Sqlite) {
    let db = testing::sqlite().await;
    for n in 0..40 {
        let text = if n == 7 { "x".repeat(LARGE) } else { format!("note {n}") };
        let record = json!({ "n": n, "text": text }).to_string();
        apply(&db, i64::from(n / 4), vec![put(&uri(n % 5, NOTE, &format!("r{n}")), 1, &record)]).await;
    }
    set_status(&db, 4, AccountStatus::Deactivated).await;
    let Db::Sqlite(sqlite) = &*db else { unreachable!("it is a SQLite database") };
    let sqlite = sqlite.clone();
    (db, sqlite)
}

#[tokio::test]
async fn both_ways_of_reading_give_the_same() {
    let (db, sqlite) = filled().await;
    let notes = Query { limit: 9, ..Query::of(nsid(NOTE)) };
    let filter = Filter::from_json(&json!({ "field": "n", "op": ">", "value": 20 })).unwrap();
    let next = query::read(&db, &notes, &US).await.unwrap().next;
    let queries = [
        Query { after: next, ..notes.clone() },
        Query { did: Some(did(2)), ..notes.clone() },
        Query { with_cid: true, ..notes.clone() },
        Query { filter: Some(filter), ..notes.clone() },
        Query { limit: 100, ..notes },
    ];
    let uris =
        [uri(0, NOTE, "r0"), uri(2, NOTE, "r7"), uri(4, NOTE, "r4"), uri(1, NOTE, "no"), uri(1, LIKE, "r1")];
    let mut answers = Vec::new();
    for is_closed in [false, true] {
        if is_closed {
            sqlite.in_place.close();
        }
        let mut all = Vec::new();
        for query in &queries {
            all.push(page(&db, query).await);
        }
        for uri in &uris {
            let found = records::get(&db, uri).await.unwrap();
            all.push(format!("{:?}", found.map(|row: RecordRow| (row.uri(), row.cid, json(&row)))));
        }
        answers.push(all);
    }
    assert_eq!(answers[0], answers[1]);
    assert!(answers[0][6].len() > LARGE, "the whole record");
    assert_eq!(answers[0][7..], ["None", "None", "None"]);
}

#[tokio::test]
async fn quick_reads_need_no_connection_of_sqlx() {
    let (db, sqlite) = filled().await;
    let notes = Query { limit: 100, ..Query::of(nsid(NOTE)) };
    // The collection is known, and the large record of the page has been read.
    let before = page(&db, &Query { did: Some(did(1)), ..notes.clone() }).await;
    sqlite.read_pool.close().await;
    assert_eq!(page(&db, &Query { did: Some(did(1)), ..notes }).await, before);
    assert_eq!(get(&db, &uri(0, NOTE, "r5")).await.unwrap()["n"], 5);
    assert!(records::get(&db, &uri(2, NOTE, "r7")).await.is_err(), "a large record needs one");
}
