//! The input of a dry run: a record event, a label, a change for a subscription, a request or a job.

use bytes::Bytes;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::app::App;
use crate::event_scripts::{Label, change_json, original_event};
use belvedere_base::clock::Timestamp;
use belvedere_instance::indexing::{RecordAction, RecordEvent};
use belvedere_instance::xrpc::{Call, CallHeaders, Caller, Verb};
use belvedere_protocol::atproto::record::{self, InvalidRecord};
use belvedere_protocol::atproto::{Did, Nsid, RecordUri, Tid, typed};
use belvedere_protocol::trigger::{Trigger, TriggerKind};
use belvedere_storage::store::dead_letters;
use belvedere_storage::store::index::{Change, CheckedRecord, Validity};
use belvedere_storage::store::record_changes::{Action, RecordChange};
use belvedere_storage::store::records;
use belvedere_web::http::Error;

/// The `event` of the request.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum DryRunEvent {
    Record {
        #[schemars(extend("format" = "at-uri"))]
        uri: String,
        #[schemars(extend("enum" = ["create", "update", "delete", null]))]
        action: Option<String>,
        record: Option<Value>,
    },
    DeadLetter {
        id: String,
    },
    Label {
        #[schemars(with = "Did")]
        src: String,
        uri: String,
        val: String,
        neg: Option<bool>,
        #[schemars(with = "Option<Timestamp>")]
        cts: Option<String>,
        #[schemars(with = "Option<Timestamp>")]
        exp: Option<String>,
    },
    /// A change of the collection of a subscription.
    Change {
        #[schemars(extend("format" = "at-uri"))]
        uri: String,
        #[schemars(extend("enum" = ["create", "update", "delete", null]))]
        action: Option<String>,
        record: Option<Value>,
        params: Option<Map<String, Value>>,
    },
    Request {
        params: Option<Map<String, Value>>,
        input: Option<Value>,
        #[schemars(with = "Option<Did>")]
        caller_did: Option<String>,
        #[schemars(with = "Option<Did>")]
        delegate_did: Option<String>,
    },
    Job {
        input: Option<Value>,
        #[schemars(with = "Option<Did>")]
        caller_did: Option<String>,
        inherit_auth: Option<bool>,
    },
    /// For a setup script, which has no event.
    Setup,
}

/// A checked event that fits its trigger.
pub(super) enum DryEvent {
    Record(Box<RecordEvent>),
    Label(Label),
    Change { change: Box<RecordChange>, params: Vec<(String, String)>, values: Option<Map<String, Value>> },
    Request { call: Box<Call>, delegate: Option<Did> },
    Job { input: Bytes, caller_did: Option<Did>, inherit_auth: bool },
    Setup,
}

fn bad(message: impl Into<String>) -> Error {
    Error::bad_request(message.into())
}

fn parse_did(name: &str, text: Option<&str>) -> Result<Option<Did>, Error> {
    text.map(|text| Did::try_from(&*typed(text)).map_err(|_| bad(format!("{name} is not a DID")))).transpose()
}

fn parse_time(name: &str, text: &str) -> Result<Timestamp, Error> {
    Timestamp::parse(text).map_err(|_| bad(format!("{name} is not a time (RFC 3339)")))
}

impl DryRunEvent {
    /// Checks the event and reads what it names.
    ///
    /// # Errors
    /// 400 for an event that does not fit the trigger, 404 when what it names does not exist.
    pub(super) async fn resolve(self, app: &App, trigger: &Trigger) -> Result<DryEvent, Error> {
        let event = match self {
            Self::Record { uri, action, record } => {
                DryEvent::Record(Box::new(record_event(app, trigger, &uri, action.as_deref(), record).await?))
            }
            Self::DeadLetter { id } => dead_letter(app, &id).await?,
            Self::Label { src, uri, val, neg, cts, exp } => {
                let cts = cts.map_or_else(|| Ok(app.clock.now()), |cts| parse_time("cts", &cts))?;
                let exp = exp.map(|exp| parse_time("exp", &exp)).transpose()?;
                let label = Label { src, uri, cid: None, val, neg: neg.unwrap_or_default(), cts, exp };
                label.validate().map_err(|invalid| bad(invalid.to_string()))?;
                DryEvent::Label(label)
            }
            Self::Change { uri, action, record, params } => {
                let event = record_event(app, trigger, &uri, action.as_deref(), record).await?;
                let params = pairs(params);
                let values = app.registry.snapshot().params(trigger.subject(), &params);
                let values = values.map_err(|errors| bad(errors.to_string()))?;
                DryEvent::Change { change: Box::new(record_change(app, &event)), params, values }
            }
            Self::Request { params, input, caller_did, delegate_did } => {
                let caller =
                    Caller { did: parse_did("caller_did", caller_did.as_deref())?, ..Caller::default() };
                let delegate = parse_did("delegate_did", delegate_did.as_deref())?;
                DryEvent::Request { call: Box::new(call(trigger, params, input, caller)?), delegate }
            }
            Self::Job { input, caller_did, inherit_auth } => DryEvent::Job {
                input: input.unwrap_or_default().to_string().into(),
                caller_did: parse_did("caller_did", caller_did.as_deref())?,
                inherit_auth: inherit_auth.unwrap_or_default(),
            },
            Self::Setup => DryEvent::Setup,
        };
        event.check(app, trigger)?;
        Ok(event)
    }
}

impl DryEvent {
    fn check(&self, app: &App, trigger: &Trigger) -> Result<(), Error> {
        let subject = match (self, trigger.kind()) {
            (Self::Request { .. }, TriggerKind::Query | TriggerKind::View | TriggerKind::Procedure)
            | (Self::Job { .. }, TriggerKind::JobRun | TriggerKind::Schedule)
            | (Self::Setup, TriggerKind::Setup) => return Ok(()),
            (Self::Label(label), TriggerKind::LabelApply) => label.trigger_subject().to_owned(),
            (Self::Change { change, .. }, TriggerKind::Subscription) => {
                let lexicon = app.registry.get(trigger.subject());
                let target = lexicon.and_then(|lexicon| lexicon.target_collection.clone());
                if let Some(target) = target.filter(|target| target.as_str() != change.collection) {
                    return Err(bad(format!("uri must be that of a record of {target}")));
                }
                return Ok(());
            }
            (Self::Record(event), kind) if kind.context() == "record" => {
                let wanted = match kind {
                    TriggerKind::RecordCreate => Some(RecordAction::Create),
                    TriggerKind::RecordUpdate => Some(RecordAction::Update),
                    TriggerKind::RecordDelete => Some(RecordAction::Delete),
                    _ => None,
                };
                if wanted.is_some_and(|wanted| wanted != event.action) {
                    return Err(bad(format!("{trigger} does not run on the action {}", event.action)));
                }
                event.change.uri.collection.to_string()
            }
            (_, kind) => {
                return Err(bad(format!("this type of event does not fit a script of {}", kind.as_str())));
            }
        };
        if subject != trigger.subject() {
            return Err(bad(format!("the event is one of {subject}, and {trigger} does not run on it")));
        }
        Ok(())
    }

    /// Whether the run acts as if its caller had a session, besides procedures, which always do.
    pub(super) fn has_session(&self) -> bool {
        matches!(self, Self::Job { inherit_auth: true, .. })
    }

    /// The event as the script sees it.
    pub(super) fn to_json(&self) -> Value {
        match self {
            Self::Record(event) => {
                let uri = &event.change.uri;
                let record = event.change.text().map(|text| parsed(text)).unwrap_or_default();
                json!({ "type": "record", "action": event.action.as_str(), "uri": uri.to_string(),
                    "did": uri.did.as_str(), "collection": uri.collection.as_str(), "rkey": uri.rkey.as_str(),
                    "record": record })
            }
            Self::Label(label) => {
                let mut json = label.to_json();
                json["type"] = "label".into();
                json
            }
            Self::Change { change, params, values } => {
                let params = values.clone().map_or_else(|| json!(params), Value::Object);
                json!({ "type": "change", "event": parsed(change_json(change).as_bytes()), "params": params })
            }
            Self::Request { call, delegate } => json!({ "type": "request", "method": call.nsid.as_str(),
                "params": call.params, "input": call.input.as_deref().map(parsed),
                "caller_did": call.caller.did.as_ref().map(Did::as_str),
                "delegate_did": delegate.as_ref().map(Did::as_str) }),
            Self::Setup => json!({ "type": "setup" }),
            Self::Job { input, caller_did, inherit_auth } => json!({ "type": "job", "input": parsed(input),
                "caller_did": caller_did.as_ref().map(Did::as_str), "inherit_auth": inherit_auth }),
        }
    }
}

fn parsed(json: &[u8]) -> Value {
    serde_json::from_slice(json).unwrap_or_default()
}

async fn record_event(
    app: &App,
    trigger: &Trigger,
    uri: &str,
    action: Option<&str>,
    given: Option<Value>,
) -> Result<RecordEvent, Error> {
    let uri = RecordUri::parse(uri).map_err(|error| bad(error.to_string()))?;
    let action = match (action, trigger.kind()) {
        (Some(text), _) => {
            RecordAction::parse(text).ok_or_else(|| bad("action must be create, update or delete"))?
        }
        (None, TriggerKind::RecordUpdate) => RecordAction::Update,
        (None, TriggerKind::RecordDelete) => RecordAction::Delete,
        (None, _) => RecordAction::Create,
    };
    let now = u64::try_from(app.clock.now().0).unwrap_or_default();
    let rev = Tid::new(now, 0).map_err(Error::internal)?;
    if action == RecordAction::Delete {
        return Ok(RecordEvent { action, change: Change { uri, rev, record: None } });
    }
    let text: Bytes = if let Some(record) = given {
        record.to_string().into()
    } else {
        let row = records::get(&app.db, &uri).await?;
        row.ok_or_else(|| Error::not_found("the record is not in the index: send one in event.record"))?
            .record
    };
    let inspected = record::inspect(&text).map_err(|error: InvalidRecord| bad(error.to_string()))?;
    let (cid, refs, validity) = (inspected.cid.ok(), inspected.refs, Validity::Unchecked);
    let record = Some(CheckedRecord { text, cid, cid_verified: false, refs, validity });
    Ok(RecordEvent { action, change: Change { uri, rev, record } })
}

/// The change that an event makes.
fn record_change(app: &App, event: &RecordEvent) -> RecordChange {
    let RecordEvent { action, change: Change { uri, record, .. } } = event;
    RecordChange {
        seq: 1,
        did: uri.did.to_string(),
        collection: uri.collection.to_string(),
        rkey: uri.rkey.to_string(),
        action: match action {
            RecordAction::Create => Action::Created,
            RecordAction::Update => Action::Updated,
            RecordAction::Delete => Action::Deleted,
        },
        changed_at: app.clock.now(),
        cid: record.as_ref().and_then(|record| record.cid).map(|cid| cid.to_bytes().to_vec()),
        record: record.as_ref().map(|record| String::from_utf8_lossy(&record.text).into_owned()),
    }
}

async fn dead_letter(app: &App, id: &str) -> Result<DryEvent, Error> {
    let not_found = || Error::not_found("dead letter not found");
    let id = id.parse().map_err(|_| not_found())?;
    let letter = dead_letters::get(&app.db, id).await?.ok_or_else(not_found)?.letter;
    if let Some(label) = Some(&letter).filter(|letter| letter.host_kind == "label").and_then(Label::of_letter)
    {
        return Ok(DryEvent::Label(label));
    }
    let event = original_event(&letter).map_err(|error| bad(error.to_string()))?;
    Ok(DryEvent::Record(Box::new(event)))
}

/// Values of parameters that are not texts become their JSON; null is left out.
fn pairs(params: Option<Map<String, Value>>) -> Vec<(String, String)> {
    let mut pairs = Vec::new();
    for (name, value) in params.unwrap_or_default() {
        let values = match value {
            Value::Array(values) => values,
            single => vec![single],
        };
        pairs.extend(values.into_iter().filter_map(|value| {
            let text = match value {
                Value::Null => return None,
                Value::String(text) => text,
                other => other.to_string(),
            };
            Some((name.clone(), text))
        }));
    }
    pairs
}

/// The call of a method.
fn call(
    trigger: &Trigger,
    params: Option<Map<String, Value>>,
    input: Option<Value>,
    caller: Caller,
) -> Result<Call, Error> {
    let (verb, subject) = match trigger.kind() {
        TriggerKind::Procedure => (Verb::Procedure, trigger.subject()),
        _ => (Verb::Query, trigger.subject()),
    };
    let nsid =
        Nsid::try_from(subject).map_err(|_| bad("a script of a method needs a trigger with an NSID"))?;
    let params = pairs(params);
    let input = input.filter(|_| verb == Verb::Procedure).map(|input| input.to_string().into());
    Ok(Call { verb, nsid, params, input, caller, headers: CallHeaders::default() })
}
