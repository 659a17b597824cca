//! Reads stored records again whose references were stored without their paths, in the background, on one host at a time.
//!
//! Records that are stored meanwhile have their references complete, so each collection is read once. Lists go on.

use std::time::Duration;

use tokio::time::Instant;

use belvedere_base::hand_over_thread::hand_over_thread;
use belvedere_protocol::atproto::record;
use belvedere_storage::query::Position;
use belvedere_storage::store::index::Reread;
use belvedere_storage::store::index::unread::{self, Unread};
use belvedere_storage::store::records::FullRecordRow;
use belvedere_storage::store::records::invalid;
use belvedere_storage::store::{Db, StoreError};

/// Records read at a time; they are at most 1 MiB.
const STEP: u32 = 500;

/// Time until the next attempt after a failure of the database.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// Time between two looks for collections in which a host of a version before has stored more such references.
const LOOK_EVERY: Duration = Duration::from_mins(10);

/// Reads all records that are left, and those that hosts of a version before store later. Does not return.
pub async fn run(db: &Db) {
    loop {
        let pause = match read_all(db).await {
            Ok(()) => LOOK_EVERY,
            Err(error) => {
                tracing::warn!(%error, "references can't be read again; this is retried");
                RETRY_AFTER
            }
        };
        tokio::time::sleep(pause).await;
    }
}

async fn read_all(db: &Db) -> Result<(), StoreError> {
    unread::look_again(db).await?;
    while let Some(unread) = unread::next(db).await? {
        read_collection(db, unread).await?;
    }
    Ok(())
}

async fn read_collection(db: &Db, Unread { collection, mut after }: Unread) -> Result<(), StoreError> {
    let mut records = 0;
    loop {
        let started = Instant::now();
        let step = invalid::walk(db, &collection, after, STEP).await?;
        records += step.rows.len();
        let bytes = step.rows.iter().map(|row| row.row.record.len()).sum();
        let reread: Vec<_> = hand_over_thread(bytes, || step.rows.iter().map(reread).collect());
        unread::replace(db, &collection, &reread).await?;
        let Some(Position::Time(next)) = step.next else { break };
        after = next;
        unread::set(db, &collection, Some(after)).await?;
        // Leaves at least half of the time to others.
        tokio::time::sleep(started.elapsed()).await;
    }
    unread::set(db, &collection, None).await?;
    if records > 0 {
        tracing::info!(%collection, records, "references were read again");
    }
    Ok(())
}

/// A record that could not be stored today has no references.
fn reread(row: &FullRecordRow) -> Reread {
    let refs = record::inspect(&row.row.record).map(|found| found.refs).unwrap_or_default();
    Reread { id: row.row.id, updated_at: row.updated_at, refs }
}
