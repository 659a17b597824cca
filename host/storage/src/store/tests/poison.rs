//! One invalid row does not fail the rest of its batch.

use crate::store::testing::TestDb;
use bytes::Bytes;

use super::fixtures::*;

use crate::store::Db;
use crate::store::cursors;
use crate::store::index::{self, Batch, CheckedRecord};
use belvedere_base::clock::Timestamp;

on_both!(only_records_that_jsonb_cannot_represent_are_rejected, what_is_not_utf8_is_rejected_alone);

async fn only_records_that_jsonb_cannot_represent_are_rejected(db: TestDb) {
    // U+0000 in a string, a lone surrogate, a number out of range: valid JSON, but not valid jsonb.
    let bad = [r#"{"a":"\u0000"}"#, r#"{"a":"\ud800"}"#, r#"{"a":1e999999}"#];
    let mut changes = Vec::new();
    for n in 0..200_u32 {
        let record = bad.get(n as usize / 60).filter(|_| n % 60 == 0).copied().unwrap_or("{}");
        changes.push(put_with_refs(&uri(n % 5, NOTE, &format!("r{n}")), 1, record, &["at://x"]));
    }
    let batch = Batch { changes, cursor: Some(cursor(7)), now: Timestamp(1), ..Batch::default() };
    let applied = index::apply(&db, &batch).await.unwrap();
    let mut rejected: Vec<_> = applied.rejected.iter().map(|r| r.uri.rkey.to_string()).collect();
    rejected.sort();
    match &*db {
        Db::Sqlite(_) => assert_eq!(rejected, Vec::<String>::new()),
        Db::Postgres(_) => {
            assert_eq!(rejected, ["r0", "r120", "r60"]);
            assert!(applied.rejected.iter().all(|r| !r.reason.is_empty()));
        }
    }
    assert_eq!(applied.inserted as usize, 200 - rejected.len());
    assert_eq!(applied.stale, 0);
    assert_eq!(list(&db, NOTE).await.len(), 200 - rejected.len());
    assert_eq!(refs(&db).await.len(), 200 - rejected.len());
    assert_eq!(cursors::get(&db, "jetstream").await.unwrap(), Some(7));
}

async fn what_is_not_utf8_is_rejected_alone(db: TestDb) {
    let mut bad = put(&uri(1, NOTE, "bad"), 1, "");
    let text = Bytes::from_static(b"{\"a\":\"\xff\"}");
    bad.record = bad.record.map(|record| CheckedRecord { text, ..record });
    let applied = apply(&db, 1, vec![bad, put(&uri(1, NOTE, "good"), 1, "{}")]).await;
    assert_eq!((applied.inserted, applied.rejected.len()), (1, 1));
    assert_eq!(applied.rejected[0].uri, uri(1, NOTE, "bad"));
}
