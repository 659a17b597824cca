//! The kinds of changes of records, and the notes of them that writers make in shards, where triggers can't: they would run on the
//! node of the record, which has neither the table of changes nor the lock that orders it.
//!
//! Writers note each record that they write or delete, and store the notes on followed collections before they commit. A table has these
//! collections: it changes while no transaction that writes records is open.

use bytes::Bytes;
use sqlx::PgConnection;

/// The notification by which the database announces changes, from `0084_record_changes.sql`.
pub const NOTIFICATION: &str = "record-changes";

/// The kind of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Created,
    Updated,
    Deleted,
}

impl Action {
    /// The word for it in events of records.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Created => "create",
            Self::Updated => "update",
            Self::Deleted => "delete",
        }
    }
}

/// A record that a transaction has written or deleted.
#[derive(Clone, Debug)]
pub(in crate::store) struct Note {
    pub collection_id: i64,
    pub did_id: i64,
    pub rkey: String,
    pub action: Action,
    pub cid: Option<Vec<u8>>,
    /// Empty of a deletion.
    pub text: Bytes,
}

const FOLLOWED: &str =
    "SELECT collection_id, is_shown FROM followed_collections WHERE collection_id = ANY($1)";

/// The lock makes the order of `seq` that of the commits. It is the last one of the transaction: "changes".
const LOCK_CHANGES: &str = "SELECT pg_advisory_xact_lock(x'6368616e676573'::bigint)";

const STORE: &str = "INSERT INTO record_changes (collection_id, did_id, rkey, action, changed_at, size, bytes_before, cid, record) \
     SELECT v.collection_id, v.did_id, v.rkey, v.action, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, v.size, \
         coalesce((SELECT c.bytes_before + c.size FROM record_changes c ORDER BY c.seq DESC LIMIT 1), 0) \
             + sum(v.size) OVER (ORDER BY v.n) - v.size, v.cid, v.record \
     FROM (SELECT *, 100 + coalesce(octet_length(u.record), 0) AS size \
         FROM UNNEST ($1::bigint[], $2::bigint[], $3::text[], $4::smallint[], $5::bytea[], $6::text[]) WITH ORDINALITY \
             AS u (collection_id, did_id, rkey, action, cid, record, n)) v ORDER BY v.n";

/// Stores the notes on followed collections, and wakes who reads them.
pub(in crate::store) async fn store(conn: &mut PgConnection, notes: &[Note]) -> Result<(), sqlx::Error> {
    if notes.is_empty() {
        return Ok(());
    }
    let mut collections: Vec<i64> = notes.iter().map(|note| note.collection_id).collect();
    collections.sort_unstable();
    collections.dedup();
    let followed: Vec<(i64, bool)> = sqlx::query_as(FOLLOWED).bind(collections).fetch_all(&mut *conn).await?;
    let shown =
        |note: &&Note| followed.iter().find(|(id, _)| *id == note.collection_id).map(|(_, shown)| *shown);
    let (notes, shown): (Vec<&Note>, Vec<bool>) =
        notes.iter().filter_map(|note| Some((note, shown(&note)?))).unzip();
    if notes.is_empty() {
        return Ok(());
    }
    let has_content = |(note, shown): &(&&Note, &bool)| **shown && note.action != Action::Deleted;
    let contents = notes.iter().zip(&shown);
    let cids: Vec<Option<&[u8]>> =
        contents.clone().map(|of| of.0.cid.as_deref().filter(|_| has_content(&of))).collect();
    let texts: Vec<Option<&str>> =
        contents.map(|of| std::str::from_utf8(&of.0.text).ok().filter(|_| has_content(&of))).collect();
    sqlx::query(LOCK_CHANGES).execute(&mut *conn).await?;
    sqlx::query(STORE)
        .bind(notes.iter().map(|note| note.collection_id).collect::<Vec<_>>())
        .bind(notes.iter().map(|note| note.did_id).collect::<Vec<_>>())
        .bind(notes.iter().map(|note| note.rkey.as_str()).collect::<Vec<_>>())
        .bind(notes.iter().map(|note| note.action as i16).collect::<Vec<_>>())
        .bind(cids)
        .bind(texts)
        .execute(&mut *conn)
        .await?;
    sqlx::query("SELECT pg_notify('belvedere', $1)").bind(NOTIFICATION).execute(conn).await.map(drop)
}
