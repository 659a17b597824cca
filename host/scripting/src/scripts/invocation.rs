//! The input of a run, from which its globals are made, and its outcome.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Map, Value};

use super::{Lineage, Variables};
use belvedere_instance::xrpc::Caller;
use belvedere_protocol::atproto::Did;

/// The values behind a run's globals. Absent ones are nil in Lua.
#[derive(Clone, Copy, Debug, Default)]
pub struct Invocation<'a> {
    /// The NSID that was called.
    pub method: Option<&'a str>,
    /// The lexicon's target collection.
    pub collection: Option<&'a str>,
    /// On whose behalf the script runs; `None`: without a caller, at the expense of the instance.
    pub caller: Option<&'a Caller>,
    /// The account that a procedure's caller writes for, if it is not their own.
    pub delegate: Option<&'a Did>,
    /// Query parameters in order, decoded. Without `values` they are the script's `params`: strings, and arrays of strings for names
    /// that repeat.
    pub params: Option<&'a [(String, String)]>,
    /// The parameters as the lexicon of the method declares them.
    pub values: Option<&'a Map<String, Value>>,
    /// The request body of a procedure: JSON text that has been checked to be JSON.
    pub input: Option<&'a [u8]>,
    /// The event, for record and label scripts.
    pub event: Option<TriggerEvent<'a>>,
    /// Id and input (JSON text) of the job that the run executes.
    pub job: Option<(&'a str, &'a [u8])>,
    /// For a run that a script called.
    pub lineage: Option<&'a Lineage>,
    /// Whether a job may use its creator's session. A procedure may always use its caller's.
    pub inherit_auth: bool,
}

/// An event, whose fields become globals of its script.
#[derive(Clone, Copy, Debug)]
pub enum TriggerEvent<'a> {
    Record {
        /// `create`, `update` or `delete`.
        action: &'a str,
        uri: &'a str,
        did: &'a str,
        rkey: &'a str,
        /// JSON text; `None` for a delete.
        record: Option<&'a [u8]>,
    },
    Label {
        src: &'a str,
        uri: &'a str,
        val: &'a str,
        neg: bool,
        cts: &'a str,
        exp: Option<&'a str>,
    },
    /// A change of which a subscription sends messages: a JSON object.
    Change {
        event: &'a [u8],
    },
}

impl TriggerEvent<'_> {
    pub(super) fn render(&self, out: &mut Vec<u8>) {
        let mut texts = |fields: &[(&str, &str)]| {
            for (name, value) in fields {
                field(out, name);
                text(out, value);
            }
        };
        match *self {
            Self::Record { action, uri, did, rkey, record } => {
                texts(&[("action", action), ("uri", uri), ("did", did), ("rkey", rkey)]);
                if let Some(record) = record {
                    field(out, "record");
                    out.extend_from_slice(record);
                }
            }
            Self::Label { src, uri, val, neg, cts, exp } => {
                texts(&[("src", src), ("uri", uri), ("val", val), ("cts", cts)]);
                texts(exp.map(|exp| ("exp", exp)).as_slice());
                field(out, "neg");
                out.extend_from_slice(if neg { b"true" } else { b"false" });
            }
            Self::Change { event } => {
                field(out, "event");
                out.extend_from_slice(event);
            }
        }
    }
}

impl Invocation<'_> {
    /// The JSON object whose fields become the run's globals. `space`: the value of the global of that name.
    pub(super) fn globals(&self, env: &Variables, space: Option<&Value>) -> Vec<u8> {
        let mut out = Vec::with_capacity(512 + self.input.map_or(0, <[u8]>::len));
        out.extend_from_slice(b"{\"env\":");
        env.render(&mut out);
        for (name, value) in [
            ("method", self.method),
            ("collection", self.collection),
            ("caller_did", self.caller.and_then(|caller| caller.did.as_ref()).map(Did::as_str)),
            ("delegate_did", self.delegate.map(Did::as_str)),
        ] {
            if let Some(value) = value {
                field(&mut out, name);
                text(&mut out, value);
            }
        }
        if let Some(values) = self.values {
            field(&mut out, "params");
            // Writing to a Vec can't fail.
            let _ = serde_json::to_writer(&mut out, values);
        } else if let Some(params) = self.params {
            field(&mut out, "params");
            render_params(&mut out, params);
        }
        if let Some(input) = self.input {
            field(&mut out, "input");
            out.extend_from_slice(input);
        }
        if let Some(space) = space {
            field(&mut out, "space");
            // Writing to a Vec can't fail.
            let _ = serde_json::to_writer(&mut out, space);
        }
        if let Some((id, input)) = self.job {
            field(&mut out, "job");
            out.extend_from_slice(b"{\"id\":");
            text(&mut out, id);
            out.extend_from_slice(b",\"input\":");
            out.extend_from_slice(input);
            out.push(b'}');
        }
        if let Some(event) = &self.event {
            event.render(&mut out);
        }
        out.push(b'}');
        out
    }
}

pub(super) fn field(out: &mut Vec<u8>, name: &str) {
    out.push(b',');
    text(out, name);
    out.push(b':');
}

pub(super) fn text(out: &mut Vec<u8>, value: &str) {
    // Writing a string to a Vec can't fail.
    let _ = serde_json::to_writer(out, value);
}

/// Every value is a string; a repeated name becomes an array of strings, in order.
pub(super) fn render_params(out: &mut Vec<u8>, params: &[(String, String)]) {
    let mut grouped: Vec<(&str, Vec<&str>)> = Vec::with_capacity(params.len());
    let mut positions: HashMap<&str, usize> = HashMap::with_capacity(params.len());
    for (name, value) in params {
        match positions.entry(name) {
            Entry::Occupied(position) => grouped[*position.get()].1.push(value),
            Entry::Vacant(position) => {
                position.insert(grouped.len());
                grouped.push((name, vec![value]));
            }
        }
    }
    out.push(b'{');
    for (i, (name, values)) in grouped.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        text(out, name);
        out.push(b':');
        match values.as_slice() {
            [single] => text(out, single),
            // Writing strings to a Vec can't fail.
            several => drop(serde_json::to_writer(&mut *out, several)),
        }
    }
    out.push(b'}');
}

/// The kind of value that `handle()` returned. It decides what happens to the event of a record or label script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReturnKind {
    /// nil, or no value.
    Nothing,
    Table,
    Other,
}

/// The result of a successful run.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub shape: ReturnKind,
    /// The returned value as JSON text, `null` for nothing.
    pub body: Bytes,
    pub usage: Usage,
}

/// The resources that a run used.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    pub fuel: u64,
    /// Time that the guest was running, without waits for the host.
    pub guest_time: Duration,
    pub host_calls: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_values_are_left_out_of_the_globals() {
        let env = Variables::new([("KEY", "va\"lue")]);
        let params: Vec<_> = [("a", "1"), ("b", "x\n"), ("a", "2"), ("c", "")]
            .map(|(k, v)| (k.to_owned(), v.to_owned()))
            .into();
        let did = Did::try_from("did:plc:abc").unwrap();
        let caller = Caller { did: Some(did), ..Caller::default() };
        let invocation = Invocation {
            method: Some("com.example.get"),
            caller: Some(&caller),
            params: Some(&params),
            ..Invocation::default()
        };
        let globals: Value = serde_json::from_slice(&invocation.globals(&env, None)).unwrap();
        let expected = serde_json::json!({
            "env": {"KEY": "va\"lue"},
            "method": "com.example.get",
            "caller_did": "did:plc:abc",
            "params": {"a": ["1", "2"], "b": "x\n", "c": ""},
        });
        assert_eq!(globals, expected);
        assert_eq!(Invocation::default().globals(&Variables::default(), None), br#"{"env":{}}"#);
    }

    #[test]
    fn the_list_has_all_globals_and_no_others() {
        let did = Did::try_from("did:plc:abc").unwrap();
        let caller = Caller { did: Some(did.clone()), ..Caller::default() };
        let (texts, space) = (["a"; 4], Value::Null);
        let all = |event| Invocation {
            method: Some("com.example.get"),
            collection: Some("com.example.note"),
            caller: Some(&caller),
            delegate: Some(&did),
            params: Some(&[]),
            input: Some(b"{}"),
            job: Some(("id", b"{}")),
            event: Some(event),
            ..Invocation::default()
        };
        let [action, uri, did, rkey] = texts;
        let record = TriggerEvent::Record { action, uri, did, rkey, record: Some(b"{}") };
        let [src, uri, val, cts] = texts;
        let label = TriggerEvent::Label { src, uri, val, neg: false, cts, exp: Some("a") };
        let mut names = std::collections::BTreeSet::new();
        for event in [record, label] {
            let globals = all(event).globals(&Variables::default(), Some(&space));
            names.extend(serde_json::from_slice::<Map<String, Value>>(&globals).unwrap().keys().cloned());
        }
        let known = crate::scripts::contract::globals::OF_RUNS.map(|(name, _)| name);
        assert!(names.iter().eq(known.iter()), "{names:?}");
    }
}
