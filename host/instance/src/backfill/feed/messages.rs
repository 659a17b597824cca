//! Formats messages about a job as server-sent events.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::Serialize;

use super::super::progress::Progress;
use belvedere_storage::store::backfill::JobRow;
use belvedere_storage::store::status::{BackfillStatus, Stage};
use belvedere_web::http::event_stream;

/// The event type of every message (service.md, Backfill progress stream).
const EVENT: &str = "event";

/// Messages that are sent together.
#[derive(Clone, Debug)]
pub(super) struct Frame {
    pub(super) bytes: Bytes,
    /// Nothing follows: the job has ended.
    pub(super) is_last: bool,
}

/// Appends a message.
pub(super) fn append(frame: &mut Vec<u8>, job_id: &str, message: &Progress) {
    append_json(frame, &message.to_json(job_id));
}

/// Appends a message that is JSON text already.
pub(super) fn append_json(frame: &mut Vec<u8>, json: &[u8]) {
    event_stream::message(frame, EVENT, json);
}

/// The last message about a job that has ended.
pub(super) fn completed(job: &JobRow) -> Bytes {
    let mut frame = Vec::new();
    append(&mut frame, &job.id, &completion(job));
    frame.into()
}

pub(super) fn completion(job: &JobRow) -> Progress {
    Progress::JobCompleted { status: job.status, error: job.error.clone() }
}

/// The state of a job, sent when a stream opens and after its reader has missed messages.
#[derive(Debug)]
pub(super) struct Snapshot<'a> {
    pub(super) job: &'a JobRow,
    /// Failed repos by kind of error.
    pub(super) error_counts: &'a BTreeMap<String, i64>,
}

#[derive(Serialize)]
struct Payload<'a> {
    r#type: &'static str,
    job_id: &'a str,
    status: BackfillStatus,
    stage: Stage,
    total_repos: Option<i64>,
    resolved_repos: Option<i64>,
    processed_repos: Option<i64>,
    failed_repos: Option<i64>,
    total_records: Option<i64>,
    error_counts: &'a BTreeMap<String, i64>,
}

impl Snapshot<'_> {
    pub(super) fn message(&self) -> Bytes {
        let JobRow { total_repos, resolved_repos, processed_repos, failed_repos, total_records, .. } =
            *self.job;
        let payload = Payload {
            r#type: "job_snapshot",
            job_id: &self.job.id,
            status: self.job.status,
            stage: self.job.stage,
            total_repos,
            resolved_repos,
            processed_repos,
            failed_repos,
            total_records,
            error_counts: self.error_counts,
        };
        let mut frame = Vec::new();
        // Strings and numbers always serialize.
        append_json(&mut frame, &serde_json::to_vec(&payload).unwrap_or_default());
        frame.into()
    }
}
