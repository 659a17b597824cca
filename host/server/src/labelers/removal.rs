//! Removes a deleted labeler: its labels in small steps, then its row.

use std::time::Duration;

use belvedere_storage::store::{Db, StoreError, labelers, labels};

/// Labels removed in one statement: some milliseconds of SQLite's single writer, which indexing needs too.
const LABELS_PER_STEP: u32 = 1000;

/// Wait after a failure of the database.
const RETRY: Duration = Duration::from_secs(2);

/// Removes the labels of a labeler that is marked as deleting. Repeats what fails; a restart continues it.
pub(super) async fn remove(db: &Db, did: &str) {
    while let Err(error) = step_by_step(db, did).await {
        tracing::warn!(did, %error, "the labels of a deleted labeler can't be removed yet");
        tokio::time::sleep(RETRY).await;
    }
}

async fn step_by_step(db: &Db, did: &str) -> Result<(), StoreError> {
    let mut removed = 0;
    loop {
        let step = labels::delete_of(db, did, LABELS_PER_STEP).await?;
        removed += step;
        if step < u64::from(LABELS_PER_STEP) {
            break;
        }
    }
    labelers::remove(db, did).await?;
    tracing::info!(did, labels = removed, "a labeler and its labels were removed");
    Ok(())
}
