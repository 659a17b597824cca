//! Removes events of the event log, as a background job: a large log takes minutes, and an admin can watch, pause and
//! cancel it as any other job.

use serde_json::json;

use super::RunningJob;
use crate::events::EventQuery;
use belvedere_base::clock::Timestamp;
use belvedere_storage::store::{Db, StoreError, events};

/// The `job_type`. Scripts can't create such a job: the slash is not allowed in their types.
pub const TYPE: &str = "system/purge-events";

/// Rows deleted in one statement: few enough not to delay requests that write.
const ROWS_PER_STEP: u32 = 1_000;

/// The reason why a purge failed.
#[derive(Debug, thiserror::Error)]
pub enum PurgeError {
    #[error("the job's input is not a list of conditions")]
    Input,
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Removes the events that match `input`, the JSON text of an [`EventQuery`], and are older than `requested_at`: the
/// entry that says who asked for it stays. Returns the result, JSON text, also when the job should stop before the end.
///
/// # Errors
/// When the database fails; events removed until then stay removed.
pub async fn run(
    db: &Db,
    running: &RunningJob,
    input: &str,
    requested_at: Timestamp,
) -> Result<String, PurgeError> {
    let query: EventQuery = serde_json::from_str(input).map_err(|_| PurgeError::Input)?;
    let mut filter = query.filter().map_err(|_| PurgeError::Input)?;
    filter.before = Some(filter.before.map_or(requested_at, |before| before.min(requested_at)));
    let mut deleted = 0;
    loop {
        if running.should_stop().await? {
            return Ok(result(deleted));
        }
        let removed = events::delete(db, &filter, ROWS_PER_STEP).await?;
        deleted += removed;
        running.progress(&result(deleted)).await?;
        if removed < u64::from(ROWS_PER_STEP) {
            return Ok(result(deleted));
        }
    }
}

fn result(deleted: u64) -> String {
    json!({ "deleted": deleted }).to_string()
}

#[cfg(test)]
mod tests {
    use super::TYPE;
    use belvedere_protocol::trigger::{Trigger, TriggerKind};

    #[test]
    fn scripts_can_neither_create_nor_be_such_a_job() {
        assert!(Trigger::parse(&format!("{}:{TYPE}", TriggerKind::JobRun.as_str())).is_err());
    }
}
