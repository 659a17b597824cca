//! The answer of a dry run. Values of script variables that the run had are replaced by their names in all its texts.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::event::DryEvent;
use crate::api::admin::scripts::diagnostics;
use crate::app::App;
use crate::event_scripts::{LabelVerdict, Verdict};
use belvedere_instance::events::redact::{self, Names};
use belvedere_instance::subscriptions::{ScriptMessage, checked_messages};
use belvedere_instance::xrpc::Answer;
use belvedere_protocol::atproto::Nsid;
use belvedere_protocol::trigger::Trigger;
use belvedere_scripting::scripts::{
    DryLogLine, DryRunOptions, DryRunReport, DryWrite, RunProfile, ScriptFailure, limits,
};

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "DryRun")]
pub struct DryRunAnswer {
    ok: bool,
    /// Null if the run failed.
    result: Option<DryRunResult>,
    /// The event in the form that the script saw.
    event: Value,
    logs: Vec<DryLogLine>,
    /// The changes that an ordinary run would have made.
    #[schemars(with = "Vec<DryWrite<'static>>")]
    writes: Vec<Box<RawValue>>,
    /// Writes and log lines that are too many to be listed.
    left_out: u64,
    /// Functions that a dry run may not use.
    #[schemars(with = "Vec<String>")]
    refused: BTreeSet<String>,
    usage: DryRunUsage,
    error: Option<DryRunError>,
    /// Null unless it was requested; always null for views.
    profile: Option<RunProfile>,
    /// The differences from an ordinary run.
    notes: Vec<&'static str>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
enum DryRunResult {
    Proceed,
    Skip,
    Replace {
        record: Value,
        invalid_reason: Option<String>,
    },
    Keep,
    Drop,
    #[serde(rename = "replace")]
    ReplaceLabel {
        label: Value,
    },
    Response {
        status: u16,
        body: Value,
        /// The differences of a 200 from the output that the method's lexicon declares.
        invalid_reason: Option<String>,
    },
    Messages {
        /// In the form that clients get.
        messages: Vec<Value>,
        /// The reasons why other messages are left out.
        invalid_reason: Option<String>,
    },
    Finished {
        value: Value,
    },
}

#[derive(Debug, Serialize, JsonSchema)]
struct DryRunUsage {
    /// Null for jobs.
    instructions: Option<u32>,
    instructions_limit: u32,
    fuel: u64,
    fuel_limit: u64,
    cpu_ms: f64,
    duration_ms: f64,
    host_calls: u32,
}

#[derive(Debug, Serialize, JsonSchema)]
struct DryRunError {
    kind: &'static str,
    message: String,
    line: Option<usize>,
    traceback: Option<String>,
}

/// The decision or the return value of a successful run.
pub(super) enum RunResult {
    Record(Verdict),
    Label(LabelVerdict),
    Method(Answer),
    Messages(Vec<ScriptMessage>),
    /// The result of a job or a setup.
    Finished(Bytes),
}

/// A dry run that has ended.
pub(super) struct Finished<'a> {
    pub(super) trigger: &'a Trigger,
    pub(super) event: &'a DryEvent,
    pub(super) result: Result<RunResult, ScriptFailure>,
    pub(super) duration: Duration,
    pub(super) report: DryRunReport,
    pub(super) options: DryRunOptions,
}

impl Finished<'_> {
    pub(super) fn answer(self, app: &App) -> Value {
        let Self { trigger, event, result, duration, report, options } = self;
        let (result, error) = match result {
            Ok(result) => (Some(self::result(app, trigger, event, result)), None),
            Err(failure) => {
                let (line, message) = diagnostics::position(trigger, &failure);
                let (kind, message) = (failure.kind.as_str(), message.to_owned());
                (None, Some(DryRunError { kind, message, line, traceback: failure.traceback }))
            }
        };
        let millis = |duration: Duration| duration.as_micros() as f64 / 1e3;
        let usage = report.usage;
        let answer = DryRunAnswer {
            ok: error.is_none(),
            result,
            event: event.to_json(),
            notes: notes(&report, options),
            logs: report.logs,
            writes: report.writes,
            left_out: report.left_out,
            refused: report.refused,
            usage: DryRunUsage {
                instructions: usage.instructions,
                instructions_limit: limits::INSTRUCTIONS,
                fuel: usage.fuel,
                fuel_limit: limits::FUEL,
                cpu_ms: millis(usage.guest_time),
                duration_ms: millis(duration),
                host_calls: usage.host_calls,
            },
            error,
            profile: report.profile,
        };
        let mut answer = json!(answer);
        // A run that had none can't show one. A hidden text in its answer would reveal which of its texts is a value.
        if options.with_variables {
            let variables = &app.scripting.runtime.services.variables;
            redact::redact(&mut answer, Names::Ours, &|text| variables.redact(text));
        }
        answer
    }
}

fn result(app: &App, trigger: &Trigger, event: &DryEvent, result: RunResult) -> DryRunResult {
    let parsed = |body: &[u8]| serde_json::from_slice::<Value>(body).unwrap_or_default();
    match result {
        RunResult::Record(Verdict::Proceed) => DryRunResult::Proceed,
        RunResult::Record(Verdict::Skip) => DryRunResult::Skip,
        RunResult::Record(Verdict::Replace { record, .. }) => {
            let invalid_reason = match event {
                DryEvent::Record(event) => {
                    let uri = &event.change.uri;
                    let snapshot = app.registry.snapshot();
                    let validity = snapshot.validate(uri.collection.as_str(), uri.rkey.as_str(), &record);
                    validity.reason().map(str::to_owned)
                }
                _ => None,
            };
            DryRunResult::Replace { record: parsed(&record), invalid_reason }
        }
        RunResult::Label(LabelVerdict::Drop) => DryRunResult::Drop,
        RunResult::Label(LabelVerdict::Keep(label)) => match event {
            DryEvent::Label(before) if *before == label => DryRunResult::Keep,
            _ => DryRunResult::ReplaceLabel { label: label.to_json() },
        },
        RunResult::Method(answer) => {
            let output = || app.registry.snapshot().check_output(trigger.subject(), &answer.body);
            let errors = (answer.status == StatusCode::OK).then(|| output().err()).flatten();
            DryRunResult::Response {
                status: answer.status.as_u16(),
                body: parsed(&answer.body),
                invalid_reason: errors.map(|errors| errors.to_string()),
            }
        }
        RunResult::Messages(made) => {
            let seq = if let DryEvent::Change { change, .. } = event { change.seq } else { 0 };
            let (messages, errors) = match Nsid::try_from(trigger.subject()) {
                Ok(nsid) => checked_messages(&app.registry.snapshot(), &nsid, seq, made),
                Err(error) => (Vec::new(), vec![error.to_string()]),
            };
            let invalid_reason = (!errors.is_empty()).then(|| errors.join("; "));
            DryRunResult::Messages { messages, invalid_reason }
        }
        RunResult::Finished(body) => DryRunResult::Finished { value: parsed(&body) },
    }
}

/// Ways in which this run differed from an ordinary one.
fn notes(report: &DryRunReport, options: DryRunOptions) -> Vec<&'static str> {
    let mut notes = vec!["Nothing was written: what the script reads later does not include its writes."];
    if options.network {
        notes.push("Other servers got requests that only read (GET and HEAD).");
    } else {
        notes.push("Requests to other servers were off.");
    }
    if !options.with_variables {
        notes.push("Script variables had placeholders: their values need script-variables:read.");
    }
    if report.answered_unsent {
        notes.push("Requests that write were not sent: their answer is empty (204, or {} of a procedure).");
    }
    if report.left_out > 0 {
        notes.push("Some writes or log lines are not listed, because there are too many.");
    }
    notes
}
