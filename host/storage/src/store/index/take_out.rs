//! Takes the text of a record out of the index, because the record is moderated, or out of the moderated records.

use sqlx::{PgConnection, SqliteConnection};

use super::StoreError;
use super::plan::Key;
use crate::store::partitions::{Partition, PerPartition, Tables};

/// The assignments that remove the text of a moderated record, and all that is about that text.
macro_rules! without_text {
    () => {
        "record = NULL, cid = NULL, cid_verified = FALSE, invalid_reason = NULL"
    };
}
pub(in crate::store) use without_text;

/// Copies the record with its reason if it is invalid, then deletes its references and itself. It leaves no tombstone. A host of a
/// version before may have indexed another one of a record that is moderated already.
static HIDE: [PerPartition<[String; 3]>; 2] = [
    PerPartition::new(|tables| hide(tables, "r.record")),
    PerPartition::new(|tables| hide(tables, "coalesce(r.record_text, r.record::text)")),
];

fn hide(Tables { records, record_refs }: &Tables, text: &str) -> [String; 3] {
    [
        format!(
            "INSERT INTO hidden_records (collection_id, did_id, rkey, is_readable, cid, cid_verified, rev, indexed_at, \
                 updated_at, record, invalid_reason) \
             SELECT r.collection_id, r.did_id, r.rkey, FALSE, r.cid, r.cid_verified, r.rev, r.indexed_at, r.updated_at, \
                 {text}, (SELECT i.reason FROM invalid_records i WHERE i.record_id = r.id) FROM {records} r \
             WHERE r.collection_id = $1 AND r.did_id = $2 AND r.rkey = $3 \
             ON CONFLICT (collection_id, did_id, rkey) DO UPDATE SET cid = excluded.cid, \
                 cid_verified = excluded.cid_verified, rev = excluded.rev, updated_at = excluded.updated_at, \
                 record = excluded.record, invalid_reason = excluded.invalid_reason \
                 WHERE hidden_records.rev < excluded.rev"
        ),
        format!(
            "DELETE FROM {record_refs} WHERE record_id = \
                 (SELECT r.id FROM {records} r WHERE r.collection_id = $1 AND r.did_id = $2 AND r.rkey = $3)"
        ),
        format!("DELETE FROM {records} WHERE collection_id = $1 AND did_id = $2 AND rkey = $3"),
    ]
}

macro_rules! take_out {
    ($name:ident, $connection:ty, $hide:expr) => {
        /// Moves a record from the index to the moderated ones, if the index has it.
        pub(super) async fn $name(
            conn: &mut $connection,
            partition: Partition,
            key: Key<'_>,
        ) -> Result<(), StoreError> {
            for sql in $hide.of(partition) {
                sqlx::query(*sql).bind(key.0).bind(key.1).bind(key.2).execute(&mut *conn).await?;
            }
            Ok(())
        }
    };
}
take_out!(sqlite, SqliteConnection, HIDE[0]);
take_out!(postgres, PgConnection, HIDE[1]);
