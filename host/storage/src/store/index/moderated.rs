//! Moves a record out of the index when it is moderated, and back when that is lifted (ADR 127).

use bytes::Bytes;
use sqlx::{PgConnection, SqliteConnection};

use super::plan::{Plan, Row, locks};
use super::{ApplyReport, CheckedRecord, StoreError, Validity, postgres, sqlite, take_out};
use crate::store::counts::Changes;
use crate::store::intern::Collection;
use crate::store::partitions::{PerPartition, Tables};
use belvedere_base::clock::Timestamp;
use belvedere_protocol::atproto::{Cid, Did, RecordUri, record};

/// A record, with the ids of its collection and its account.
#[derive(Clone, Copy, Debug)]
pub(in crate::store) struct ModeratedRecord<'a> {
    pub uri: &'a RecordUri,
    pub collection: Collection,
    pub did_id: i64,
}

/// The content of a moderated record.
#[derive(sqlx::FromRow)]
struct HiddenRow {
    cid: Option<Vec<u8>>,
    cid_verified: bool,
    rev: i64,
    indexed_at: Timestamp,
    updated_at: Timestamp,
    record: Option<String>,
    invalid_reason: Option<String>,
}

/// Sets what a URI answers, also of a record that the index does not have: it stays hidden when it arrives.
const MARK: &str = "INSERT INTO hidden_records (collection_id, did_id, rkey, is_readable, cid_verified, rev, indexed_at, updated_at) \
     VALUES ($1, $2, $3, $4, FALSE, 0, 0, 0) \
     ON CONFLICT (collection_id, did_id, rkey) DO UPDATE SET is_readable = excluded.is_readable";

const TAKE: &str = "DELETE FROM hidden_records WHERE collection_id = $1 AND did_id = $2 AND rkey = $3 \
     RETURNING cid, cid_verified, rev, indexed_at, updated_at, record, invalid_reason";

/// Gives a record that is back the times that it had.
static SET_TIMES: PerPartition<String> = PerPartition::new(|Tables { records, .. }| {
    format!(
        "UPDATE {records} SET indexed_at = $4, updated_at = $5 WHERE collection_id = $1 AND did_id = $2 AND rkey = $3"
    )
});

/// A transaction that moderates records. The caller begins with [`Self::lock`], and counts.
pub(in crate::store) trait Moderation {
    /// Waits for batches of other hosts with the same repo, until the transaction ends.
    async fn lock(&mut self, did: &Did) -> Result<(), StoreError>;

    /// Takes a record out of the index. `is_readable`: whether its URI still answers.
    async fn hide(
        &mut self,
        record: ModeratedRecord<'_>,
        is_readable: bool,
        changes: &mut Changes,
    ) -> Result<(), StoreError>;

    /// Puts a record back as its repo has it now, with the time at which it was indexed first.
    async fn restore(
        &mut self,
        record: ModeratedRecord<'_>,
        now: Timestamp,
        changes: &mut Changes,
    ) -> Result<(), StoreError>;
}

macro_rules! moderation {
    ($connection:ty, $take_out:path, |$conn:ident, $did:ident| $lock:expr, |$to:ident, $plan:ident, $changes:ident| $insert:expr) => {
        impl Moderation for $connection {
            async fn lock(&mut self, $did: &Did) -> Result<(), StoreError> {
                let $conn = self;
                $lock
            }

            async fn hide(
                &mut self,
                record: ModeratedRecord<'_>,
                is_readable: bool,
                changes: &mut Changes,
            ) -> Result<(), StoreError> {
                let ModeratedRecord { uri, collection, did_id } = record;
                let key = (collection.id, did_id, uri.rkey.as_str());
                $take_out(&mut *self, collection.partition, key, changes).await?;
                let query = sqlx::query(MARK).bind(collection.id).bind(did_id).bind(uri.rkey.as_str());
                query.bind(is_readable).execute(&mut *self).await?;
                Ok(())
            }

            async fn restore(
                &mut self,
                record: ModeratedRecord<'_>,
                now: Timestamp,
                $changes: &mut Changes,
            ) -> Result<(), StoreError> {
                let ModeratedRecord { uri, collection, did_id } = record;
                let query = sqlx::query_as(TAKE).bind(collection.id).bind(did_id).bind(uri.rkey.as_str());
                let hidden: Vec<HiddenRow> = query.fetch_all(&mut *self).await?;
                let Some(hidden) = hidden.into_iter().next() else { return Ok(()) };
                let (times, rev) = ([hidden.indexed_at, hidden.updated_at], hidden.rev);
                let Some(checked) = checked(hidden)? else { return Ok(()) };
                let text = std::str::from_utf8(&checked.text)
                    .map_err(|error| StoreError::Corrupt(error.to_string()))?;
                let (partition, collection_id) = (collection.partition, collection.id);
                let row = Row { partition, collection_id, did_id, rev, text, uri, record: &checked };
                let ($to, $plan) = (&mut *self, &Plan::of_row(row, now));
                $insert;
                let query = sqlx::query(*SET_TIMES.of(partition)).bind(collection_id).bind(did_id);
                let query = query.bind(uri.rkey.as_str()).bind(times[0]).bind(times[1]);
                query.execute(&mut *self).await?;
                Ok(())
            }
        }
    };
}
moderation!(
    SqliteConnection,
    take_out::sqlite,
    |_conn, _did| {
        // One connection writes.
        Ok(())
    },
    |to, plan, changes| sqlite::upsert(to, plan, changes, &mut ApplyReport::default()).await?
);
moderation!(
    PgConnection,
    take_out::postgres,
    |conn, did| Ok(postgres::lock_repos(conn, &locks(std::iter::once(did))).await?),
    |to, plan, changes| postgres::insert_one(to, plan, changes).await?
);

/// The record to put back, with the references that it has; `None` when its repo has it no longer.
fn checked(hidden: HiddenRow) -> Result<Option<CheckedRecord>, StoreError> {
    let Some(text) = hidden.record else { return Ok(None) };
    let cid = hidden.cid.map(|bytes| Cid::from_bytes(&bytes)).transpose();
    let inspected = record::inspect(text.as_bytes());
    Ok(Some(CheckedRecord {
        cid: cid.map_err(|_| StoreError::Corrupt("the CID of a hidden record".to_owned()))?,
        cid_verified: hidden.cid_verified,
        // A record that was stored before a rule of today is put back all the same.
        refs: inspected.map(|found| found.refs).unwrap_or_default(),
        validity: match hidden.invalid_reason {
            Some(reason) => Validity::Invalid(reason.into()),
            None => Validity::Valid,
        },
        text: Bytes::from(text),
    }))
}
