//! The log of changes of a repo.

use belvedere_protocol::atproto::{Did, Tid};
use belvedere_protocol::spaces::oplog::{Change, Op, Position};

use super::super::{Db, StoreError, on};
use super::columns::{self, SpaceId, corrupt};
use super::page_bytes::{Taken, inline_record};
use super::records::{self, SpaceRecord};
use super::repos::RepoState;

/// A change, with the record if it is still the one that the change wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedOp {
    pub op: Op,
    /// JSON text.
    pub record: Option<String>,
}

/// A page of the log, and the state of the repo at the same moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpPage {
    pub ops: Vec<LoggedOp>,
    /// Whether changes follow. If not, `state` is the repo after the last change.
    pub has_more: bool,
    pub state: RepoState,
}

/// The rows of a page, and the row of the state, of one moment.
macro_rules! page {
    ($record:expr, $size:expr, $join:literal) => {
        concat!(
            "SELECT rev, idx, collection, rkey, cid, prev, record, size, set_hash, records, copied_bytes FROM \
                 (SELECT o.rev, o.idx, o.collection, o.rkey, o.cid, o.prev, ",
            $record,
            " AS record, ",
            $size,
            " AS size, CAST(NULL AS BYTEA) AS set_hash, CAST(NULL AS BIGINT) AS records, CAST(NULL AS BIGINT) AS copied_bytes FROM space_ops o ",
            $join,
            " WHERE o.space_id = $1 AND o.author = $2 AND (o.rev, o.idx) > ($3, $4) ORDER BY o.rev, o.idx LIMIT $5) AS page \
             UNION ALL SELECT rev, NULL, NULL, NULL, NULL, NULL, NULL, NULL, set_hash, records, copied_bytes FROM space_repos \
             WHERE space_id = $1 AND author = $2"
        )
    };
}

/// A page of the log after a position. `with_records`: whether records that are still current are read. `None` if the author has
/// written nothing in the space.
pub async fn page(
    db: &Db,
    space: SpaceId,
    author: &Did,
    after: Option<Position>,
    limit: u32,
    with_records: bool,
) -> Result<Option<OpPage>, StoreError> {
    let sql = if with_records {
        page!(
            inline_record!(),
            inline_record!(size),
            "LEFT JOIN space_records r ON r.space_id = o.space_id AND r.author = o.author \
                 AND r.collection = o.collection AND r.rkey = o.rkey AND r.cid = o.cid"
        )
    } else {
        page!("CAST(NULL AS TEXT)", "CAST(NULL AS BIGINT)", "")
    };
    let (rev, index) =
        after.map_or((String::new(), -1), |after| (after.rev.to_string(), i64::from(after.index)));
    // One row more tells whether changes follow.
    let rows: Vec<Row> = on!(db, reader, |pool| {
        sqlx::query_as(sql)
            .bind(space)
            .bind(author.as_str())
            .bind(&rev)
            .bind(index)
            .bind(i64::from(limit) + 1)
            .fetch_all(pool)
            .await
    })?;
    let (mut ops, mut state) = (Vec::with_capacity(rows.len()), None);
    for row in rows {
        if let (Some(hash), Some(records)) = (row.set_hash.as_ref(), row.records) {
            state = Some(RepoState::read((row.rev, hash.clone(), records, row.copied_bytes))?);
        } else {
            let size = row.size;
            ops.push((row.read()?, size));
        }
    }
    // A union has no order.
    ops.sort_unstable_by_key(|(logged, _): &(LoggedOp, _)| logged.op.position);
    let mut has_more = ops.len() > limit as usize;
    let (rows, mut taken) = (ops, Taken::default());
    let mut ops = Vec::with_capacity(rows.len());
    for (mut logged, size) in rows.into_iter().take(limit as usize) {
        if let Some(size) = size {
            if !taken.take(size) {
                has_more = true;
                break;
            }
            if logged.record.is_none() {
                let found = records::get(db, space, author, &logged.op.path).await?;
                let is_current = |found: &SpaceRecord| Some(found.cid) == logged.op.change.cid();
                logged.record = found.filter(is_current).and_then(|found| found.text);
            }
        }
        ops.push(logged);
    }
    Ok(state.map(|state| OpPage { ops, has_more, state }))
}

/// Whether a reader that stopped at a commit can go on from there: the log has its changes, or it is the last one. If not, it must
/// read the whole repo.
pub async fn has_commit(db: &Db, space: SpaceId, author: &Did, rev: Tid) -> Result<bool, StoreError> {
    let sql = "SELECT EXISTS (SELECT 1 FROM space_ops WHERE space_id = $1 AND author = $2 AND rev = $3) \
                   OR EXISTS (SELECT 1 FROM space_repos WHERE space_id = $1 AND author = $2 AND rev = $3)";
    Ok(on!(db, reader, |pool| {
        let query = sqlx::query_scalar(sql).bind(space).bind(author.as_str());
        query.bind(rev.to_string()).fetch_one(pool).await
    })?)
}

#[derive(sqlx::FromRow)]
struct Row {
    rev: String,
    idx: Option<i64>,
    collection: Option<String>,
    rkey: Option<String>,
    cid: Option<Vec<u8>>,
    prev: Option<Vec<u8>>,
    record: Option<String>,
    /// Bytes of the current record, if it is that of the change.
    size: Option<i64>,
    set_hash: Option<Vec<u8>>,
    records: Option<i64>,
    copied_bytes: Option<i64>,
}

impl Row {
    fn read(self) -> Result<LoggedOp, StoreError> {
        let missing = || corrupt("space_ops", "a column is NULL");
        let cid =
            |bytes: Option<Vec<u8>>| bytes.map(|bytes| columns::cid("space_ops.cid", &bytes)).transpose();
        let rev = columns::tid("space_ops.rev", &self.rev)?;
        let index = self.idx.and_then(|index| u32::try_from(index).ok()).ok_or_else(missing)?;
        let (collection, rkey) = self.collection.zip(self.rkey).ok_or_else(missing)?;
        let op = Op {
            position: Position { rev, index },
            path: columns::path(&collection, &rkey)?,
            change: Change::of(cid(self.prev)?, cid(self.cid)?).ok_or_else(missing)?,
        };
        Ok(LoggedOp { op, record: self.record })
    }
}
