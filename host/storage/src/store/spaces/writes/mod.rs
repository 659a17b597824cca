//! Writes batches to repos: records, log, hash, revs and notices in one transaction.

mod followed;
mod plan;
pub(super) mod rows;

use belvedere_base::clock::Timestamp;
use belvedere_protocol::atproto::{Cid, Did, Tid};
use belvedere_protocol::spaces::RecordPath;
use belvedere_protocol::spaces::oplog::Change;

use super::super::{Db, StoreError, intern};
use super::columns::{self, SpaceId};
use super::deliveries::ENQUEUE;
use super::revs::next_rev;
use super::transaction::with_space;
use super::writers::{Listed, SELECT_REV, Tracked, store_tracked};
use plan::Plan;
use rows::{load, store};

pub use followed::{ROW_BYTES, Synced, SyncedChange, Synchronized, replace, synchronize};

/// Writes in a batch, as in batches of repos.
pub const MAX_WRITES: usize = 200;

/// Records in one repo. An export has the paths of all of them in memory: some 300 bytes for each.
pub const MAX_RECORDS: u64 = 100_000;

/// A write to one record.
#[derive(Clone, Debug)]
pub struct Write {
    pub path: RecordPath,
    /// `None` deletes the record.
    pub record: Option<NewRecord>,
    pub requires: Precondition,
}

/// A record to store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRecord {
    /// The CID of the record's canonical DAG-CBOR.
    pub cid: Cid,
    /// The canonical JSON text, from which the same DAG-CBOR is encoded.
    pub text: String,
    /// The CIDs of the blobs that it refers to, as text.
    pub blobs: Vec<String>,
}

/// The state in which a write must find its record. Writes before it in the batch count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precondition {
    Any,
    /// To create it.
    Absent,
    /// To update or delete it.
    Present,
    /// To replace or delete this version.
    Version(Cid),
}

/// A batch for one repo.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    pub space: SpaceId,
    pub author: &'a Did,
    pub writes: &'a [Write],
    /// The rev that the space must have, as the caller knows it.
    pub swap_commit: Option<&'a str>,
    /// Whether the author is a writer of the space: then the write gets a space rev and a place in the list of repos. In a space
    /// of another host it has no effect: that host decides.
    pub is_writer: bool,
    pub now: Timestamp,
}

/// A batch that was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// The rev of the repo; that of the commit before if the batch changed nothing.
    pub rev: Option<Tid>,
    /// The digest of the repo's records.
    pub hash: [u8; 32],
    /// For each write its change; `None` for one that deleted nothing.
    pub changes: Vec<Option<Change>>,
    pub tracked: Option<Tracked>,
}

/// The reason why nothing of a batch was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("there is no such space")]
    NoSpace,
    #[error("the repo is at another host, which takes the writes to it")]
    Elsewhere,
    #[error("a batch has at most {MAX_WRITES} writes")]
    TooManyWrites,
    #[error("a repo has at most {MAX_RECORDS} records in a space")]
    TooManyRecords,
    #[error("the space has another revision")]
    OtherCommit,
    #[error("write {0}: the record exists")]
    Exists(usize),
    #[error("write {0}: the record does not exist")]
    NotFound(usize),
    #[error("write {0}: the record has another CID")]
    OtherVersion(usize),
    #[error("write {0}: the record is too large")]
    TooLarge(usize),
}

/// Applies a batch, or nothing of it. Batches of one space come one after the other; in the log each has a rev, which its
/// changes share. A record that is written twice is changed twice.
///
/// # Errors
/// The outer error is of the database. The caller may apply the batch again unless the connection was lost.
pub async fn apply(db: &Db, batch: &Batch<'_>) -> Result<Result<Applied, Refused>, StoreError> {
    if let Err(refused) = plan::check_sizes(batch.writes) {
        return Ok(Err(refused));
    }
    // So that the stream reports when the account is deleted.
    intern::did_ids(db, std::iter::once(batch.author)).await?;
    let (space, author, now) = (batch.space, batch.author, batch.now);
    with_space!(db, space, |tx, locked| {
        let Some(locked) = locked else { return Ok(Err(Refused::NoSpace)) };
        let rev = locked.rev.map(|rev| rev.to_string());
        if batch.swap_commit.is_some_and(|expected| rev.as_deref() != Some(expected)) {
            return Ok(Err(Refused::OtherCommit));
        }
        let before = load!(db, tx, space, author, batch.writes.iter().map(|write| &write.path));
        let mut plan = Plan::new(before);
        let listed: Option<String> =
            sqlx::query_scalar(SELECT_REV).bind(space).bind(author.as_str()).fetch_optional(&mut *tx).await?;
        // The entries of a space of another host are what that host says: they refuse no write, and set no rev.
        let listed = listed.filter(|_| locked.is_hosted);
        let is_here = plan.state_before().map_or(listed.is_none(), |state| !state.is_copy());
        if !is_here {
            return Ok(Err(Refused::Elsewhere));
        }
        let changes = match plan.write_all(batch.writes) {
            Ok(changes) => changes,
            Err(refused) => return Ok(Err(refused)),
        };
        let (last, hash) = (plan.last_rev(), plan.digest());
        if plan.is_empty() {
            return Ok(Ok(Applied { rev: last, hash, changes, tracked: None }));
        }
        // A notice may have listed the repo with a later rev: its author has one at another host too.
        let listed = listed.map(|rev| columns::tid("space_writers.rev", &rev)).transpose()?;
        let rev = next_rev(last.max(listed), now)?;
        store!(db, tx, space, author, plan, plan.ops(rev), rev, None, now);
        let tracked = (locked.is_hosted && batch.is_writer).then_some(locked.rev);
        let tracked = match tracked {
            None => None,
            Some(previous) => Some(Tracked { space_rev: next_rev(previous, now)?, previous }),
        };
        if let Some(Tracked { space_rev, previous }) = tracked {
            let listed = Listed { author: author.clone(), rev, hash, host: None, space_rev };
            store_tracked!(tx, space, &listed, previous, now);
        }
        if !locked.is_hosted {
            sqlx::query(ENQUEUE)
                .bind(space)
                .bind(author.as_str())
                .bind(rev.to_string())
                .bind(&hash[..])
                .bind(None::<String>)
                .bind(None::<String>)
                .bind(now)
                .execute(&mut *tx)
                .await?;
        }
        tx.commit().await?;
        Ok(Ok(Applied { rev: Some(rev), hash, changes, tracked }))
    })
}
