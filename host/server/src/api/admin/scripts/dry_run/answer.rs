//! The answer of a dry run. Values of script variables that the run had are replaced by their names in all its texts.

use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};

use super::event::DryEvent;
use crate::api::admin::scripts::diagnostics;
use crate::app::App;
use crate::event_scripts::{LabelVerdict, Verdict};
use belvedere_instance::events::redact::{self, Names};
use belvedere_instance::xrpc::Answer;
use belvedere_protocol::trigger::Trigger;
use belvedere_scripting::scripts::{DryRunOptions, DryRunReport, ScriptFailure, limits};

/// The decision or the return value of a successful run.
pub(super) enum RunResult {
    Record(Verdict),
    Label(LabelVerdict),
    Method(Answer),
    Job(Bytes),
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
            Ok(result) => (self::result(app, event, result), None),
            Err(failure) => {
                let (line, message) = diagnostics::position(trigger, &failure);
                let error = json!({ "kind": failure.kind.as_str(), "message": message, "line": line,
                    "traceback": failure.traceback });
                (Value::Null, Some(error))
            }
        };
        let millis = |duration: Duration| duration.as_micros() as f64 / 1e3;
        let usage = report.usage;
        let mut answer = json!({
            "ok": error.is_none(),
            "result": result,
            "event": event.to_json(),
            "logs": report.logs,
            "writes": report.writes,
            "left_out": report.left_out,
            "refused": report.refused,
            "usage": {
                "instructions": usage.instructions,
                "instructions_limit": limits::INSTRUCTIONS,
                "fuel": usage.fuel,
                "fuel_limit": limits::FUEL,
                "cpu_ms": millis(usage.guest_time),
                "duration_ms": millis(duration),
                "host_calls": usage.host_calls,
            },
            "error": error,
            "notes": notes(&report, options),
        });
        // A run that had none can't show one. A hidden text in its answer would reveal which of its texts is a value.
        if options.with_variables {
            let variables = &app.scripting.runtime.services.variables;
            redact::redact(&mut answer, Names::Ours, &|text| variables.redact(text));
        }
        answer
    }
}

fn result(app: &App, event: &DryEvent, result: RunResult) -> Value {
    let parsed = |body: &[u8]| serde_json::from_slice::<Value>(body).unwrap_or_default();
    match result {
        RunResult::Record(Verdict::Proceed) => json!({ "type": "proceed" }),
        RunResult::Record(Verdict::Skip) => json!({ "type": "skip" }),
        RunResult::Record(Verdict::Replace { record, .. }) => {
            let reason = match event {
                DryEvent::Record(event) => {
                    let uri = &event.change.uri;
                    let snapshot = app.registry.snapshot();
                    let validity = snapshot.validate(uri.collection.as_str(), uri.rkey.as_str(), &record);
                    validity.reason().map(str::to_owned)
                }
                _ => None,
            };
            json!({ "type": "replace", "record": parsed(&record), "invalid_reason": reason })
        }
        RunResult::Label(LabelVerdict::Drop) => json!({ "type": "drop" }),
        RunResult::Label(LabelVerdict::Keep(label)) => match event {
            DryEvent::Label(before) if *before == label => json!({ "type": "keep" }),
            _ => json!({ "type": "replace", "label": label.to_json() }),
        },
        RunResult::Method(answer) => {
            json!({ "type": "response", "status": answer.status.as_u16(), "body": parsed(&answer.body) })
        }
        RunResult::Job(body) => json!({ "type": "finished", "value": parsed(&body) }),
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
