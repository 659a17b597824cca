//! Lifts decisions of operators when their time is over.

use std::time::Duration;

use belvedere_base::clock::Clock;
use belvedere_instance::events::{Event, EventLog};
use belvedere_storage::store::moderation::{self, Lifted};
use belvedere_storage::store::{Db, StoreError};

/// Time between two looks for decisions whose time is over. The look walks an index that is nearly always empty.
const PERIOD: Duration = Duration::from_secs(5);

/// Decisions that are lifted before others are looked for.
const MAX_AT_ONCE: u32 = 100;

/// The reason in the history.
const EXPIRED: &str = "expired";

/// Lifts them until it is cancelled.
pub(super) async fn lift_expired_periodically(db: &Db, clock: &Clock, events: &EventLog) {
    loop {
        if let Err(error) = lift_expired(db, clock, events).await {
            tracing::warn!(%error, "expired moderation could not be lifted; it is tried again");
        }
        tokio::time::sleep(PERIOD).await;
    }
}

async fn lift_expired(db: &Db, clock: &Clock, events: &EventLog) -> Result<(), StoreError> {
    loop {
        let now = clock.now();
        let ids = moderation::expired(db, now, MAX_AT_ONCE).await?;
        for id in &ids {
            let lifted = moderation::lift(db, *id, None, Some(EXPIRED), now).await?;
            if let Some(Lifted { row, was_active: true }) = lifted {
                let (actor, reason) = (None, Some(EXPIRED.to_owned()));
                events.record(Event::ModerationLifted { actor, subject: row.subject, id: *id, reason });
            }
        }
        if ids.len() < MAX_AT_ONCE as usize {
            return Ok(());
        }
    }
}
