//! Writes batches to the index: record changes, account changes and the stream cursor in one transaction.
//!
//! `plan` reduces a batch to at most one row per record; `sqlite` and `postgres` write the rows in the way that is
//! cheapest for each database.

mod accounts;
pub(super) mod future;
mod hidden;
pub(super) mod link_counts;
pub(super) mod moderated;
mod plan;
pub(super) mod postgres;
pub(super) mod purge;
pub(super) mod remove;
mod repairs;
pub(super) mod sqlite;
pub(super) mod take_out;
pub mod unread;

use bytes::Bytes;

pub use future::RevLimit;
pub use purge::{prune_tombstones, purge_leftovers};

use belvedere_base::clock::Timestamp;
use belvedere_protocol::atproto::record::Ref;
use belvedere_protocol::atproto::{Cid, Did, RecordUri, Tid};

use super::lease::Term;
use super::{Db, StoreError};

/// The content of one transaction.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    pub changes: Vec<Change>,
    /// In the order of the stream; applied before the record changes. DIDs that were never indexed are ignored: the
    /// stream covers every account of the network.
    pub accounts: Vec<AccountChange>,
    /// Repos to read again. DIDs that were never indexed are ignored.
    pub repairs: Vec<Did>,
    /// Committed atomically with the changes.
    pub cursor: Option<StreamCursor>,
    /// The term of the stream's lease in which the batch was read; if that is over, nothing is committed.
    pub term: Term,
    /// `indexed_at` of new rows, `updated_at` of all.
    pub now: Timestamp,
}

/// A change of a record by a commit of its repo. `R`: what is known of its record.
#[derive(Clone, Debug)]
pub struct Change<R = CheckedRecord> {
    pub uri: RecordUri,
    /// The commit's.
    pub rev: Tid,
    /// `None`: it is deleted.
    pub record: Option<R>,
}

/// A record that can be stored.
#[derive(Clone, Debug)]
pub struct CheckedRecord {
    /// A JSON object, stored unchanged.
    pub text: Bytes,
    pub cid: Option<Cid>,
    /// Whether `cid` was recomputed from the record and matched.
    pub cid_verified: bool,
    /// The references in the record, each target once.
    pub refs: Vec<Ref>,
    pub validity: Validity,
}

/// A record that was read again.
#[derive(Clone, Debug)]
pub struct Reread {
    pub id: i64,
    /// The record's when it was read: the references of a newer one were read when it was written.
    pub updated_at: Timestamp,
    pub refs: Vec<Ref>,
}

impl Change {
    /// The record's JSON text; `None` if it is deleted.
    pub fn text(&self) -> Option<&Bytes> {
        self.record.as_ref().map(|record| &record.text)
    }
}

/// Whether a record matches its lexicon. It is stored in any case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Validity {
    /// To be checked before it is stored. The store takes it for valid.
    #[default]
    Unchecked,
    /// It matches, or has no lexicon here.
    Valid,
    /// The record does not match its lexicon, for this reason.
    Invalid(Box<str>),
}

impl Validity {
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Invalid(reason) => Some(reason),
            Self::Unchecked | Self::Valid => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountChange {
    pub did: Did,
    pub status: AccountStatus,
    /// The highest rev that a commit before the event can have. A deletion removes the repo's records up to it, and the
    /// index refuses them from then on, whenever they arrive: it is a tombstone of the whole repo. An account that is
    /// created again has later revs.
    pub rev: Tid,
}

/// Every status but `Active` hides the account's rows; `Deleted` also removes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AccountStatus {
    Active = 0,
    Deactivated = 1,
    TakenDown = 2,
    Suspended = 3,
    Deleted = 4,
}

impl AccountStatus {
    /// The name that the stream uses.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Deactivated => "deactivated",
            Self::TakenDown => "takendown",
            Self::Suspended => "suspended",
            Self::Deleted => "deleted",
        }
    }

    /// The status that the database stores as this number.
    pub(super) fn of_number(number: i64) -> Option<Self> {
        [Self::Active, Self::Deactivated, Self::TakenDown, Self::Suspended, Self::Deleted]
            .into_iter()
            .find(|status| *status as i64 == number)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamCursor {
    pub source: String,
    pub cursor: i64,
    /// Up to here no commit is missing, by the same clock; `None` when nothing is known of that. A server that sends
    /// account events moves the cursor without any commit.
    pub commits_until: Option<i64>,
}

/// The effects of a batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApplyReport {
    pub inserted: u64,
    pub updated: u64,
    pub deleted: u64,
    /// Changes without effect, because the batch or the database has the same or a newer `rev`.
    pub stale: u64,
    /// Rows of purged accounts.
    pub purged: u64,
    /// Indexed accounts whose status differs from before, in no order.
    pub statuses: Vec<AccountChange>,
    /// Records that the database can't store. The others were committed.
    pub rejected: Vec<RejectedRecord>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RejectedRecord {
    pub uri: RecordUri,
    pub reason: String,
}

/// Longer references are not stored: no AT URI of a record is longer, and an index entry on PostgreSQL must fit into a
/// third of a page (2,704 bytes).
const MAX_TARGET_BYTES: usize = 2_000;

/// Applies a batch in one transaction. An older or equal `rev` never overwrites a record or a tombstone, of a record or
/// of its repo. A batch may contain several changes of a record; the newest `rev` wins. An update keeps `indexed_at` and
/// replaces the record's references. A stored `rev` of the future counts as none, so that it can't win for years. A repo
/// whose account becomes active again is marked for a repair: commits of the time in between are not in the stream when
/// the account moved to another PDS.
///
/// # Errors
/// When the database fails. Then nothing of the batch is committed, and the caller may apply it again, except after
/// [`StoreError::Superseded`].
pub async fn apply(db: &Db, batch: &Batch) -> Result<ApplyReport, StoreError> {
    let plan = plan::Plan::of(db, batch).await?;
    let applied = match db {
        Db::Sqlite(sqlite) => sqlite::apply(sqlite, plan).await?,
        Db::Postgres(postgres) => postgres::apply(postgres, plan).await?,
    };
    if let Err(error) = link_counts::begin_some(db, batch).await {
        // The batch is committed, and a later one looks at the same targets.
        tracing::warn!(%error, "a target with many links is not counted yet");
    }
    Ok(applied)
}

pub(super) const SET_CURSOR: &str = "INSERT INTO stream_cursors (source, cursor, commits_until, updated_at) VALUES ($1, $2, $3, $4) \
     ON CONFLICT (source) DO UPDATE SET cursor = excluded.cursor, commits_until = excluded.commits_until, \
         updated_at = excluded.updated_at";
