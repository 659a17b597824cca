//! What a run is given and what it gives back.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

/// The values behind a run's globals. Absent ones are nil in Lua.
#[derive(Clone, Copy, Debug, Default)]
pub struct Invocation<'a> {
    /// The NSID that was called.
    pub method: Option<&'a str>,
    /// The lexicon's target collection.
    pub collection: Option<&'a str>,
    /// The authenticated caller; `None` for an anonymous call.
    pub caller_did: Option<&'a str>,
    /// Query parameters in order, decoded. A name that repeats becomes an array of strings.
    pub params: Option<&'a [(String, String)]>,
    /// The request body of a procedure: JSON text that has been checked to be JSON.
    pub input: Option<&'a [u8]>,
    /// The script variables.
    pub env: &'a Env,
}

/// The script variables, rendered once for all runs.
#[derive(Clone, Debug)]
pub struct Env(Arc<[u8]>);

impl Env {
    pub fn new<'a>(variables: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let map: serde_json::Map<String, serde_json::Value> =
            variables.into_iter().map(|(k, v)| (k.to_owned(), v.into())).collect();
        Self(serde_json::Value::Object(map).to_string().into_bytes().into())
    }
}

impl Default for Env {
    fn default() -> Self {
        Self(b"{}".as_slice().into())
    }
}

impl Default for &Env {
    fn default() -> Self {
        static EMPTY: std::sync::LazyLock<Env> = std::sync::LazyLock::new(Env::default);
        &EMPTY
    }
}

/// What kind of value `handle()` returned. Record and label scripts are steered by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// nil, or no value.
    Nothing,
    Table,
    Other,
}

/// A run that ended well.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub shape: Shape,
    /// The returned value as JSON text, `null` for nothing.
    pub body: Bytes,
    pub usage: Usage,
}

/// What a run took.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    pub fuel: u64,
    /// Time on the processor's side of the fence: waits for the host are not in it.
    pub guest_time: Duration,
    pub host_calls: u32,
}
