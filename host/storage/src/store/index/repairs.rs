//! Marks repos that are to be read again, because their records may have changed without commits in the stream.
//!
//! The mark is committed with the cursor, so a crash loses none. [`crate::store::backfill::create_repair`] turns the
//! marks into a job.

use super::plan::Plan;
use super::{AccountStatus, ApplyReport};
use belvedere_protocol::atproto::Did;

/// Marks repos, each once. A deleted account has nothing to read.
macro_rules! request_repairs {
    ($list:literal) => {
        concat!(
            "INSERT INTO repo_repairs (did_id, requested_at) SELECT id, $2 FROM dids WHERE coalesce(network_status, status) <> 4 AND did ",
            $list,
            " ON CONFLICT DO NOTHING"
        )
    };
}

pub(super) const REQUEST_SQLITE: &str = request_repairs!("IN (SELECT value FROM json_each($1))");
pub(super) const REQUEST_POSTGRES: &str = request_repairs!("= ANY($1)");

/// The DIDs of repos to mark: those of the batch, and of accounts that have become active again.
pub(super) fn due<'a>(plan: &Plan<'a>, applied: &'a ApplyReport) -> Vec<&'a str> {
    let reactivated = applied.statuses.iter().filter(|change| change.status == AccountStatus::Active);
    let mut dids: Vec<&str> =
        plan.repairs.iter().chain(reactivated.map(|change| &change.did)).map(Did::as_str).collect();
    // All hosts write in this order, so that two of them can't deadlock.
    dids.sort_unstable();
    dids.dedup();
    dids
}
