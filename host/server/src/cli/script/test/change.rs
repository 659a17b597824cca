//! The function `call.change` of test files: runs the script of a subscription on a change.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::world::{Refused, World, checked, parse, without_nulls};
use crate::event_scripts::MessageParams;
use belvedere_instance::indexing::RecordAction;
use belvedere_instance::subscriptions::checked_messages;
use belvedere_protocol::atproto::{Nsid, RecordUri, set_record_type};
use belvedere_protocol::trigger::TriggerKind;
use belvedere_storage::store::record_changes::{Action, RecordChange};

#[derive(Deserialize)]
struct GivenChange {
    nsid: String,
    action: String,
    uri: String,
    record: Option<Map<String, Value>>,
    seq: Option<i64>,
}

pub(super) async fn change(
    world: &World,
    input: &[u8],
    params: &[(String, String)],
) -> Result<Value, Refused> {
    let GivenChange { nsid, action, uri, record, seq } = parse("call.change", input)?;
    let refused = |error: &dyn std::fmt::Display| Refused(format!("call.change: {nsid}: {error}"));
    let subscription = Nsid::try_from(nsid.as_str()).map_err(|_| refused(&"not an NSID"))?;
    let uri = RecordUri::parse(&uri).map_err(|error| refused(&error))?;
    let runtime = &world.app.scripting.runtime;
    let trigger = format!("{}:{nsid}", TriggerKind::Subscription.as_str());
    let script = runtime.scripts.get(&trigger);
    let script = script.ok_or_else(|| refused(&format!("no script is bound to {trigger}")))?;
    let action = match RecordAction::parse(&action) {
        Some(RecordAction::Create) => Action::Created,
        Some(RecordAction::Update) => Action::Updated,
        Some(RecordAction::Delete) => Action::Deleted,
        None => return Err(refused(&"action: create, update or delete expected")),
    };
    let record = match (action, record) {
        (Action::Deleted, _) => None,
        (_, None) => return Err(refused(&"the record is missing")),
        (_, Some(mut fields)) => {
            set_record_type(&mut fields, uri.collection.as_str()).map_err(|error| refused(&error))?;
            Some(checked(Value::Object(fields).to_string().into()).map_err(|error| refused(&error))?)
        }
    };
    let change = RecordChange {
        seq: seq.unwrap_or(1),
        did: uri.did.to_string(),
        collection: uri.collection.to_string(),
        rkey: uri.rkey.to_string(),
        action,
        changed_at: world.clock.now(),
        cid: record.as_ref().and_then(|record| record.cid).map(|cid| cid.to_bytes().to_vec()),
        record: record.as_ref().map(|record| String::from_utf8_lossy(&record.text).into_owned()),
    };
    let lexicons = world.app.registry.snapshot();
    let values = lexicons.params(&nsid, params).map_err(|errors| refused(&errors))?;
    let given = MessageParams { given: params, values: values.as_ref() };
    let runs = world.seen.runs();
    let events = &world.app.scripting.events;
    let made = events.attempt_messages(&script, given, &change, &runtime.services).await;
    let run = world.seen.run_since(runs, &trigger);
    let (made, error) = match made {
        Ok(made) => (made, None),
        Err(failure) => (Vec::new(), Some(failure.message)),
    };
    let (messages, invalid) = checked_messages(&lexicons, &subscription, change.seq, made);
    Ok(without_nulls(json!({
        "messages": messages,
        "invalid": invalid,
        "instructions": run.as_ref().and_then(|run| run.instructions),
        "error": error,
    })))
}
