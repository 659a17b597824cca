//! Subscriptions whose messages a script makes (ADR 157). The script is run by the server.

use std::fmt;

use futures_util::future::BoxFuture;
use serde_json::{Map, Value};

use belvedere_protocol::atproto::Nsid;
use belvedere_protocol::atproto::event_stream::Message;
use belvedere_storage::store::record_changes::{Action, RecordChange};

use super::{Selection, Subscriptions};
use crate::lexicons::Snapshot;
use belvedere_web::fair_share::Tenant;

/// A message that a script has made of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptMessage {
    /// The name in the subscription's lexicon, without `#`, or the full name of one of another lexicon.
    pub name: String,
    /// Its fields without `$type`.
    pub fields: Map<String, Value>,
}

/// Runs the scripts of subscriptions.
pub trait MessageScripts: fmt::Debug + Send + Sync {
    /// Whether a script makes the messages of this subscription.
    fn is_bound(&self, subscription: &str) -> bool;

    /// The messages of a change, in order: none if the script returns nothing, or has failed, which is reported. The tenant waits
    /// when its runs are too many. `values`: the parameters as the lexicon declares them.
    fn messages<'a>(
        &'a self,
        wanted: (&'a Selection, &'a Tenant),
        values: Option<&'a Map<String, Value>>,
        change: &'a RecordChange,
    ) -> BoxFuture<'a, Vec<ScriptMessage>>;

    /// Reports a message that the lexicon does not allow.
    fn report_invalid(&self, subscription: &Nsid, error: String);
}

/// A message that the lexicon allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Checked {
    pub(super) name: String,
    /// The JSON text of its fields, without braces.
    pub(super) fields: String,
}

/// The parameters of a selection as the subscription's lexicon declares them.
fn values(lexicons: &Snapshot, selection: &Selection) -> Option<Map<String, Value>> {
    let mut values = lexicons.params(selection.nsid.as_str(), &selection.params).ok().flatten()?;
    values.remove("cursor");
    Some(values)
}

/// Runs the script of a subscription on a change. Messages that the lexicon does not allow are reported and left out.
pub(super) async fn messages(
    subscriptions: &Subscriptions,
    (selection, tenant): (&Selection, &Tenant),
    change: &RecordChange,
) -> Vec<Checked> {
    let is_hidden = change.action != Action::Deleted && change.record.is_none();
    if is_hidden {
        return Vec::new();
    }
    let lexicons = subscriptions.registry().snapshot();
    let values = values(&lexicons, selection);
    let made = subscriptions.scripts().messages((selection, tenant), values.as_ref(), change).await;
    let (checked, errors) = check(&lexicons, &selection.nsid, change.seq, made);
    for error in errors {
        metrics::counter!("belvedere_subscription_messages_invalid_total").increment(1);
        subscriptions.scripts().report_invalid(&selection.nsid, error);
    }
    checked
}

/// The messages as clients get them, as JSON objects, and what is wrong with the others.
pub fn checked_messages(
    lexicons: &Snapshot,
    nsid: &Nsid,
    seq: i64,
    made: Vec<ScriptMessage>,
) -> (Vec<Value>, Vec<String>) {
    let (checked, errors) = check(lexicons, nsid, seq, made);
    let message = |Checked { name, fields }: &Checked| {
        let comma = if fields.is_empty() { "" } else { "," };
        let text = format!(r#"{{"$type":"{}"{comma}{fields}}}"#, full_name(nsid, name));
        serde_json::from_str(&text).unwrap_or_default()
    };
    (checked.iter().map(message).collect(), errors)
}

fn full_name(nsid: &Nsid, name: &str) -> String {
    if name.contains('#') { name.to_owned() } else { format!("{nsid}#{name}") }
}

/// Checks messages against the lexicon, and adds the number of the change to those that declare it. Only the last one has it
/// where the lexicon does not require it: a client that has its number has all.
fn check(
    lexicons: &Snapshot,
    nsid: &Nsid,
    seq: i64,
    made: Vec<ScriptMessage>,
) -> (Vec<Checked>, Vec<String>) {
    let (mut valid, mut errors) = (Vec::new(), Vec::new());
    for ScriptMessage { name, mut fields } in made {
        let definition = full_name(nsid, &name);
        if !lexicons.documents.has_message(nsid.as_str(), &definition) {
            errors.push(format!("{definition} is no message of the lexicon"));
            continue;
        }
        let requires_seq = lexicons.documents.requires(&definition, "seq");
        fields.remove("seq");
        if requires_seq.is_some() {
            fields.insert("seq".to_owned(), seq.into());
        }
        let text = text(&fields);
        let message = Message { nsid: nsid.as_str(), name: &name, fields: &text };
        match message.encode(&lexicons.documents) {
            Ok(_) => valid.push((name, fields, requires_seq == Some(true))),
            Err(error) => errors.push(error.to_string()),
        }
    }
    let last = valid.len().saturating_sub(1);
    let checked = valid.into_iter().enumerate().map(|(at, (name, mut fields, requires_seq))| {
        if at < last && !requires_seq {
            fields.remove("seq");
        }
        Checked { name, fields: text(&fields) }
    });
    (checked.collect(), errors)
}

/// The JSON text of the fields of an object, without braces.
fn text(fields: &Map<String, Value>) -> String {
    let mut text = serde_json::to_string(fields).unwrap_or_default();
    text.pop();
    if !text.is_empty() {
        text.remove(0);
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use belvedere_protocol::atproto::lexicon::Schemas;

    fn made(name: &str, fields: &Value) -> ScriptMessage {
        ScriptMessage { name: name.to_owned(), fields: fields.as_object().unwrap().clone() }
    }

    #[test]
    fn only_the_last_message_of_a_change_has_its_number() {
        let nsid = Nsid::try_from("com.example.watch").unwrap();
        let lexicon = json!({ "lexicon": 1, "id": nsid.as_str(), "defs": {
            "main": { "type": "subscription", "message": { "schema": { "type": "union", "refs": ["#a", "#b", "#c"] } } },
            "a": { "type": "object", "properties": { "seq": { "type": "integer" }, "n": { "type": "integer" } } },
            "b": { "type": "object", "required": ["seq"], "properties": { "seq": { "type": "integer" } } },
            "c": { "type": "object", "properties": {} } } });
        let mut lexicons = Snapshot::default();
        lexicons.documents = Schemas::new(std::iter::once(lexicon.to_string().as_str()));
        let all = vec![
            made("b", &json!({ "seq": "x" })),
            made("a", &json!({ "n": 1 })),
            made("a", &json!({ "n": "no" })),
            made("other", &json!({})),
            made("c", &json!({})),
            made("a", &json!({})),
            made("a", &json!({ "n": 1.5 })),
        ];
        let (valid, errors) = checked_messages(&lexicons, &nsid, 7, all);
        let named = |name: &str| format!("{nsid}#{name}");
        let expected = [
            json!({ "$type": named("b"), "seq": 7 }),
            json!({ "$type": named("a"), "n": 1 }),
            json!({ "$type": named("c") }),
            json!({ "$type": named("a"), "seq": 7 }),
        ];
        assert_eq!(valid, expected);
        assert_eq!(errors.len(), 3, "{errors:?}");
        assert!(errors[1].contains("#other is no message"), "{errors:?}");
    }
}
