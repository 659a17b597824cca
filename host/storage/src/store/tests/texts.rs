//! The text of a record: reads return it as it was written. PostgreSQL keeps it beside the value, and makes it from the value
//! of a record that has none (ADR 84).

use crate::store::testing::TestDb;
use bytes::Bytes;
use serde_json::{Value, json};
use sqlx::{Connection as _, PgConnection};

use super::fixtures::*;

use super::older;
use crate::query::{Backlinks, Direction, Filter, Keyset, Links, Query, Search, Sort};
use crate::store::query;
use crate::store::records::{self, PAGE_BYTES, Room, backlinks, invalid};
use crate::store::search;
use crate::store::testing;

use crate::store::Db;
use belvedere_base::clock::Timestamp;
use belvedere_protocol::atproto::RecordUri;
use belvedere_web::fair_share::Tenant;

/// The number of the migration that adds the texts on PostgreSQL.
const TEXTS: i64 = 50;

const TARGET: &str = "at://did:plc:target/com.example.note/1";

/// A text that no database would write.
const TEXT: &str = r#"{ "z":"\u00e9",   "n":1.50, "a":[1,2 ], "text":"needle rest" }"#;

/// The record's text from every kind of read that returns records.
async fn read_everywhere(db: &Db, uri: &RecordUri) -> Vec<Bytes> {
    let collection = || uri.collection.clone();
    let query = Query { limit: 10, ..Query::of(collection()) };
    let filter = Filter::from_json(&json!({ "field": "n", "op": "<", "value": 2 })).unwrap();
    let sort = Sort::parse("n", Direction::Asc).unwrap();
    let search = Search::parse(collection(), &["text"], "needle".to_owned(), Some(10), None).unwrap();
    let links = Backlinks {
        links: Links { collection: collection(), path: None },
        target: TARGET.to_owned(),
        did: None,
        limit: 10,
        after: None,
        uris_only: false,
    };
    let start = Keyset { indexed_at: Timestamp(0), id: 0 };

    let rows = [
        query::read(db, &query, &US).await.unwrap().rows,
        query::read(db, &Query { filter: Some(filter), ..query.clone() }, &US).await.unwrap().rows,
        query::read(db, &Query { sort: Some(sort), ..query.clone() }, &US).await.unwrap().rows,
        backlinks::read(db, &links, &US).await.unwrap().rows,
        search::read(db, &search, &US).await.unwrap().rows,
        Vec::from_iter(records::get(db, uri).await.unwrap()),
    ];
    let full = [
        query::read_full(db, &query, &Tenant::Instance).await.unwrap().rows,
        records::get_many_full(db, std::slice::from_ref(uri), Room::of(PAGE_BYTES)).await.unwrap().rows,
        invalid::walk(db, &uri.collection, start, 10).await.unwrap().rows,
    ];
    let of_full = full.into_iter().flatten().map(|full| full.row);
    rows.into_iter().flatten().chain(of_full).map(|row| row.record).collect()
}

const READS: usize = 9;

on_both!(every_read_returns_the_text_as_it_was_written);

async fn every_read_returns_the_text_as_it_was_written(db: TestDb) {
    let uri = uri(1, NOTE, "a");
    apply(&db, 1, vec![put_with_refs(&uri, 1, r#"{"n":0}"#, &[])]).await;
    // Small, and so large that it is read by itself.
    for (rev, rest) in [(2, ""), (3, &*"x".repeat(20_000))] {
        let text = TEXT.replace("rest", rest);
        apply(&db, 2, vec![put_with_refs(&uri, rev, &text, &[TARGET])]).await;
        assert_eq!(read_everywhere(&db, &uri).await, vec![Bytes::from(text.clone()); READS]);
        if matches!(&*db, Db::Sqlite(_)) {
            continue;
        }
        change(&db, |of| format!("UPDATE {} SET record_text = NULL", of.records)).await;
        let made = read_everywhere(&db, &uri).await;
        assert_eq!(made.len(), READS);
        let value: Value = serde_json::from_str(&text).unwrap();
        for made in made {
            assert_ne!(made, text, "PostgreSQL made it");
            assert_eq!(serde_json::from_slice::<Value>(&made).unwrap(), value);
        }
    }
}

/// The writes of a host of the version before, and of an operator.
#[tokio::test]
async fn a_value_that_is_changed_alone_loses_its_text() {
    let db = testing::postgres().await;
    let Db::Postgres(postgres) = &*db else { unreachable!("it is PostgreSQL") };
    let uri = uri(1, NOTE, "a");
    let text = r#"{"n" : 1}"#;
    apply(&db, 1, vec![put(&uri, 1, text)]).await;
    let stored = async || records::get(&db, &uri).await.unwrap().unwrap().record;
    let upsert = "INSERT INTO records (collection_id, did_id, rkey, cid_verified, rev, indexed_at, updated_at, record) \
                  SELECT collection_id, did_id, rkey, false, rev + 1, 1, 1, '{\"n\":2}' FROM records \
                  ON CONFLICT (collection_id, did_id, rkey) DO UPDATE SET rev = excluded.rev, record = excluded.record";
    for (sql, expected) in [
        ("UPDATE records SET rev = rev + 1, record = record", text),
        (upsert, r#"{"n": 2}"#),
        (r#"UPDATE records SET record = '{"n":3}'"#, r#"{"n": 3}"#),
        // The statement of docs/operations.md.
        ("UPDATE records SET record_text = record::text || ' ' WHERE record_text IS NULL", "{\"n\": 3} "),
    ] {
        sqlx::raw_sql(sql).execute(&postgres.pool).await.unwrap();
        assert_eq!(stored().await, expected, "{sql}");
    }
    apply(&db, 2, vec![put(&uri, 9, text)]).await;
    assert_eq!(stored().await, text);
}

/// Records of before are read as they were, and a long read holds up the migration, but no other read.
#[tokio::test]
async fn the_migration_waits_for_reads_and_holds_up_none() {
    let fill = format!(
        "INSERT INTO collections (nsid) VALUES ('{NOTE}'); INSERT INTO dids (did) VALUES ('{}'); \
         INSERT INTO records (collection_id, did_id, rkey, cid_verified, rev, indexed_at, updated_at, record) \
         SELECT 1, 1, 'r' || n, false, 1, n, n, jsonb_build_object('n', n) FROM generate_series(1, 3) n",
        did(1)
    );
    let database = older::postgres(TEXTS, &fill).await;
    let connect = async || PgConnection::connect(&database.url).await.unwrap();
    let (mut long_read, mut watcher, mut reader) = (connect().await, connect().await, connect().await);
    sqlx::raw_sql("BEGIN; SELECT 1 FROM records LIMIT 1").execute(&mut long_read).await.unwrap();
    let db = Db::open(&database.url, 2).await.unwrap();
    let migration = tokio::spawn({
        let db = db.clone();
        async move { db.migrate().await }
    });
    for _ in 0..3 {
        older::waiting(&mut watcher, "records", "AccessExclusiveLock").await;
        assert_eq!(older::one::<i64>(&mut reader, "SELECT count(*) FROM records").await, 3);
        assert!(!migration.is_finished());
    }
    sqlx::raw_sql("ROLLBACK").execute(&mut long_read).await.unwrap();
    migration.await.unwrap().unwrap();

    assert_eq!(list(&db, NOTE).await, [3, 2, 1].map(|n| uri(1, NOTE, &format!("r{n}")).to_string()));
    assert_eq!(get(&db, &uri(1, NOTE, "r2")).await, Some(json!({ "n": 2 })));
}
