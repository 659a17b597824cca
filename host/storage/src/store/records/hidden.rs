//! Reads moderated records for operators (ADR 127).

use bytes::Bytes;

use super::{FullRecordRow, RecordRow};
use crate::store::{Db, StoreError, intern, on};
use belvedere_base::clock::Timestamp;
use belvedere_protocol::atproto::{Cid, RecordUri};

#[derive(sqlx::FromRow)]
pub(super) struct Row {
    cid: Option<Vec<u8>>,
    cid_verified: bool,
    pub(super) indexed_at: Timestamp,
    updated_at: Timestamp,
    pub(super) record: String,
    invalid_reason: Option<String>,
}

/// The statement of [`moderated`].
pub(in crate::store) const MODERATED: &str = "SELECT h.cid, h.cid_verified, h.indexed_at, h.updated_at, h.record, h.invalid_reason \
     FROM dids d CROSS JOIN hidden_records h WHERE d.did = $2 AND h.collection_id = $1 AND h.did_id = d.id AND h.rkey = $3 \
         AND h.record IS NOT NULL";

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
