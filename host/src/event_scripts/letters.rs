//! Dead letters: what an event's script could not decide, kept so that an operator can look, and have it done again.

use std::time::Duration;

use super::Triggers;
use super::record::{host_id, record_of};
use crate::atproto::{Cid, Did, Nsid, RecordKey, RecordUri, Tid, record};
use crate::events::Event;
use crate::indexing::{Action, RecordEvent};
use crate::scripts::ScriptFailure;
use crate::store::StoreError;
use crate::store::dead_letters::{self, Letter, LetterRow};
use crate::store::index::{Change, Delete, Upsert};

/// Between two tries to write a letter while the database is away. The event waits; its cursor does not move.
const AGAIN: Duration = Duration::from_millis(500);

/// A script's last word on an event.
pub(super) struct Failed {
    pub(super) trigger: String,
    pub(super) error: String,
    pub(super) attempts: u32,
}

/// A letter that is to be written: what names its event, and what it says.
pub(super) struct NewLetter {
    pub(super) event_key: String,
    pub(super) letter: Letter,
}

/// Why a letter can't be tried again.
#[derive(Debug, thiserror::Error)]
pub enum AgainError {
    #[error("only record events can be tried again")]
    NotARecord,
    #[error("no script is bound to this event any more")]
    NoScript,
    #[error("the letter can't be read: {0}")]
    Unreadable(String),
    #[error("{}", .0.message)]
    Failed(Box<ScriptFailure>),
}

/// What a letter's event is now, after its script decided.
#[derive(Debug)]
pub struct Stored {
    /// The change that makes the index what the script wants.
    pub change: Change,
}

impl Triggers {
    pub(super) fn record_letter(trigger: &str, event: &RecordEvent, uri: &RecordUri) -> NewLetter {
        let (rev, cid) = match &event.change {
            Change::Upsert(upsert) => (upsert.rev, upsert.cid.map(|cid| cid.to_string())),
            Change::Delete(delete) => (delete.rev, None),
        };
        NewLetter {
            event_key: format!("{trigger} {uri} {rev}"),
            letter: Letter {
                script_ref: trigger.to_owned(),
                host_kind: "record".to_owned(),
                host_id: host_id(uri, event.action),
                lexicon_id: uri.collection.to_string(),
                collection: uri.collection.to_string(),
                uri: uri.to_string(),
                did: uri.did.to_string(),
                rkey: uri.rkey.to_string(),
                action: event.action.to_string(),
                rev: Some(rev.to_string()),
                cid,
                payload: record_of(&event.change).map(|record| String::from_utf8_lossy(record).into_owned()),
            },
        }
    }

    /// Writes a letter, however long the database takes to come back.
    pub(super) async fn dead_letter(&self, failed: Failed, new: NewLetter) {
        let Failed { trigger, error, attempts } = failed;
        let error = self.0.services.variables.redact(&error).into_owned();
        let NewLetter { event_key, letter } = new;
        tracing::warn!(trigger, subject = letter.uri, attempts, error, "an event's script failed for good");
        loop {
            let now = self.0.services.clock.now();
            match dead_letters::insert(&self.0.db, &event_key, &letter, &error, attempts, now).await {
                Ok(true) => break,
                // The event came again after a crash.
                Ok(false) => return,
                Err(StoreError::Unavailable(_)) => tokio::time::sleep(AGAIN).await,
                Err(failure) => {
                    tracing::error!(error = %failure, subject = letter.uri, "a dead letter can't be kept");
                    break;
                }
            }
        }
        self.0.events.record(Event::ScriptDeadLettered {
            subject: letter.uri,
            host_kind: letter.host_kind,
            host_id: letter.host_id,
            trigger,
            error,
        });
    }

    /// Runs the script of a letter once more, on the event as it came.
    ///
    /// # Errors
    /// When the letter is a label's, no script is bound any more, or the script fails.
    pub async fn again(&self, row: &LetterRow) -> Result<Stored, AgainError> {
        self.settle(event_of(&row.letter)?).await
    }

    /// Runs an event through the script that is bound to it now, if one is.
    async fn settle(&self, event: RecordEvent) -> Result<Stored, AgainError> {
        let uri = event.change.uri();
        let script = self.record_script(uri.collection.as_str(), event.action).ok_or(AgainError::NoScript)?;
        let verdict = self.attempt(&script, &event).await.map_err(|e| AgainError::Failed(Box::new(e)))?;
        let decided = verdict.apply(event.change.clone());
        Ok(Stored { change: superseding(event, decided) })
    }

    /// Runs the whole pipeline for a record as its PDS has it now; without a script it is stored as it is.
    ///
    /// # Errors
    /// When the script fails.
    pub async fn index(&self, event: RecordEvent) -> Result<Stored, AgainError> {
        match self.settle(event.clone()).await {
            Err(AgainError::NoScript) => {
                let decided = Some(event.change.clone());
                Ok(Stored { change: superseding(event, decided) })
            }
            settled => settled,
        }
    }
}

/// The event that a letter is about.
///
/// # Errors
/// When it is a label's, or the row holds what nobody wrote.
pub fn event_of(letter: &Letter) -> Result<RecordEvent, AgainError> {
    if letter.host_kind != "record" {
        return Err(AgainError::NotARecord);
    }
    let unreadable = |what: &str| AgainError::Unreadable(what.to_owned());
    let action = Action::parse(&letter.action).ok_or_else(|| unreadable("action"))?;
    let did = Did::try_from(letter.did.as_str()).map_err(|_| unreadable("did"))?;
    let collection = Nsid::try_from(letter.collection.as_str()).map_err(|_| unreadable("collection"))?;
    let rkey = RecordKey::try_from(letter.rkey.as_str()).map_err(|_| unreadable("rkey"))?;
    let rev =
        letter.rev.as_deref().and_then(|rev| Tid::try_from(rev).ok()).ok_or_else(|| unreadable("rev"))?;
    let change = match &letter.payload {
        None => Change::Delete(Delete { did, collection, rkey, rev }),
        Some(payload) => {
            let inspected = record::inspect(payload.as_bytes())
                .map_err(|error| AgainError::Unreadable(error.to_string()))?;
            let cid = letter.cid.as_deref().and_then(|cid| cid.parse::<Cid>().ok());
            let cid_verified = cid.is_some() && inspected.cid.ok() == cid;
            let record = payload.clone().into();
            Change::Upsert(Upsert {
                did,
                collection,
                rkey,
                rev,
                cid,
                cid_verified,
                record,
                refs: inspected.refs,
            })
        }
    };
    Ok(RecordEvent { action, change })
}

/// The decided change, one step later than the event: it replaces what was stored when the script had failed, and loses
/// to every later commit of the repo.
fn superseding(event: RecordEvent, decided: Option<Change>) -> Change {
    match decided {
        Some(Change::Upsert(upsert)) => Change::Upsert(Upsert { rev: next(upsert.rev), ..upsert }),
        Some(Change::Delete(delete)) => Change::Delete(Delete { rev: next(delete.rev), ..delete }),
        None => match event.change {
            // Skipped after all, so what was stored goes.
            Change::Upsert(Upsert { did, collection, rkey, rev, .. }) => {
                Change::Delete(Delete { did, collection, rkey, rev: next(rev) })
            }
            // The row was deleted when the script had failed; there is nothing left to keep.
            Change::Delete(delete) => Change::Delete(delete),
        },
    }
}

/// The lowest bits of a TID are a clock's id: one more is later than this commit and earlier than any other.
fn next(rev: Tid) -> Tid {
    let later = Tid::new(rev.timestamp_micros(), rev.clock_id() + 1);
    // The last clock id: the first of the next microsecond.
    later.or_else(|_| Tid::new(rev.timestamp_micros() + 1, 0)).unwrap_or(rev)
}
