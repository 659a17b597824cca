//! Dead letters: events whose script failed for good, stored so that an operator can inspect and retry them.

use std::time::Duration;

use super::EventScripts;
use belvedere_base::clock::Clock;
use belvedere_instance::events::Event;
use belvedere_instance::indexing::{RecordAction, RecordEvent, Throttle};
use belvedere_protocol::atproto::{Cid, Did, Nsid, RecordKey, RecordUri, Tid, record};
use belvedere_scripting::scripts::ScriptFailure;
use belvedere_storage::store::StoreError;
use belvedere_storage::store::dead_letters::{self, DeadLetter, DeadLetterRow};
use belvedere_storage::store::index::{Change, CheckedRecord, Validity};

/// Interval between attempts to store a dead letter while the database is unreachable. Meanwhile the event stays queued
/// and the cursor does not pass it.
const STORE_RETRY_INTERVAL: Duration = Duration::from_millis(500);

/// Unresolved letters kept for each label script, the newest. A labeler can send millions of labels, and a letter of a label
/// only shows how the script failed: the label itself is stored.
const MAX_LABEL_LETTERS: u32 = 1000;

/// Dead letters of labels that are reported in a burst, and the interval between reports after that. Others of a labeler
/// that sends millions of labels show in the number of letters only.
const LABEL_BURST: u32 = 20;
const LABEL_EVERY_US: i64 = 10_000_000;

pub(super) fn throttle(clock: &Clock) -> Throttle {
    Throttle::new(clock.clone(), LABEL_BURST, LABEL_EVERY_US)
}

/// The failure of an event's script; stored in the dead letter.
pub(super) struct FailureDetails {
    pub(super) trigger: String,
    pub(super) error: String,
    pub(super) attempts: u32,
}

/// A dead letter to be stored. `event_key` identifies its event, so that it is stored only once.
pub(super) struct NewDeadLetter {
    pub(super) event_key: String,
    pub(super) letter: DeadLetter,
}

/// The reason why retrying a dead letter failed.
#[derive(Debug, thiserror::Error)]
pub enum RetryError {
    #[error("only dead letters of record events can be retried")]
    NotARecord,
    #[error("no script is bound to this event")]
    NoScript,
    #[error("the dead letter is invalid: {0}")]
    Unreadable(String),
    #[error("{}", .0.message)]
    Failed(Box<ScriptFailure>),
}

impl EventScripts {
    /// Stores a dead letter and reports it, those of labels within bounds; waits while the database is unreachable.
    pub(super) async fn dead_letter(&self, details: FailureDetails, new: NewDeadLetter) {
        let FailureDetails { trigger, error, attempts } = details;
        let error = self.0.runtime.services.variables.redact(&error).into_owned();
        let NewDeadLetter { event_key, letter } = new;
        let report = if letter.host_kind == "label" { self.0.label_letters.pass() } else { Some(0) };
        if let Some(held_back) = report {
            let subject = &letter.uri;
            tracing::warn!(trigger, subject, attempts, error, held_back, "an event script failed for good");
        }
        loop {
            let now = self.0.runtime.services.clock.now();
            match dead_letters::insert(&self.0.db, &event_key, &letter, &error, attempts, now).await {
                Ok(true) => {
                    self.trim(&letter).await;
                    break;
                }
                // Already stored: the stream replayed the event after a crash.
                Ok(false) => return,
                Err(StoreError::Unavailable(_)) => tokio::time::sleep(STORE_RETRY_INTERVAL).await,
                Err(failure) => {
                    tracing::error!(error = %failure, subject = letter.uri, "can't store a dead letter");
                    break;
                }
            }
        }
        let Some(held_back) = report else { return };
        let error = match held_back {
            0 => error,
            _ => format!("{error} (and {held_back} more since the last report)"),
        };
        self.0.events.record(Event::ScriptDeadLettered {
            subject: letter.uri,
            host_kind: letter.host_kind,
            host_id: letter.host_id,
            trigger,
            error,
        });
    }

    /// Removes the letters for which a new one has no place.
    async fn trim(&self, new: &DeadLetter) {
        if new.host_kind == "label"
            && let Err(error) =
                dead_letters::trim_labels(&self.0.db, &new.script_ref, MAX_LABEL_LETTERS).await
        {
            // The next letter tries again.
            tracing::warn!(%error, "can't remove the oldest dead letters of a label script");
        }
    }

    /// Runs the currently bound script once on the original event of a dead letter, and returns the change that applies
    /// its decision to the index.
    ///
    /// # Errors
    /// When the dead letter is of a label event, no script is bound, or the script fails.
    pub async fn retry(&self, row: &DeadLetterRow) -> Result<Change, RetryError> {
        self.decide_once(original_event(&row.letter)?).await
    }

    /// Runs the currently bound script once on an event.
    async fn decide_once(&self, event: RecordEvent) -> Result<Change, RetryError> {
        let uri = &event.change.uri;
        let script = self.script_for(uri, event.action).ok_or(RetryError::NoScript)?;
        let verdict = self.attempt(&script, &event).await.map_err(|e| RetryError::Failed(Box::new(e)))?;
        let decided = verdict.apply(event.change.clone());
        Ok(with_next_rev(event, decided))
    }

    /// Runs the currently bound script on an event that was made from the PDS's current record. Without a script, the
    /// record is stored unmodified.
    ///
    /// # Errors
    /// When the script fails.
    pub async fn decide_fetched(&self, event: RecordEvent) -> Result<Change, RetryError> {
        match self.decide_once(event.clone()).await {
            Err(RetryError::NoScript) => {
                let decided = Some(event.change.clone());
                Ok(with_next_rev(event, decided))
            }
            decided => decided,
        }
    }
}

/// The original event of a dead letter.
///
/// # Errors
/// When the dead letter is of a label event, or its row is invalid.
pub fn original_event(letter: &DeadLetter) -> Result<RecordEvent, RetryError> {
    if letter.host_kind != "record" {
        return Err(RetryError::NotARecord);
    }
    let unreadable = |what: &str| RetryError::Unreadable(what.to_owned());
    let action = RecordAction::parse(&letter.action).ok_or_else(|| unreadable("action"))?;
    let did = Did::try_from(letter.did.as_str()).map_err(|_| unreadable("did"))?;
    let collection = Nsid::try_from(letter.collection.as_str()).map_err(|_| unreadable("collection"))?;
    let rkey = RecordKey::try_from(letter.rkey.as_str()).map_err(|_| unreadable("rkey"))?;
    let rev =
        letter.rev.as_deref().and_then(|rev| Tid::try_from(rev).ok()).ok_or_else(|| unreadable("rev"))?;
    let checked = |payload: &String| {
        let inspected =
            record::inspect(payload.as_bytes()).map_err(|error| RetryError::Unreadable(error.to_string()))?;
        let cid = letter.cid.as_deref().and_then(|cid| cid.parse::<Cid>().ok());
        Ok(CheckedRecord {
            text: payload.clone().into(),
            cid,
            cid_verified: cid.is_some() && inspected.cid.ok() == cid,
            refs: inspected.refs,
            validity: Validity::Unchecked,
        })
    };
    let record = letter.payload.as_ref().map(checked).transpose()?;
    Ok(RecordEvent { action, change: Change { uri: RecordUri { did, collection, rkey }, rev, record } })
}

/// The decided change with the next possible rev after the event's: it replaces what was stored when the script failed,
/// but not the result of any later commit of the repo.
pub(super) fn with_next_rev(event: RecordEvent, decided: Option<Change>) -> Change {
    match decided {
        Some(change) => Change { rev: next_rev(change.rev), ..change },
        // A skipped delete would keep the row, but it was deleted when the script failed.
        None if event.change.record.is_none() => event.change,
        // Skipped, so the record that was stored unmodified is deleted.
        None => Change { rev: next_rev(event.change.rev), record: None, ..event.change },
    }
}

/// The next TID. The lowest bits of a TID are the clock id, so adding one gives a TID after this commit's and before
/// any later one.
fn next_rev(rev: Tid) -> Tid {
    let later = Tid::new(rev.timestamp_micros(), rev.clock_id() + 1);
    // After the last clock id comes the first one of the next microsecond.
    later.or_else(|_| Tid::new(rev.timestamp_micros() + 1, 0)).unwrap_or(rev)
}
