//! A job as answers show it.

use serde::Serialize;
use serde_json::value::RawValue;

use crate::clock::Timestamp;
use crate::store::jobs::JobRow;

#[derive(Serialize)]
pub(super) struct JobView {
    id: String,
    job_type: String,
    status: String,
    input: Box<RawValue>,
    progress: Box<RawValue>,
    result: Option<Box<RawValue>>,
    error: Option<String>,
    created_by: String,
    inherit_auth: bool,
    started_at: Option<Timestamp>,
    completed_at: Option<Timestamp>,
    created_at: Timestamp,
}

impl JobView {
    pub(super) fn new(row: JobRow) -> Result<Self, serde_json::Error> {
        Ok(Self {
            input: RawValue::from_string(row.input)?,
            progress: RawValue::from_string(row.progress)?,
            result: row.result.map(RawValue::from_string).transpose()?,
            id: row.id,
            job_type: row.job_type,
            status: row.status,
            error: row.error,
            created_by: row.created_by,
            inherit_auth: row.inherit_auth,
            started_at: row.started_at,
            completed_at: row.completed_at,
            created_at: row.created_at,
        })
    }
}
