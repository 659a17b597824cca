//! Lists moderated records, for operators (ADR 127, 133).

use sqlx::AssertSqlSafe;

use super::super::select::{Accounts, By, Columns, INLINE_BYTES, Select};
use super::super::{Db, StoreError, intern, on};
use super::{FullRecordRow, PAGE_BYTES, Page, hidden};
use crate::query::{PageSize, Query};
use belvedere_base::clock::Timestamp;
use belvedere_protocol::atproto::{Did, Nsid, RecordKey, RecordUri};

/// Moderated records of a collection, newest first.
#[derive(Clone, Debug)]
pub struct ModeratedQuery {
    pub collection: Nsid,
    pub did: Option<Did>,
    pub rkey: Option<RecordKey>,
    /// Only those after this one.
    pub after: Option<ModeratedPlace>,
    pub limit: u32,
}

/// The place of a record in the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModeratedPlace {
    pub indexed_at: Timestamp,
    pub did_id: i64,
    pub rkey: String,
}

#[derive(sqlx::FromRow)]
struct Row {
    did_id: i64,
    did: String,
    rkey: String,
    /// Without its record if that is larger than a statement of many rows may return.
    #[sqlx(flatten)]
    content: hidden::Row,
}

/// The statement for a list with these conditions. It walks an index in the order of the list.
pub(in crate::store) fn list_sql(has_did: bool, has_rkey: bool) -> String {
    let did =
        if has_did { "h.did_id = (SELECT id FROM dids WHERE did = $6)" } else { "CAST($6 AS TEXT) IS NULL" };
    let rkey = if has_rkey { "h.rkey = $7" } else { "CAST($7 AS TEXT) IS NULL" };
    format!(
        "SELECT h.did_id, (SELECT d.did FROM dids d WHERE d.id = h.did_id) AS did, h.rkey, h.cid, h.cid_verified, h.indexed_at, \
             h.updated_at, CASE WHEN octet_length(h.record) <= {INLINE_BYTES} THEN h.record ELSE '' END AS record, h.invalid_reason \
         FROM hidden_records h WHERE h.collection_id = $1 AND h.record IS NOT NULL \
             AND (h.indexed_at, h.did_id, h.rkey) < ($2, $3, $4) AND {did} AND {rkey} \
         ORDER BY h.indexed_at DESC, h.did_id DESC, h.rkey DESC LIMIT $5"
    )
}

/// The records of a page that are moderated by themselves, and the place of the last one if more follow.
pub async fn page(
    db: &Db,
    query: &ModeratedQuery,
) -> Result<(Vec<FullRecordRow>, Option<ModeratedPlace>), StoreError> {
    let Some(collection) = intern::collection(db, &query.collection).await? else {
        return Ok((Vec::new(), None));
    };
    let sql = list_sql(query.did.is_some(), query.rkey.is_some());
    let first = ModeratedPlace { indexed_at: Timestamp(i64::MAX), did_id: i64::MAX, rkey: String::new() };
    let after = query.after.as_ref().unwrap_or(&first);
    let mut found: Vec<Row> = on!(db, reader, |pool| {
        sqlx::query_as(AssertSqlSafe(sql))
            .bind(collection.id)
            .bind(after.indexed_at)
            .bind(after.did_id)
            .bind(&after.rkey)
            .bind(i64::from(PageSize::rows_read(query.limit)))
            .bind(query.did.as_ref().map(Did::as_str))
            .bind(query.rkey.as_ref().map(RecordKey::as_str))
            .fetch_all(pool)
            .await
    })?;
    let mut has_more = found.len() > query.limit as usize;
    found.truncate(query.limit as usize);
    let (mut rows, mut bytes, mut last) = (Vec::with_capacity(found.len()), 0, None);
    for row in found {
        if bytes >= PAGE_BYTES {
            has_more = true;
            break;
        }
        let indexed_at = row.content.indexed_at;
        last = Some(ModeratedPlace { indexed_at, did_id: row.did_id, rkey: row.rkey.clone() });
        if let Some(full) = complete(db, row, &query.collection).await? {
            bytes += full.row.record.len();
            rows.push(full);
        }
    }
    Ok((rows, last.filter(|_| has_more)))
}

/// The record with its content; `None` when it was deleted, or its decision lifted, during the read.
async fn complete(db: &Db, row: Row, collection: &Nsid) -> Result<Option<FullRecordRow>, StoreError> {
    let uri = format!("at://{}/{collection}/{}", row.did, row.rkey);
    let uri = RecordUri::parse(&uri).map_err(|_| StoreError::Corrupt(format!("a hidden record {uri}")))?;
    if row.content.record.is_empty() {
        return hidden::moderated(db, &uri).await;
    }
    row.content.read(&uri).map(Some)
}

/// A page of a query for the records of one account, also while the account is hidden.
///
/// # Errors
/// When the database can't be read.
pub async fn of_account(db: &Db, query: &Query) -> Result<Page<FullRecordRow>, StoreError> {
    let Some(collection) = intern::collection(db, &query.collection).await? else { return Ok(Page::empty()) };
    let select =
        Select { columns: Columns::Full, accounts: Accounts::All, ..Select::of(query, collection, By::Time) };
    select.complete(db, select.full_rows(db).await?).await
}
