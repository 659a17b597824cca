//! Copies repos of other hosts: by their log, or as a whole when the log does not connect.

use belvedere_base::clock::Timestamp;
use belvedere_protocol::atproto::{Did, Tid};
use belvedere_protocol::spaces::RecordPath;
use belvedere_protocol::spaces::oplog::{Op, Position};

use super::super::super::{Db, StoreError, intern};
use super::super::columns::SpaceId;
use super::super::repos::{RepoState, SELECT_STATE};
use super::super::transaction::with_space;
use super::plan::{Plan, is_too_large};
use super::rows::{before, load, store};
use super::{MAX_RECORDS, NewRecord};

/// The state to which a copy is brought. The caller has verified the commit.
#[derive(Clone, Copy, Debug)]
pub struct Synced<'a> {
    pub space: SpaceId,
    pub author: &'a Did,
    /// The rev of the copy as the caller has read it.
    pub from: Option<Tid>,
    /// The rev and the digest of the commit.
    pub rev: Tid,
    pub hash: [u8; 32],
    /// The bytes that the copy may have, as [`RepoState::copied_bytes`] counts them.
    pub max_bytes: u64,
    pub now: Timestamp,
}

impl Synced<'_> {
    /// The reason why a copy in this state is not changed.
    fn refusal(&self, state: Option<&RepoState>) -> Option<Synchronized> {
        let last = state.map(|state| state.rev);
        if state.is_some_and(|state| !state.is_copy()) {
            Some(Synchronized::Here)
        } else if last > Some(self.rev) {
            Some(Synchronized::Old)
        } else {
            (last != self.from).then_some(Synchronized::Raced)
        }
    }
}

/// A change of the log.
#[derive(Clone, Debug)]
pub struct SyncedChange {
    pub op: Op,
    /// The record after it; the last change of each record needs it.
    pub record: Option<NewRecord>,
}

/// The result of bringing a copy to a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Synchronized {
    Stored,
    /// The changes do not lead from the copy to the commit. Nothing has changed; the repo must be read as a whole.
    Diverged,
    /// The copy has another rev than the caller has read: another host has changed it.
    Raced,
    /// The copy has a later rev than the commit.
    Old,
    /// The repo is no copy: its author writes to it here.
    Here,
    /// A record is larger than records may be here, or there are more of them, so the repo can't be copied.
    TooLarge,
    /// The copy would have more bytes than it may. After a log they may be fewer in truth: what it adds is counted, not what it
    /// removes.
    Full,
    /// There is no such space, or it was deleted.
    NoSpace,
}

/// Applies the changes of a log to a copy, which has no log itself: only the host of a repo has one.
pub async fn synchronize(
    db: &Db,
    to: &Synced<'_>,
    changes: &[SyncedChange],
) -> Result<Synchronized, StoreError> {
    // So that the stream reports when the account is deleted.
    intern::did_ids(db, std::iter::once(to.author)).await?;
    if changes.iter().filter_map(|change| change.record.as_ref()).any(is_too_large) {
        return Ok(Synchronized::TooLarge);
    }
    with_space!(db, to.space, |tx, locked| {
        if locked.is_none() {
            return Ok(Synchronized::NoSpace);
        }
        let paths = changes.iter().map(|change| &change.op.path);
        let mut plan = Plan::new(load!(db, tx, to.space, to.author, paths));
        if let Some(refused) = to.refusal(plan.state_before()) {
            return Ok(refused);
        }
        let mut last = plan.last_rev().map(Position::end_of);
        for SyncedChange { op, record } in changes {
            let connects = plan.current(&op.path) == op.change.prev()
                && last < Some(op.position)
                && op.position.rev <= to.rev;
            if !connects {
                return Ok(Synchronized::Diverged);
            }
            last = Some(op.position);
            plan.write(&op.path, op.change.cid(), record.as_ref());
        }
        if !plan.is_complete() || plan.digest() != to.hash {
            return Ok(Synchronized::Diverged);
        }
        if plan.records() > MAX_RECORDS {
            return Ok(Synchronized::TooLarge);
        }
        let ops: [&Op; 0] = [];
        let before = plan.state_before().and_then(|state| state.copied_bytes).unwrap_or_default();
        let bytes = before + bytes_of(changes.iter().filter_map(|change| change.record.as_ref()));
        if bytes > to.max_bytes {
            return Ok(Synchronized::Full);
        }
        store!(db, tx, to.space, to.author, plan, ops, to.rev, Some(bytes), to.now);
        tx.commit().await?;
        Ok(Synchronized::Stored)
    })
}

/// Replaces a copy by all records of the repo.
pub async fn replace(
    db: &Db,
    to: &Synced<'_>,
    records: &[(RecordPath, NewRecord)],
) -> Result<Synchronized, StoreError> {
    // So that the stream reports when the account is deleted.
    intern::did_ids(db, std::iter::once(to.author)).await?;
    if records.len() as u64 > MAX_RECORDS || records.iter().any(|(_, record)| is_too_large(record)) {
        return Ok(Synchronized::TooLarge);
    }
    let bytes = bytes_of(records.iter().map(|(_, record)| record));
    if bytes > to.max_bytes {
        return Ok(Synchronized::Full);
    }
    let stored = "SELECT collection, rkey, cid FROM space_records WHERE space_id = $1 AND author = $2";
    with_space!(db, to.space, |tx, locked| {
        if locked.is_none() {
            return Ok(Synchronized::NoSpace);
        }
        let state = sqlx::query_as(SELECT_STATE).bind(to.space).bind(to.author.as_str());
        let state = state.fetch_optional(&mut *tx).await?;
        let stored = sqlx::query_as(stored).bind(to.space).bind(to.author.as_str());
        let plan = Plan::replacing(before(state, stored.fetch_all(&mut *tx).await?)?, records);
        if let Some(refused) = to.refusal(plan.state_before()) {
            return Ok(refused);
        }
        if plan.digest() != to.hash {
            return Ok(Synchronized::Diverged);
        }
        let ops: [&Op; 0] = [];
        store!(db, tx, to.space, to.author, plan, ops, to.rev, Some(bytes), to.now);
        tx.commit().await?;
        Ok(Synchronized::Stored)
    })
}

/// The bytes of a row and its entries in indexes, without the text.
pub const ROW_BYTES: u64 = 300;

fn bytes_of<'a>(records: impl Iterator<Item = &'a NewRecord>) -> u64 {
    records.map(|record| ROW_BYTES + record.text.len() as u64).sum()
}
