//! Label events: runs the script that decides on a label of a record or an account.

use serde_json::{Map, Value};

use super::EventScripts;
use super::letters::{FailureDetails, NewDeadLetter};
use super::retry;
use belvedere_base::clock::Timestamp;
use belvedere_instance::events::Event;
use belvedere_protocol::atproto::{Did, labels};
use belvedere_protocol::trigger::{Trigger, TriggerKind};
use belvedere_scripting::scripts::{
    CompiledScript, FailureKind, Invocation, Outcome, ReturnKind, ScriptFailure, Services, TriggerEvent,
};
use belvedere_storage::store::dead_letters::DeadLetter;

/// A label as the labeler emitted it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// The labeler's DID.
    pub src: String,
    /// The labeled account's DID, or the labeled record's AT URI.
    pub uri: String,
    /// The version of the record that it applies to, if it is limited to one. Scripts don't see it.
    pub cid: Option<String>,
    pub val: String,
    /// Negates an earlier label.
    pub neg: bool,
    pub cts: Timestamp,
    pub exp: Option<Timestamp>,
}

/// Error for a text that is not a label; the message goes into a 400 response.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a label {0}")]
pub struct InvalidLabel(String);

impl Label {
    /// The subject of the trigger whose scripts decide on the label: a collection, or `_actor`.
    pub fn trigger_subject(&self) -> &str {
        subject(&self.uri)
    }

    /// Checks that a labeler could have emitted the label.
    ///
    /// # Errors
    /// Says what is wrong.
    pub fn validate(&self) -> Result<(), InvalidLabel> {
        check(self).map_err(InvalidLabel)
    }

    /// The label as JSON, as its script sees it and as dead letters keep it.
    pub fn to_json(&self) -> Value {
        let Self { src, uri, cid, val, neg, cts, exp } = self;
        let mut label = serde_json::json!({
            "src": src, "uri": uri, "val": val, "neg": neg, "cts": cts.to_string(), "exp": exp.map(|exp| exp.to_string()),
        });
        if let Some(cid) = cid {
            label["cid"] = cid.as_str().into();
        }
        label
    }

    /// The label of a dead letter; `None` if it is not a label.
    pub fn of_letter(letter: &DeadLetter) -> Option<Self> {
        let fields: Map<String, Value> = serde_json::from_str(letter.payload.as_deref()?).ok()?;
        let text = |name: &str| fields.get(name).and_then(Value::as_str);
        Some(Self {
            src: text("src")?.to_owned(),
            uri: text("uri")?.to_owned(),
            cid: text("cid").map(str::to_owned),
            val: text("val")?.to_owned(),
            neg: fields.get("neg").and_then(Value::as_bool).unwrap_or_default(),
            cts: Timestamp::parse(text("cts")?).ok()?,
            exp: text("exp").and_then(|exp| Timestamp::parse(exp).ok()),
        })
    }
}

/// The script's decision on a label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LabelVerdict {
    Drop,
    Keep(Label),
}

/// The trigger subject for labels on accounts.
const ACTOR: &str = "_actor";

impl EventScripts {
    /// Runs the script that is bound to the label's subject, with retries. Without a script, or when it fails for good,
    /// the label is kept unmodified.
    pub async fn apply_label(&self, label: Label) -> LabelVerdict {
        let id = format!("{}:{}", TriggerKind::LabelApply.as_str(), subject(&label.uri));
        let Some(script) = self.0.runtime.scripts.get(&id) else { return LabelVerdict::Keep(label) };
        let candidate = self.0.runtime.scripts.candidate_for_account(&script, account_of(&label.uri));
        let script = candidate.unwrap_or(script);
        let services = &self.0.runtime.services;
        match retry::with_retries(|| self.attempt_label(&script, &label, services)).await {
            Ok((verdict, attempts)) => {
                self.0.events.record_verbose(|| Event::EventScriptExecuted {
                    subject: label.uri.clone(),
                    host_kind: "label",
                    host_id: label.src.clone(),
                    trigger: id,
                    version: script.version(),
                    attempts,
                });
                verdict
            }
            Err(final_failure) => {
                let details = FailureDetails {
                    trigger: id,
                    error: final_failure.failure.message,
                    attempts: final_failure.attempts,
                };
                self.dead_letter(details, letter(script.trigger(), &label)).await;
                LabelVerdict::Keep(label)
            }
        }
    }

    /// Runs a script once on a label, with the services of a dry run.
    ///
    /// # Errors
    /// When the script fails, or returns a table that is not a valid label.
    pub async fn dry_run_label(
        &self,
        script: &CompiledScript,
        label: &Label,
        services: &Services,
    ) -> Result<LabelVerdict, ScriptFailure> {
        self.attempt_label(script, label, services).await
    }

    async fn attempt_label(
        &self,
        script: &CompiledScript,
        label: &Label,
        services: &Services,
    ) -> Result<LabelVerdict, ScriptFailure> {
        let (cts, exp) = (label.cts.to_string(), label.exp.map(|exp| exp.to_string()));
        let invocation = Invocation {
            event: Some(TriggerEvent::Label {
                src: &label.src,
                uri: &label.uri,
                val: &label.val,
                neg: label.neg,
                cts: &cts,
                exp: exp.as_deref(),
            }),
            ..Invocation::default()
        };
        verdict(label, &self.run(script, &invocation, services).await?)
    }
}

/// Bytes of JSON of the label that a script returns: ten times a label with the longest URI.
const MAX_LABEL_BYTES: usize = 64 << 10;

/// Longest DID that a script can name as the source, in bytes. That of a did:web is a host name; PostgreSQL limits the
/// entry of an index, which has subject, source and value, to about 2.7 KB.
const MAX_SOURCE_BYTES: usize = 300;

/// The subject of the trigger for labels on `uri`: its collection, or `_actor` when it has none. No label is on an address
/// in a space, which has no collection at this place: labelers' are refused when they arrive, and scripts' by [`check`].
fn subject(uri: &str) -> &str {
    let path = uri.strip_prefix("at://").and_then(|rest| rest.split_once('/'));
    let collection = path.map_or("", |(_, path)| path.split('/').next().unwrap_or_default());
    if collection.is_empty() { ACTOR } else { collection }
}

/// The account whose record or profile a label is on.
fn account_of(uri: &str) -> &str {
    let path = uri.strip_prefix("at://").unwrap_or(uri);
    path.split('/').next().unwrap_or_default()
}

fn verdict(label: &Label, outcome: &Outcome) -> Result<LabelVerdict, ScriptFailure> {
    match outcome.shape {
        ReturnKind::Nothing => Ok(LabelVerdict::Drop),
        ReturnKind::Other => Ok(LabelVerdict::Keep(label.clone())),
        ReturnKind::Table => {
            if outcome.body.len() > MAX_LABEL_BYTES {
                let message = format!("handle() returned a label of more than {MAX_LABEL_BYTES} bytes");
                return Err(ScriptFailure::new(FailureKind::Runtime, message));
            }
            let fields: Map<String, Value> = serde_json::from_slice(&outcome.body).map_err(|_| {
                ScriptFailure::new(FailureKind::Runtime, "handle() returned a table that is not a label")
            })?;
            let decided = merged(label, &fields);
            check(&decided).map_err(|why| {
                ScriptFailure::new(FailureKind::Runtime, format!("handle() returned a label {why}"))
            })?;
            Ok(LabelVerdict::Keep(decided))
        }
    }
}

/// The label with the fields that the script returned; fields of a wrong type are ignored (`lua-runtime.md` §4).
fn merged(label: &Label, fields: &Map<String, Value>) -> Label {
    let text = |name: &str, old: &String| {
        fields.get(name).and_then(Value::as_str).map_or_else(|| old.clone(), str::to_owned)
    };
    let time =
        |name: &str| fields.get(name).and_then(Value::as_str).and_then(|text| Timestamp::parse(text).ok());
    let uri = text("uri", &label.uri);
    Label {
        src: text("src", &label.src),
        // The version is one of the original subject.
        cid: label.cid.clone().filter(|_| uri == label.uri),
        uri,
        val: text("val", &label.val),
        neg: fields.get("neg").and_then(Value::as_bool).unwrap_or(label.neg),
        cts: time("cts").unwrap_or(label.cts),
        exp: time("exp").or(label.exp),
    }
}

/// Refuses a label that could not come from a labeler either.
fn check(label: &Label) -> Result<(), String> {
    if !Did::is_valid(&label.src) || label.src.len() > MAX_SOURCE_BYTES {
        return Err("whose src is not a DID".to_owned());
    }
    labels::check_subject(&label.uri).map_err(|invalid| format!("whose {invalid}"))?;
    if !labels::is_value(&label.val) {
        return Err("whose val is empty, longer than 128 bytes or has control characters".to_owned());
    }
    Ok(())
}

fn letter(trigger: &Trigger, label: &Label) -> NewDeadLetter {
    let Label { src, uri, cid, val, neg, cts, .. } = label;
    let payload = label.to_json();
    let version = cid.as_ref().map(|cid| format!(" {cid}")).unwrap_or_default();
    NewDeadLetter {
        event_key: format!("{trigger} {src} {uri} {val} {cts} {neg}{version}"),
        letter: DeadLetter {
            script_ref: trigger.id().to_owned(),
            host_kind: "label".to_owned(),
            host_id: src.clone(),
            lexicon_id: trigger.id().to_owned(),
            collection: trigger.subject().to_owned(),
            uri: uri.clone(),
            did: src.clone(),
            rkey: val.clone(),
            action: "label".to_owned(),
            rev: None,
            cid: cid.clone(),
            payload: Some(payload.to_string()),
        },
    }
}
