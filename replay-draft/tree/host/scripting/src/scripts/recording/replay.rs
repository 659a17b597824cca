//! The result of running a body on a recorded run.

use schemars::JsonSchema;
use serde::Serialize;

/// How a replayed run differs from the recorded one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DifferenceKind {
    /// It returns another value.
    Answer,
    /// It fails, or fails in another way, or does not fail any more.
    Error,
    /// It makes a call that the recorded run did not make.
    Asked,
    /// It does not make a call that the recorded run made.
    NotAsked,
}

/// A difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    pub kind: DifferenceKind,
    /// The function, as `db.get`; for answers and errors empty.
    pub call: String,
    /// For a call the readable part of its arguments, else both values.
    pub detail: String,
}

/// A replayed run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replayed {
    /// Empty when both runs are equal to the byte.
    pub differences: Vec<Difference>,
    /// Instructions of the recorded run.
    pub recorded_instructions: Option<u32>,
    pub instructions: Option<u32>,
}

impl Difference {
    /// Whether the call changes something outside of the run.
    pub fn is_write(&self) -> bool {
        matches!(
            &*self.call,
            "repo.save"
                | "repo.save_local"
                | "repo.delete_local"
                | "jobs.create"
                | "xrpc.procedure"
                | "atproto.issue_label"
                | "atproto.blob_upload"
                | "moderation.moderate"
                | "moderation.lift"
                | "linked_repos.create_record"
                | "linked_repos.put_record"
                | "linked_repos.delete_record"
                | "linked_repos.upload_blob"
                | "linked_repos.call"
        )
    }
}
