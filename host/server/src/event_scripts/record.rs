//! Record events: runs the script that decides on one change of the index.

use bytes::Bytes;
use futures_util::future::BoxFuture;

use super::EventScripts;
use super::letters::{FailureDetails, NewDeadLetter};
use super::retry::{self, FinalFailure};
use belvedere_instance::events::Event;
use belvedere_instance::indexing::{EarlyDecision, RecordAction, RecordEvent, RecordScriptRunner};
use belvedere_protocol::atproto::RecordUri;
use belvedere_protocol::atproto::record::{self, Ref};
use belvedere_protocol::trigger::TriggerKind;
use belvedere_scripting::scripts::{
    CompiledScript, FailureKind, Invocation, Lineage, Outcome, ReturnKind, ScriptFailure, Services,
    TriggerEvent,
};
use belvedere_storage::store::dead_letters::DeadLetter;
use belvedere_storage::store::index::{Change, CheckedRecord, Validity};

/// A script's decision on a record event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The change is indexed unmodified.
    Proceed,
    /// Nothing is indexed; a skipped delete keeps its row.
    Skip,
    /// This record is stored instead of the one from the network. The CID remains that of the network's record.
    Replace { record: Bytes, refs: Vec<Ref> },
}

impl Verdict {
    /// The change with the verdict applied; `None` when it is skipped.
    pub fn apply(self, change: Change) -> Option<Change> {
        match self {
            Self::Skip => None,
            Self::Proceed => Some(change),
            Self::Replace { record: text, refs } => {
                // A delete has no record to replace.
                let record = change.record.map(|CheckedRecord { cid, .. }| CheckedRecord {
                    text,
                    cid,
                    cid_verified: false,
                    refs,
                    validity: Validity::Unchecked,
                });
                Some(Change { record, ..change })
            }
        }
    }
}

/// The warning that is logged once for each script. The usual cause is `return record`, which is nil for a delete.
const KEPT_ROW: &str = "the record was deleted, and its row is kept, because the script returned nil: return true to \
                        delete the row (logged once)";

fn trigger_of(action: RecordAction) -> TriggerKind {
    match action {
        RecordAction::Create => TriggerKind::RecordCreate,
        RecordAction::Update => TriggerKind::RecordUpdate,
        RecordAction::Delete => TriggerKind::RecordDelete,
    }
}

impl EventScripts {
    /// The script that is bound to an action on a collection.
    pub fn record_script(
        &self,
        collection: &str,
        action: RecordAction,
    ) -> Option<std::sync::Arc<CompiledScript>> {
        self.0.runtime.scripts.for_record(collection, trigger_of(action))
    }

    /// The script of an event, in the version that the record's account runs.
    pub(super) fn script_for(
        &self,
        uri: &RecordUri,
        action: RecordAction,
    ) -> Option<std::sync::Arc<CompiledScript>> {
        let script = self.record_script(uri.collection.as_str(), action)?;
        let candidate = self.0.runtime.scripts.candidate_for_account(&script, uri.did.as_str());
        Some(candidate.unwrap_or(script))
    }

    /// Runs a script once on an event.
    ///
    /// # Errors
    /// When the script fails, or returns a table that is not a valid record.
    pub async fn attempt(
        &self,
        script: &CompiledScript,
        event: &RecordEvent,
    ) -> Result<Verdict, ScriptFailure> {
        self.attempt_within(script, event, None).await
    }

    /// Like [`Self::attempt`], with the services of a dry run.
    ///
    /// # Errors
    /// As [`Self::attempt`].
    pub async fn dry_run_record(
        &self,
        script: &CompiledScript,
        event: &RecordEvent,
        services: &Services,
    ) -> Result<Verdict, ScriptFailure> {
        self.attempt_with(script, event, None, services).await
    }

    /// Like [`Self::attempt`]. With a lineage, the caller has a permit among the runs.
    async fn attempt_within(
        &self,
        script: &CompiledScript,
        event: &RecordEvent,
        lineage: Option<&Lineage>,
    ) -> Result<Verdict, ScriptFailure> {
        self.attempt_with(script, event, lineage, &self.0.runtime.services).await
    }

    async fn attempt_with(
        &self,
        script: &CompiledScript,
        event: &RecordEvent,
        lineage: Option<&Lineage>,
        services: &Services,
    ) -> Result<Verdict, ScriptFailure> {
        let uri = &event.change.uri;
        let text = uri.to_string();
        let invocation = Invocation {
            collection: Some(uri.collection.as_str()),
            event: Some(TriggerEvent::Record {
                action: event.action.as_str(),
                uri: &text,
                did: uri.did.as_str(),
                rkey: uri.rkey.as_str(),
                record: event.change.text().map(|text| &text[..]),
            }),
            lineage,
            ..Invocation::default()
        };
        let mut outcome = match lineage {
            None => self.run(script, &invocation, services).await?,
            Some(_) => self.0.runtime.engine.run(script, invocation, services).await?,
        };
        if let (ReturnKind::Table, Some(repos)) = (outcome.shape, &self.0.runtime.services.repos) {
            outcome.body = repos.record_with_arrays(uri.collection.as_str(), outcome.body);
        }
        verdict(event.action, outcome)
    }

    /// Runs the script of an event, with retries.
    async fn decide_record(&self, event: RecordEvent) -> Option<Change> {
        let uri = event.change.uri.clone();
        // The script may have been removed since the event was queued.
        let Some(script) = self.script_for(&uri, event.action) else {
            return Some(event.change);
        };
        match retry::with_retries(|| self.attempt(&script, &event)).await {
            Ok((verdict, attempts)) => {
                self.log_run(&script, &event, &uri, &verdict, attempts);
                verdict.apply(event.change)
            }
            Err(final_failure) => {
                self.dead_letter_record(&script, &event, &uri, final_failure).await;
                Some(event.change)
            }
        }
    }

    /// Runs the script of an early event once.
    async fn decide_record_early(&self, event: RecordEvent) -> Option<EarlyDecision> {
        let uri = event.change.uri.clone();
        let script = self.script_for(&uri, event.action)?;
        // The run that writes holds an instance: waiting for a permit that only such runs give back would end nowhere.
        let _permit = self.0.runs.try_acquire().ok()?;
        let early = self.0.early.begin(&event.change).await;
        match self.attempt_within(&script, &event, Some(&Lineage::of_write(script.trigger().kind()))).await {
            Ok(verdict) => {
                self.log_run(&script, &event, &uri, &verdict, 1);
                Some(EarlyDecision { change: verdict.apply(event.change), event: early })
            }
            Err(failure) => {
                tracing::debug!(%uri, error = failure.message, "an early run of an event script failed");
                None
            }
        }
    }

    fn log_run(
        &self,
        script: &CompiledScript,
        event: &RecordEvent,
        uri: &RecordUri,
        verdict: &Verdict,
        attempts: u32,
    ) {
        let trigger = script.trigger().id();
        self.0.events.record_verbose(|| Event::EventScriptExecuted {
            subject: uri.to_string(),
            host_kind: "record",
            host_id: host_id(uri, event.action),
            trigger: trigger.to_owned(),
            version: script.version(),
            attempts,
        });
        if *verdict == Verdict::Skip && event.action == RecordAction::Delete && script.first_kept_row() {
            tracing::warn!(trigger, %uri, "{KEPT_ROW}");
            let message = format!("{uri}: {KEPT_ROW}");
            self.0.events.record(Event::ScriptLog { caller: None, trigger: trigger.to_owned(), message });
        }
        if *verdict == Verdict::Skip {
            let reason = format!("{trigger} returned nil");
            self.0.events.record_verbose(|| Event::RecordSkipped { uri: uri.clone(), reason });
        }
    }

    pub(super) async fn dead_letter_record(
        &self,
        script: &CompiledScript,
        event: &RecordEvent,
        uri: &RecordUri,
        final_failure: FinalFailure,
    ) {
        let details = FailureDetails {
            trigger: script.trigger().id().to_owned(),
            error: final_failure.failure.message,
            attempts: final_failure.attempts,
        };
        self.dead_letter(details, letter(script.trigger().id(), event, uri)).await;
    }
}

impl RecordScriptRunner for EventScripts {
    fn is_idle(&self) -> bool {
        self.0.runtime.scripts.has_no_record_scripts()
    }

    fn wants(&self, action: RecordAction, change: &Change) -> bool {
        self.record_script(change.uri.collection.as_str(), action).is_some()
    }

    fn decide(&self, event: RecordEvent) -> BoxFuture<'_, Option<Change>> {
        Box::pin(self.decide_record(event))
    }

    fn decide_early(&self, event: RecordEvent) -> BoxFuture<'_, Option<EarlyDecision>> {
        Box::pin(self.decide_record_early(event))
    }

    fn puts_are_alike(&self, change: &Change) -> bool {
        let collection = change.uri.collection.as_str();
        let id =
            |action| self.record_script(collection, action).map(|script| script.trigger().id().to_owned());
        id(RecordAction::Create) == id(RecordAction::Update)
    }

    fn was_decided_early<'a>(&'a self, change: &'a Change) -> BoxFuture<'a, bool> {
        Box::pin(self.0.early.is_indexed(change))
    }

    fn bypass(&self, event: RecordEvent) -> BoxFuture<'_, Option<Change>> {
        Box::pin(async move {
            let uri = event.change.uri.clone();
            if let Some(script) = self.record_script(uri.collection.as_str(), event.action) {
                let message = "too many events were queued for record scripts";
                let failure = ScriptFailure::new(FailureKind::Busy, message);
                self.dead_letter_record(&script, &event, &uri, FinalFailure { failure, attempts: 0 }).await;
            }
            Some(event.change)
        })
    }
}

/// The dead letter of a record event.
fn letter(trigger: &str, event: &RecordEvent, uri: &RecordUri) -> NewDeadLetter {
    let Change { rev, record, .. } = &event.change;
    NewDeadLetter {
        event_key: format!("{trigger} {uri} {rev}"),
        letter: DeadLetter {
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
            cid: record.as_ref().and_then(|record| record.cid).map(|cid| cid.to_string()),
            payload: record.as_ref().map(|record| String::from_utf8_lossy(&record.text).into_owned()),
        },
    }
}

/// `<nsid>:<action>`: the host id of record scripts in the event log and in dead letters.
fn host_id(uri: &RecordUri, action: RecordAction) -> String {
    format!("{}:{action}", uri.collection)
}

/// The verdict that a return value stands for (`lua-runtime.md` §4).
fn verdict(action: RecordAction, outcome: Outcome) -> Result<Verdict, ScriptFailure> {
    match (outcome.shape, action) {
        (ReturnKind::Nothing, _) => Ok(Verdict::Skip),
        (ReturnKind::Other, _) | (ReturnKind::Table, RecordAction::Delete) => Ok(Verdict::Proceed),
        (ReturnKind::Table, _) => {
            let inspected = record::inspect(&outcome.body).map_err(|error| {
                let message = format!("handle() returned a table that is not a valid record: {error}");
                ScriptFailure::new(FailureKind::Runtime, message)
            })?;
            let record = inspected.canonical.unwrap_or(outcome.body);
            Ok(Verdict::Replace { record, refs: inspected.refs })
        }
    }
}
