//! Collects what a dry run would have written, and what it logged.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::value::RawValue;

use super::limits;
use super::profile::RunProfile;

/// The collected effects of one dry run, and of the runs that it calls. Cheap to clone.
#[derive(Clone)]
pub struct DryRun(Arc<Inner>);

struct Inner {
    options: DryRunOptions,
    report: Mutex<DryRunReport>,
}

/// The permissions of a dry run.
#[derive(Clone, Copy, Debug, Default)]
pub struct DryRunOptions {
    /// Whether it may read from other servers.
    pub network: bool,
    /// Whether it acts as if its caller had a session with their PDS. Nested procedures always do.
    pub with_session: bool,
    /// Whether `env` has the values of script variables. A script can show them in any form, so that nothing in the answer
    /// hides them.
    pub with_variables: bool,
    /// Whether the report has a profile.
    pub profile: bool,
}

/// The report of a dry run.
#[derive(Debug, Default)]
pub struct DryRunReport {
    /// JSON of each [`DryWrite`], in order.
    pub writes: Vec<Box<RawValue>>,
    pub logs: Vec<DryLogLine>,
    /// Writes and log lines over [`limits::DRY_RUN_BYTES`], which are not in the lists.
    pub left_out: u64,
    /// Functions that were refused because it is a dry run.
    pub refused: BTreeSet<String>,
    /// Whether a request got an answer that no server sent.
    pub answered_unsent: bool,
    pub usage: DryRunUsage,
    pub profile: Option<RunProfile>,
    bytes: usize,
}

/// A log line of a dry run.
#[derive(Debug, Serialize, JsonSchema)]
pub struct DryLogLine {
    /// `debug` (`print`), `info` (`log`) or `warn`.
    #[schemars(extend("enum" = ["debug", "info", "warn"]))]
    pub level: &'static str,
    pub message: String,
}

/// The resources that the run itself used, without the runs that it called.
#[derive(Clone, Copy, Debug, Default)]
pub struct DryRunUsage {
    /// `None` when the run counted them between calls of the host only (a job), or did not begin.
    pub instructions: Option<u32>,
    pub fuel: u64,
    /// Time that the guest was running, without waits for the host.
    pub guest_time: Duration,
    pub host_calls: u32,
}

/// Something that an ordinary run would have changed.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "DryRunWrite")]
#[serde(tag = "kind")]
pub enum DryWrite<'a> {
    #[serde(rename = "record.create")]
    RecordCreate { uri: String, record: &'a RawValue },
    #[serde(rename = "record.update")]
    RecordUpdate { uri: String, record: &'a RawValue },
    #[serde(rename = "record.delete")]
    RecordDelete { uri: String },
    #[serde(rename = "index.save")]
    IndexSave { uri: String, record: &'a RawValue },
    #[serde(rename = "index.delete")]
    IndexDelete { uri: String },
    #[serde(rename = "sql")]
    Sql { statement: &'a str, params: &'a RawValue },
    #[serde(rename = "job.create")]
    JobCreate { job_type: &'a str, input: &'a RawValue, auth: bool },
    #[serde(rename = "job.progress")]
    JobProgress { value: &'a RawValue },
    #[serde(rename = "linked_repo.create")]
    LinkedRepoCreate { uri: String, record: &'a RawValue },
    #[serde(rename = "linked_repo.put")]
    LinkedRepoPut { uri: String, record: &'a RawValue },
    #[serde(rename = "linked_repo.delete")]
    LinkedRepoDelete { uri: String },
    #[serde(rename = "label.issue")]
    LabelIssue { uri: &'a str, val: &'a str, cid: Option<&'a str>, neg: bool, exp: Option<String> },
    #[serde(rename = "moderation.create")]
    ModerationCreate { subject: &'a str, action: &'a str, reason: &'a str, expires_at: Option<String> },
    #[serde(rename = "moderation.lift")]
    ModerationLift { subject: &'a str, reason: Option<&'a str> },
    #[serde(rename = "http.request")]
    HttpRequest { method: &'a str, url: &'a str, body_bytes: usize },
    #[serde(rename = "xrpc.procedure")]
    XrpcProcedure { nsid: &'a str, input: Option<&'a RawValue> },
}

impl DryRun {
    pub fn new(options: DryRunOptions) -> Self {
        Self(Arc::new(Inner { options, report: Mutex::default() }))
    }

    pub fn options(&self) -> DryRunOptions {
        self.0.options
    }

    /// Adds a write.
    pub fn write(&self, write: &DryWrite<'_>) {
        // Serializing texts and JSON can't fail.
        let Ok(json) = serde_json::value::to_raw_value(write) else { return };
        let mut report = self.report();
        if report.has_room(json.get().len()) {
            report.writes.push(json);
        }
    }

    /// Adds a log line.
    pub fn log(&self, level: &'static str, message: String) {
        let mut report = self.report();
        if report.has_room(message.len()) {
            report.logs.push(DryLogLine { level, message });
        }
    }

    /// Adds a function that was refused. Returns the message of its error.
    pub fn refuse(&self, function: &str) -> String {
        self.report().refused.insert(function.to_owned());
        format!("{function} can't be used in this dry run")
    }

    /// Says that a request got an answer that no server sent.
    pub fn answer_unsent(&self) {
        self.report().answered_unsent = true;
    }

    pub(in crate::scripts) fn set_usage(&self, usage: DryRunUsage) {
        self.report().usage = usage;
    }

    pub(in crate::scripts) fn set_profile(&self, profile: Option<RunProfile>) {
        self.report().profile = profile;
    }

    /// Takes what was collected so far.
    pub fn take(&self) -> DryRunReport {
        std::mem::take(&mut self.report())
    }

    fn report(&self) -> MutexGuard<'_, DryRunReport> {
        self.0.report.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DryRunReport {
    /// Counts the bytes of an entry, or that it was left out.
    fn has_room(&mut self, bytes: usize) -> bool {
        let has_room = self.bytes + bytes <= limits::DRY_RUN_BYTES;
        if has_room {
            self.bytes += bytes;
        } else {
            self.left_out += 1;
        }
        has_room
    }
}

impl fmt::Debug for DryRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DryRun").field(&self.0.options).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_exceeds_the_limit_is_counted_and_left_out() {
        let dry_run = DryRun::new(DryRunOptions::default());
        let message = "x".repeat(limits::DRY_RUN_BYTES / 2);
        for _ in 0..3 {
            dry_run.log("info", message.clone());
        }
        dry_run.write(&DryWrite::IndexDelete { uri: "at://did:plc:a/com.example.note/1".into() });
        let report = dry_run.take();
        assert_eq!((report.logs.len(), report.writes.len(), report.left_out), (2, 0, 2));
    }
}
