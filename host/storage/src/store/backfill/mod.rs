//! Stores backfill jobs, the repos of each job, and how far each was read.
//!
//! `jobs` and `repos` are for the admin API, `work`, `checkpoint` and `catch_up` for the worker, `indexed` compares the
//! index with what a PDS lists.

mod catch_up;
mod checkpoint;
mod details;
pub(super) mod indexed;
mod jobs;
mod repairs;
mod repos;
mod traffic;
mod work;

pub use catch_up::{QueuedCatchUp, queue_catch_up, settle_gaps};
pub use checkpoint::{
    Checkpoint, CollectionPosition, FinishedRepo, checkpoint, forget_positions, has_positions, positions,
    save_positions,
};
pub use details::{delete_details, delete_details_older_than};
pub use indexed::{
    Indexed, IndexedAccount, IndexedRecords, IndexedRow, KeyRange, account_status, accounts,
    add_indexed_repos,
};
pub use jobs::{JobRow, NewJob, Requested, count_unended, create, get, list, list_page, request};
pub use repairs::create_repair;
pub use repos::{PdsSummary, Phase, RepoRow, error_counts, errors, pds_summary, repos, retry_failed};
pub use traffic::{Traffic, traffic};
pub use work::{
    ActiveJob, CANCELLED_BY_USER, Counters, Discovery, add_repo, add_repos, count, discovery, end, fail_host,
    next, pending_hosts, pending_of_host, save_counters, set_error, set_lists_all_repos, set_stage, settle,
    status, unresolved,
};

use super::Db;
use super::status::{BackfillStatus, RepoStatus, Stage};
use super::types::json_rows;

/// [`json_rows!`] of the second parameter.
fn json_rows(db: &Db) -> &'static str {
    match db {
        Db::Sqlite(_) => json_rows!(sqlite, "$2"),
        Db::Postgres(_) => json_rows!(postgres, "$2"),
    }
}

/// The table of repos, to be read through one of its indexes. Without statistics, SQLite expects a job to have a few
/// repos and would read all of them.
fn repos_by(db: &Db, index: &str) -> String {
    match db {
        Db::Sqlite(_) => format!("backfill_repos INDEXED BY {index}"),
        Db::Postgres(_) => "backfill_repos".to_owned(),
    }
}

/// Kinds of jobs. A backfill reads whole collections, a repair one repo.
const BACKFILL: &str = "backfill";
const REPAIR: &str = "repair";
/// A catch-up reads the repos that have changed since a gap of the stream began.
pub const CATCH_UP: &str = "catch_up";

/// The status of a repo that is left to do: a literal, so that statements can use the index of such repos.
const PENDING: &str = RepoStatus::Pending.sql();
const PENDING_INDEX: &str = "backfill_repos_pending";
/// The index of the repos that failed.
const ERRORS_INDEX: &str = "backfill_repos_errors";

/// The status and the stage of a job that waits in the queue.
const QUEUED: (BackfillStatus, Stage) = (BackfillStatus::Running, Stage::Pending);

/// [`QUEUED`] as two SQL literals.
fn queued() -> String {
    format!("{}, {}", QUEUED.0.sql(), QUEUED.1.sql())
}

/// PostgreSQL can't store U+0000, which a PDS may send.
fn clean(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}
