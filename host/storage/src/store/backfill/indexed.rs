//! Reads which accounts and records the index has, to compare them with the relay's and a PDS's lists.

use sqlx::AssertSqlSafe;

use super::work::{Discovery, add_repos};
use crate::store::index::{AccountStatus, RevLimit};
use crate::store::partitions::{PerPartition, Tables};
use crate::store::types::to_json_text;
use crate::store::{Db, StoreError, intern, on};
use belvedere_base::clock::Timestamp;
use belvedere_protocol::atproto::{Cid, Did, Nsid, RecordKey};

/// A record of the index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexedRow {
    pub rkey: RecordKey,
    /// The TID as an integer. 0 instead of one of the future, which counts as none, as in [`crate::store::index::apply`]:
    /// so a list corrects such a row.
    pub rev: u64,
    pub cid: Option<Cid>,
}

/// A range of record keys, in the order of their bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyRange {
    /// Exclusive; `None`: no end.
    pub below: Option<RecordKey>,
    /// Inclusive; `None`: from the lowest.
    pub from: Option<RecordKey>,
}

/// An account of the index.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct IndexedAccount {
    /// Ascends; pages continue after it.
    pub id: i64,
    pub did: String,
}

/// Records of one part of a range.
const ROWS_PER_PART: usize = 1_000;

type Row = (String, i64, Option<Vec<u8>>);

pub(in crate::store) static SELECT: PerPartition<String> =
    PerPartition::new(|Tables { records, .. }| select(records));

fn select(records: &str) -> String {
    format!(
        "SELECT r.rkey, r.rev, r.cid FROM {records} r \
     WHERE r.collection_id = $1 AND r.did_id = (SELECT id FROM dids WHERE did = $2)"
    )
}

/// Moderated records are compared too: they are kept up to date.
fn select_moderated() -> String {
    select("hidden_records") + " AND r.record IS NOT NULL"
}

/// The index's records of a collection of a repo.
#[derive(Clone, Copy, Debug)]
pub struct IndexedRecords<'a> {
    db: &'a Db,
    did: &'a Did,
    collection: &'a Nsid,
    limit: RevLimit,
}

impl<'a> IndexedRecords<'a> {
    /// `now`: the time that decides which revs are of the future.
    pub async fn open(
        db: &'a Db,
        did: &'a Did,
        collection: &'a Nsid,
        now: Timestamp,
    ) -> Result<Self, StoreError> {
        Ok(Self { db, did, collection, limit: RevLimit::read(db, now).await? })
    }

    /// The records in a range of record keys, the highest key first, at most `max`.
    pub async fn in_range(&self, range: &KeyRange, max: usize) -> Result<Vec<IndexedRow>, StoreError> {
        let Some(collection) = intern::collection(self.db, self.collection).await? else {
            return Ok(Vec::new());
        };
        let select = SELECT.of(collection.partition);
        let (highest, lowest) =
            [&range.below, &range.from].map(|key| key.as_ref().map(RecordKey::as_str)).into();
        // An open end has no condition, so that the key's index is used for the others.
        let below = if range.below.is_some() { "r.rkey < $3" } else { "CAST($3 AS TEXT) IS NULL" };
        // Every key is greater than the empty text.
        let mut rows: Vec<Row> = Vec::new();
        for select in [*select, &select_moderated()] {
            let sql = format!("{select} AND {below} AND r.rkey >= $4 ORDER BY r.rkey DESC LIMIT $5");
            let found: Vec<Row> = on!(self.db, reader, |pool| {
                let query = sqlx::query_as(AssertSqlSafe(sql)).bind(collection.id).bind(self.did.as_str());
                let query = query.bind(highest).bind(lowest.unwrap_or_default());
                query.bind(max as i64).fetch_all(pool).await
            })?;
            rows.extend(found);
        }
        rows.sort_unstable_by(|(a, ..), (b, ..)| b.cmp(a));
        rows.truncate(max);
        rows.into_iter().map(|row| self.read(row)).collect()
    }

    /// The records with the highest keys of a range, and the rest of the range; `None`: these were all.
    pub async fn part(&self, range: KeyRange) -> Result<(Vec<IndexedRow>, Option<KeyRange>), StoreError> {
        let rows = self.in_range(&range, ROWS_PER_PART).await?;
        let last = rows.last().filter(|_| rows.len() == ROWS_PER_PART).map(|row| row.rkey.clone());
        let rest = last.map(|last| KeyRange { below: Some(last), from: range.from });
        Ok((rows, rest))
    }

    /// The records with these keys.
    pub async fn with_keys(&self, keys: &[&str]) -> Result<Vec<IndexedRow>, StoreError> {
        let Some(collection) = intern::collection(self.db, self.collection).await? else {
            return Ok(Vec::new());
        };
        let select = SELECT.of(collection.partition);
        let list = match self.db {
            Db::Sqlite(_) => "SELECT value FROM json_each($3)",
            Db::Postgres(_) => "SELECT json_array_elements_text($3::json)",
        };
        let sql = format!(
            "{select} AND r.rkey IN ({list}) UNION ALL {} AND r.rkey IN ({list})",
            select_moderated()
        );
        let keys = to_json_text(keys);
        let rows: Vec<Row> = on!(self.db, reader, |pool| {
            let query = sqlx::query_as(AssertSqlSafe(sql)).bind(collection.id).bind(self.did.as_str());
            query.bind(keys).fetch_all(pool).await
        })?;
        rows.into_iter().map(|row| self.read(row)).collect()
    }

    fn read(&self, (rkey, rev, cid): Row) -> Result<IndexedRow, StoreError> {
        let corrupt = |what: &str| StoreError::Corrupt(format!("{what} of a record"));
        let rev = u64::try_from(rev).map_err(|_| corrupt("the rev"))?;
        Ok(IndexedRow {
            rkey: RecordKey::try_from(rkey.as_str()).map_err(|_| corrupt("the key"))?,
            rev: if self.limit.permits(rev) { rev } else { 0 },
            cid: cid.map(|bytes| Cid::from_bytes(&bytes).map_err(|_| corrupt("the CID"))).transpose()?,
        })
    }
}

/// The accounts of the index that are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Indexed<'a> {
    /// Those of which it ever had records and that were not deleted.
    Known,
    /// Those with records of a collection.
    With(&'a Nsid),
    /// The same, without those that are hidden.
    ActiveWith(&'a Nsid),
}

/// Accounts of the index in the order of their ids, after `after_id`, at most `limit`.
pub async fn accounts(
    db: &Db,
    which: Indexed<'_>,
    after_id: i64,
    limit: usize,
) -> Result<Vec<IndexedAccount>, StoreError> {
    static HAS_RECORDS: PerPartition<String> = PerPartition::new(|Tables { records, .. }| {
        format!("EXISTS (SELECT 1 FROM {records} r WHERE r.did_id = d.id AND r.collection_id = $3)")
    });
    let collection = match which {
        Indexed::Known => None,
        Indexed::With(nsid) | Indexed::ActiveWith(nsid) => match intern::collection(db, nsid).await? {
            Some(collection) => Some(collection),
            None => return Ok(Vec::new()),
        },
    };
    let condition = match collection {
        Some(collection) => *HAS_RECORDS.of(collection.partition),
        None => "coalesce(d.network_status, d.status) <> 4 AND CAST($3 AS BIGINT) IS NULL",
    };
    let visible = if matches!(which, Indexed::ActiveWith(_)) {
        "AND coalesce(d.network_status, d.status) = 0"
    } else {
        ""
    };
    let sql = format!(
        "SELECT d.id, d.did FROM dids d WHERE d.id > $1 AND {condition} {visible} ORDER BY d.id LIMIT $2"
    );
    Ok(on!(db, reader, |pool| {
        let query = sqlx::query_as(AssertSqlSafe(sql)).bind(after_id).bind(limit as i64);
        query.bind(collection.map(|collection| collection.id)).fetch_all(pool).await
    })?)
}

/// The status of an account in the network, by its last account event, whether or not it is moderated here; `None` when the
/// index never had records of it.
pub async fn account_status(db: &Db, did: &Did) -> Result<Option<AccountStatus>, StoreError> {
    let sql = "SELECT CAST(coalesce(network_status, status) AS BIGINT) FROM dids WHERE did = $1";
    let status: Option<i64> =
        on!(db, reader, |pool| sqlx::query_scalar(sql).bind(did.as_str()).fetch_optional(pool).await)?;
    status
        .map(|status| {
            AccountStatus::of_number(status)
                .ok_or_else(|| StoreError::Corrupt(format!("the status of an account: {status}")))
        })
        .transpose()
}

/// The name under which the position in the index's accounts is stored, before that of a collection. It has a
/// parenthesis, so it is not a list of the relay's.
const INDEX: &str = "(index)";

/// Adds the next `limit` accounts of the index to the repos of a job, and how far the index was read, in one
/// transaction. Returns the DIDs that the job did not have yet; `None` when there are no more accounts.
pub async fn add_indexed_repos(
    db: &Db,
    seq: i64,
    which: Indexed<'_>,
    limit: usize,
) -> Result<Option<Vec<String>>, StoreError> {
    let name = match which {
        Indexed::Known => INDEX.to_owned(),
        Indexed::With(collection) | Indexed::ActiveWith(collection) => format!("{INDEX} {collection}"),
    };
    let progress = super::discovery(db, seq).await?.into_iter().find(|progress| progress.collection == name);
    let after = match progress {
        Some(Discovery { is_done: true, .. }) => return Ok(None),
        Some(Discovery { cursor, .. }) => cursor.and_then(|id| id.parse().ok()).unwrap_or(0),
        None => 0,
    };
    let found = accounts(db, which, after, limit).await?;
    let next = found.last().filter(|_| found.len() == limit).map(|last| last.id.to_string());
    let dids: Vec<String> = found.into_iter().map(|account| account.did).collect();
    add_repos(db, seq, &name, &dids, next.as_deref()).await.map(Some)
}
