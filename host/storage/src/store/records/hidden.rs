//! Reads moderated records: those that are hidden by their URI, all of them for operators (ADR 127).

use bytes::Bytes;

use super::{FullRecordRow, RecordRow};
use crate::store::intern::Collection;
use crate::store::{Db, StoreError, intern, on};
use belvedere_base::clock::Timestamp;
use belvedere_protocol::atproto::{Cid, RecordUri};

/// The condition on the account `d` under which its records answer at their URIs: it is visible, or an operator has hidden it
/// from lists only.
macro_rules! is_readable {
    () => {
        "(d.status = 0 OR d.status = 6 AND d.network_status = 0)"
    };
}
pub(super) use is_readable;

#[derive(sqlx::FromRow)]
pub(super) struct Row {
    cid: Option<Vec<u8>>,
    cid_verified: bool,
    pub(super) indexed_at: Timestamp,
    updated_at: Timestamp,
    pub(super) record: String,
    invalid_reason: Option<String>,
}

macro_rules! select {
    ($($condition:tt)*) => {
        concat!(
            "SELECT h.cid, h.cid_verified, h.indexed_at, h.updated_at, h.record, h.invalid_reason \
             FROM dids d CROSS JOIN hidden_records h WHERE d.did = $2 AND h.collection_id = $1 AND h.did_id = d.id \
                 AND h.rkey = $3 AND h.record IS NOT NULL",
            $($condition)*
        )
    };
}

impl Row {
    pub(super) fn read(self, uri: &RecordUri) -> Result<FullRecordRow, StoreError> {
        let cid = self.cid.map(|bytes| Cid::from_bytes(&bytes)).transpose();
        let row = RecordRow {
            // It has no place in a list.
            id: 0,
            did: uri.did.to_string(),
            collection: uri.collection.clone(),
            rkey: uri.rkey.to_string(),
            indexed_at: self.indexed_at,
            cid: cid.map_err(|_| StoreError::Corrupt("the CID of a hidden record".to_owned()))?,
            record: Bytes::from(self.record),
        };
        let (cid_verified, updated_at) = (self.cid_verified, self.updated_at);
        Ok(FullRecordRow { row, cid_verified, updated_at, invalid_reason: self.invalid_reason })
    }
}

/// A record that is hidden but not taken down.
pub(super) async fn readable(
    db: &Db,
    collection: Collection,
    uri: &RecordUri,
) -> Result<Option<RecordRow>, StoreError> {
    let sql = select!(" AND h.is_readable = TRUE AND ", is_readable!());
    macro_rules! fetch {
        ($db:expr) => {
            sqlx::query_as(sql)
                .bind(collection.id)
                .bind(uri.did.as_str())
                .bind(uri.rkey.as_str())
                .fetch_optional($db.read_pool.reads())
                .await?
        };
    }
    let found: Option<Row> = match db {
        Db::Sqlite(db) => fetch!(db),
        Db::Postgres(db) => fetch!(db),
    };
    Ok(found.map(|row| row.read(uri)).transpose()?.map(|full| full.row))
}

/// The statement of [`moderated`].
pub(in crate::store) const MODERATED: &str = select!();

/// A moderated record that its repo still has, for operators.
pub async fn moderated(db: &Db, uri: &RecordUri) -> Result<Option<FullRecordRow>, StoreError> {
    let Some(collection) = intern::collection(db, &uri.collection).await? else { return Ok(None) };
    let found: Option<Row> = on!(db, reader, |pool| {
        let query =
            sqlx::query_as(MODERATED).bind(collection.id).bind(uri.did.as_str()).bind(uri.rkey.as_str());
        query.fetch_optional(pool).await
    })?;
    found.map(|row| row.read(uri)).transpose()
}
