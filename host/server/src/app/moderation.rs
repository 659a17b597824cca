//! Lifts decisions of operators when their time is over.

use std::time::Duration;

use belvedere_instance::moderation::Moderator;

/// Time between two looks for decisions whose time is over. The look walks an index that is nearly always empty.
const PERIOD: Duration = Duration::from_secs(5);

/// Lifts them until it is cancelled.
pub(super) async fn lift_expired_periodically(moderator: &Moderator) {
    loop {
        if let Err(error) = moderator.lift_expired().await {
            tracing::warn!(%error, "expired moderation could not be lifted; it is tried again");
        }
        tokio::time::sleep(PERIOD).await;
    }
}
