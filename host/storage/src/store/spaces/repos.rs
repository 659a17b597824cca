//! The state of repos: of an author in a space.

use belvedere_base::hand_over_thread::hand_over_thread;
use belvedere_protocol::atproto::{Cid, Did, Tid};
use belvedere_protocol::spaces::{RecordPath, SetHash};

use super::super::{Db, StoreError, on};
use super::columns::{self, SpaceId, corrupt};

/// The state of a repo after its last commit. Commits are signed when they are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepoState {
    pub rev: Tid,
    pub hash: SetHash,
    pub records: u64,
    /// The bytes of the records, at most, if the repo is at another host and these were read there; `None` for a repo that is here.
    pub copied_bytes: Option<u64>,
}

/// The server that has a repo.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RepoHost {
    Here,
    /// A service that has named itself in a notice.
    Named(Did),
    /// The PDS of the author.
    Unnamed,
}

impl RepoHost {
    pub(super) fn read(is_here: bool, named: Option<String>) -> Result<Self, StoreError> {
        Ok(match named {
            _ if is_here => Self::Here,
            Some(did) => Self::Named(columns::did("space_writers.host", &did)?),
            None => Self::Unnamed,
        })
    }
}

/// The rev, the state of the hash, the number of records, and the bytes of a copy.
pub(super) type RawState = (String, Vec<u8>, i64, Option<i64>);

impl RepoState {
    /// Whether the repo is at another host.
    pub fn is_copy(&self) -> bool {
        self.copied_bytes.is_some()
    }

    pub(super) fn read((rev, hash, records, copied): RawState) -> Result<Self, StoreError> {
        let hash = SetHash::from_bytes(&hash);
        Ok(Self {
            rev: columns::tid("space_repos.rev", &rev)?,
            hash: hash.ok_or_else(|| corrupt("space_repos.set_hash", "it does not have 2048 bytes"))?,
            records: records.max(0) as u64,
            copied_bytes: copied.map(|bytes| bytes.max(0) as u64),
        })
    }
}

pub(super) const SELECT_STATE: &str =
    "SELECT rev, set_hash, records, copied_bytes FROM space_repos WHERE space_id = $1 AND author = $2";

/// The state of a repo; `None` if the author has written nothing in the space.
pub async fn state(db: &Db, space: SpaceId, author: &Did) -> Result<Option<RepoState>, StoreError> {
    let row: Option<RawState> = on!(db, reader, |pool| {
        sqlx::query_as(SELECT_STATE).bind(space).bind(author.as_str()).fetch_optional(pool).await
    })?;
    row.map(RepoState::read).transpose()
}

/// A repo at one moment: its state, and the path and CID of every record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    pub state: RepoState,
    pub records: Vec<(RecordPath, Cid)>,
}

/// A repo for an export. The records are read by path afterwards; one that has another CID by then means that the export must
/// begin again.
pub async fn snapshot(db: &Db, space: SpaceId, author: &Did) -> Result<Option<Snapshot>, StoreError> {
    // One statement sees one moment. The first row has the state, the others the records.
    let sql = "SELECT rev, set_hash, records, copied_bytes, NULL AS collection, NULL AS rkey, NULL AS cid FROM space_repos \
               WHERE space_id = $1 AND author = $2 \
               UNION ALL SELECT NULL, NULL, NULL, NULL, collection, rkey, cid FROM space_records \
               WHERE space_id = $1 AND author = $2";
    let rows: Vec<Row> = on!(db, reader, |pool| {
        sqlx::query_as(sql).bind(space).bind(author.as_str()).fetch_all(pool).await
    })?;
    hand_over_thread(rows.len() * SNAPSHOT_ROW_BYTES, || snapshot_of(rows))
}

/// Bytes of a row of a snapshot.
const SNAPSHOT_ROW_BYTES: usize = 100;

fn snapshot_of(rows: Vec<Row>) -> Result<Option<Snapshot>, StoreError> {
    let (mut state, mut records) = (None, Vec::with_capacity(rows.len()));
    for row in rows {
        match row {
            (Some(rev), Some(hash), Some(count), copied, ..) => {
                state = Some(RepoState::read((rev, hash, count, copied))?);
            }
            (.., Some(collection), Some(rkey), Some(cid)) => {
                records.push((columns::path(&collection, &rkey)?, columns::cid("space_records.cid", &cid)?));
            }
            _ => return Err(corrupt("space_records", "a column is NULL")),
        }
    }
    Ok(state.map(|state| Snapshot { state, records }))
}

type Row = (
    Option<String>,
    Option<Vec<u8>>,
    Option<i64>,
    Option<i64>,
    Option<String>,
    Option<String>,
    Option<Vec<u8>>,
);
