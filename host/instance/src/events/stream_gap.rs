//! Events about gaps of the stream and about catching up after them.

use serde_json::json;

use super::describe::EventFields;
use belvedere_base::clock::Timestamp;
use belvedere_storage::store::events::Severity;

#[derive(Clone, Debug)]
pub enum GapEvent {
    /// Events of a period may be missing from the index.
    Found { url: String, reason: &'static str, from: Timestamp, to: Timestamp },
    /// A catch-up was queued, or one that waits was extended.
    CatchUpQueued {
        job_id: String,
        /// Repos without a commit since then are not read.
        changed_since: Timestamp,
        /// The gaps that were added to it.
        gaps: u64,
    },
}

impl GapEvent {
    pub(super) fn describe(self) -> EventFields {
        match self {
            Self::Found { url, reason, from, to } => EventFields {
                event_type: "jetstream.gap",
                severity: Severity::Warn,
                actor_did: None,
                subject: None,
                detail: json!({ "url": url, "reason": reason, "from": from, "to": to }),
            },
            Self::CatchUpQueued { job_id, changed_since, gaps } => EventFields {
                event_type: "backfill.catch_up_queued",
                severity: Severity::Info,
                actor_did: None,
                subject: Some(job_id.clone()),
                detail: json!({ "job_id": job_id, "changed_since": changed_since, "gaps": gaps }),
            },
        }
    }
}
