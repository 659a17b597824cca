//! Scripts of subscriptions: makes the messages of a change of the index (ADR 157).

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Instant;

use futures_util::future::BoxFuture;
use serde_json::{Map, Value};

use super::EventScripts;
use super::retry::{self, FinalFailure};
use belvedere_instance::events::Event;
use belvedere_instance::events::redact::{self, Names};
use belvedere_instance::subscriptions::{MessageScripts, ScriptMessage, Selection};
use belvedere_protocol::atproto::{Cid, Nsid};
use belvedere_protocol::trigger::TriggerKind;
use belvedere_scripting::scripts::{
    CompiledScript, FailureKind, Invocation, ReturnKind, ScriptFailure, Services, TriggerEvent,
};
use belvedere_storage::store::record_changes::RecordChange;
use belvedere_web::fair_share::Tenant;

/// Messages of one change: a bug in a loop must not fill the queues of all connections.
const MAX_MESSAGES: usize = 100;

/// Bytes that the event of a failure keeps of the source, and of the change.
const EVENT_BYTES: usize = 4 << 10;

/// The parameters of the connections for which a script runs.
#[derive(Clone, Copy, Debug, Default)]
pub struct MessageParams<'a> {
    /// Names and values in order.
    pub given: &'a [(String, String)],
    /// The same as the lexicon declares them; `None` without a lexicon.
    pub values: Option<&'a Map<String, Value>>,
}

impl EventScripts {
    /// Runs the script of a subscription once on a change, with these services.
    ///
    /// # Errors
    /// When the script fails, or returns something else than messages.
    pub async fn attempt_messages(
        &self,
        script: &CompiledScript,
        params: MessageParams<'_>,
        change: &RecordChange,
        services: &Services,
    ) -> Result<Vec<ScriptMessage>, ScriptFailure> {
        let event = change_json(change);
        let invocation = Invocation {
            collection: Some(&change.collection),
            params: Some(params.given),
            values: params.values,
            event: Some(TriggerEvent::Change { event: event.as_bytes() }),
            ..Invocation::default()
        };
        let outcome = self.0.runtime.engine.run(script, invocation, services).await?;
        returned(script.trigger().subject(), outcome.shape, &outcome.body)
            .map_err(|why| ScriptFailure::new(FailureKind::Runtime, format!("handle() returned {why}")))
    }

    /// The script of a subscription, in the version that runs for the changes of an account.
    fn message_script(&self, subscription: &str, did: &str) -> Option<Arc<CompiledScript>> {
        let script = self.0.runtime.scripts.get(&trigger_id(subscription))?;
        Some(self.0.runtime.scripts.candidate_for_account(&script, did).unwrap_or(script))
    }

    async fn make_messages(
        &self,
        (selection, tenant): (&Selection, &Tenant),
        values: Option<&Map<String, Value>>,
        change: &RecordChange,
    ) -> Vec<ScriptMessage> {
        // It may have been removed since the change was read.
        let Some(script) = self.message_script(selection.nsid.as_str(), &change.did) else {
            return Vec::new();
        };
        let (services, began) = (&self.0.runtime.services, Instant::now());
        let params = MessageParams { given: &selection.params, values };
        let attempt = || async {
            // No run is refused: those that wait are bounded by the connections.
            let _permit = self.0.message_runs.enter(tenant).await;
            self.attempt_messages(&script, params, change, services).await
        };
        match retry::with_retries(attempt).await {
            Ok((messages, _)) => messages,
            Err(FinalFailure { failure, .. }) => {
                self.report_failure(&script, &selection.nsid, change, (&failure, began));
                Vec::new()
            }
        }
    }

    /// Records the failure in the event log, within the instance's share of it.
    fn report_failure(
        &self,
        script: &CompiledScript,
        nsid: &Nsid,
        change: &RecordChange,
        (failure, began): (&ScriptFailure, Instant),
    ) {
        let services = &self.0.runtime.services;
        let bytes = failure.message.len() + script.source().len().min(EVENT_BYTES) + EVENT_BYTES;
        let trigger: Arc<str> = script.trigger().id().into();
        if !services.log.admit(&Tenant::Instance, &trigger, bytes, services.clock.now()) {
            return;
        }
        tracing::warn!(
            trigger = &*trigger,
            error = failure.message,
            "the script of a subscription failed; the messages of the change are left out"
        );
        let mut input: Value = serde_json::from_str(&change_json(change)).unwrap_or_default();
        redact::redact(&mut input, Names::OfCaller, &|text| services.variables.redact(text));
        self.0.events.record(Event::ScriptError {
            method: nsid.clone(),
            caller: None,
            error: services.variables.redact(&failure.message).into_owned(),
            script_source: script.source().to_owned(),
            version: script.version(),
            input,
            duration: began.elapsed(),
        });
    }
}

impl MessageScripts for EventScripts {
    fn is_bound(&self, subscription: &str) -> bool {
        self.0.runtime.scripts.get(&trigger_id(subscription)).is_some()
    }

    fn messages<'a>(
        &'a self,
        wanted: (&'a Selection, &'a Tenant),
        values: Option<&'a Map<String, Value>>,
        change: &'a RecordChange,
    ) -> BoxFuture<'a, Vec<ScriptMessage>> {
        Box::pin(self.make_messages(wanted, values, change))
    }

    fn report_invalid(&self, subscription: &Nsid, error: String) {
        let services = &self.0.runtime.services;
        let trigger: Arc<str> = trigger_id(subscription.as_str()).into();
        if services.log.admit(&Tenant::Instance, &trigger, error.len(), services.clock.now()) {
            let method = subscription.clone();
            self.0.events.record(Event::ScriptOutputInvalid { method, caller: None, error });
        }
    }
}

fn trigger_id(subscription: &str) -> String {
    format!("{}:{subscription}", TriggerKind::Subscription.as_str())
}

/// The change as its script sees it.
pub fn change_json(change: &RecordChange) -> String {
    // DIDs, NSIDs and record keys have no character that JSON escapes.
    let RecordChange { seq, did, collection, rkey, action, changed_at, cid, record } = change;
    let action = action.as_str();
    let mut json = format!(
        r#"{{"seq":{seq},"action":"{action}","uri":"at://{did}/{collection}/{rkey}","did":"{did}","collection":"{collection}","rkey":"{rkey}","time":"{changed_at}""#
    );
    // Writing to a String never fails.
    if let Some(cid) = cid.as_deref().and_then(|bytes| Cid::from_bytes(bytes).ok()) {
        let _ = write!(json, r#","cid":"{cid}""#);
    }
    if let Some(record) = record {
        let _ = write!(json, r#","record":{record}"#);
    }
    json.push('}');
    json
}

/// The messages that a return value stands for. The error says what it is instead.
fn returned(nsid: &str, shape: ReturnKind, body: &[u8]) -> Result<Vec<ScriptMessage>, String> {
    match shape {
        ReturnKind::Nothing => Ok(Vec::new()),
        ReturnKind::Other => Err("no message: return a table, an array of tables or nil".to_owned()),
        ReturnKind::Table => {
            let value = serde_json::from_slice(body).map_err(|error| format!("no message: {error}"))?;
            let all = match value {
                Value::Array(all) => all,
                Value::Object(fields) if fields.is_empty() => return Ok(Vec::new()),
                one => vec![one],
            };
            if all.len() > MAX_MESSAGES {
                return Err(format!("more than {MAX_MESSAGES} messages"));
            }
            all.into_iter().map(|value| message(nsid, value)).collect()
        }
    }
}

fn message(nsid: &str, value: Value) -> Result<ScriptMessage, String> {
    let Value::Object(mut fields) = value else { return Err(format!("{value} in place of a message")) };
    let Some(Value::String(kind)) = fields.remove("$type") else {
        return Err("a message without $type: set it to the name of a message of the lexicon".to_owned());
    };
    let own = kind.strip_prefix(nsid).unwrap_or(&kind);
    let name = own.strip_prefix('#').unwrap_or(own).to_owned();
    Ok(ScriptMessage { name, fields })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use belvedere_base::clock::Timestamp;
    use belvedere_storage::store::record_changes::Action;

    fn messages(shape: ReturnKind, body: &Value) -> Result<Vec<String>, String> {
        let made = returned("com.example.watch", shape, body.to_string().as_bytes())?;
        Ok(made
            .into_iter()
            .map(|ScriptMessage { name, fields }| format!("{name} {}", json!(fields)))
            .collect())
    }

    #[test]
    fn a_table_is_a_message_or_several() {
        let table = |body| messages(ReturnKind::Table, &body);
        assert_eq!(messages(ReturnKind::Nothing, &Value::Null), Ok(Vec::new()));
        assert_eq!(table(json!({})), Ok(Vec::new()));
        assert_eq!(table(json!({ "$type": "#post", "a": 1 })).unwrap(), [r#"post {"a":1}"#]);
        let several =
            table(json!([{ "$type": "com.example.watch#post" }, { "$type": "com.example.other#post" }]));
        assert_eq!(several.unwrap(), ["post {}", "com.example.other#post {}"]);
        assert!(table(json!({ "a": 1 })).unwrap_err().contains("without $type"));
        assert!(table(json!(["post"])).unwrap_err().contains("in place of a message"));
        assert!(table(json!(vec![json!({ "$type": "a" }); 101])).unwrap_err().contains("more than 100"));
        assert!(messages(ReturnKind::Other, &json!(true)).unwrap_err().contains("no message"));
    }

    #[test]
    fn a_change_is_json() {
        let change = RecordChange {
            seq: 7,
            did: "did:plc:abc".to_owned(),
            collection: "com.example.note".to_owned(),
            rkey: "a".to_owned(),
            action: Action::Deleted,
            changed_at: Timestamp(0),
            cid: None,
            record: None,
        };
        let read: Value = serde_json::from_str(&change_json(&change)).unwrap();
        let expected = json!({ "seq": 7, "action": "delete", "uri": "at://did:plc:abc/com.example.note/a",
            "did": "did:plc:abc", "collection": "com.example.note", "rkey": "a", "time": Timestamp(0).to_string() });
        assert_eq!(read, expected);
        let with = RecordChange { record: Some(r#"{"text":"x"}"#.to_owned()), ..change };
        let read: Value = serde_json::from_str(&change_json(&with)).unwrap();
        assert_eq!(read["record"]["text"], "x");
    }
}
