//! What the event log keeps of a failed run of a script.

use std::time::Duration;

use serde_json::Value;

use belvedere_protocol::atproto::Nsid;

/// A failed run of a script. The script's caller receives only one of two fixed texts.
#[derive(Clone, Debug)]
pub struct ScriptError {
    pub method: Nsid,
    pub caller: Option<String>,
    pub error: String,
    pub script_source: String,
    pub input: Value,
    pub duration: Duration,
}
