//! Parses one Jetstream frame into an event. The record stays a raw slice of the frame: it is stored unchanged, so it
//! is not parsed into a tree here.
//!
//! Both protocols of Jetstream are read: `/subscribe`, and `network.bsky.jetstream.subscribeEvents`, which also has
//! `#sync` events.
//!
//! Tolerant by design: unknown fields are skipped, an unknown kind or operation is [`EventKind::Other`]. A frame that
//! isn't JSON, or lacks a field that every event has, is an error that the caller counts. A server's message about the
//! stream itself is no event and no error.

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::Error as _;
use serde_json::value::RawValue;

use super::scripts::RecordAction;
use belvedere_base::clock::Timestamp;

/// The content of a frame.
#[derive(Debug)]
pub enum Frame<'a> {
    Event(Event<'a>),
    Remark(Remark),
}

/// A server's message about the stream itself (`#info`, an `error` before it closes the connection), or a message of a
/// type that we don't know. It has no time, and no event is missing.
#[derive(Debug, PartialEq, Eq)]
pub struct Remark {
    pub is_error: bool,
    /// `OutdatedCursor` or `ConsumerTooSlow`, for example; otherwise its type.
    pub name: String,
    pub message: String,
}

/// An event, borrowing from the frame's bytes.
#[derive(Debug)]
pub struct Event<'a> {
    pub did: Cow<'a, str>,
    /// The server's time when it emitted the event, in microseconds. The cursor is such a time.
    pub time_us: i64,
    pub kind: EventKind<'a>,
}

#[derive(Debug)]
pub enum EventKind<'a> {
    Commit(Commit<'a>),
    /// A handle or DID document changed.
    Identity,
    Account(Account<'a>),
    /// The repo's records may have changed without commits in the stream (`#sync` of the firehose).
    Sync,
    /// An unknown kind or operation. Its time still moves the cursor.
    Other,
}

#[derive(Debug)]
pub struct Commit<'a> {
    pub action: RecordAction,
    pub rev: Cow<'a, str>,
    pub collection: Cow<'a, str>,
    pub rkey: Cow<'a, str>,
    /// JSON text of the record. `None` when the field is missing or null.
    pub record: Option<&'a str>,
    /// JSON text of the claimed CID, with its quotes. Only the CID check parses it.
    pub cid: Option<&'a str>,
}

#[derive(Debug)]
pub struct Account<'a> {
    pub active: bool,
    /// The reason why an account is inactive: `deactivated`, `takendown`, `suspended`, `deleted` or a status that we
    /// don't know.
    pub status: Option<Cow<'a, str>>,
    /// The time at which the account's server made the event, as RFC 3339.
    pub time: Option<Cow<'a, str>>,
}

/// The reason why a frame is not an event.
#[derive(Debug, thiserror::Error)]
#[error("not a Jetstream event: {0}")]
pub struct MalformedFrame(#[from] serde_json::Error);

#[derive(Deserialize)]
struct Wire<'a> {
    #[serde(borrow)]
    did: Cow<'a, str>,
    time_us: i64,
    #[serde(borrow, default)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    commit: Option<WireCommit<'a>>,
    #[serde(borrow)]
    account: Option<WireAccount<'a>>,
}

/// A message of `subscribeEvents`.
#[derive(Deserialize)]
struct WireMessage<'a> {
    #[serde(borrow)]
    payload: WirePayload<'a>,
}

#[derive(Deserialize)]
struct WirePayload<'a> {
    /// `network.bsky.jetstream.subscribeEvents#commit`, for example.
    #[serde(borrow, rename = "$type")]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    did: Cow<'a, str>,
    /// RFC 3339 with microseconds.
    #[serde(borrow)]
    time: Cow<'a, str>,
    // The fields of a commit, which are not nested.
    #[serde(borrow, default)]
    rev: Cow<'a, str>,
    #[serde(borrow, default)]
    operation: Cow<'a, str>,
    #[serde(borrow, default)]
    collection: Cow<'a, str>,
    #[serde(borrow, default)]
    rkey: Cow<'a, str>,
    #[serde(borrow)]
    record: Option<&'a RawValue>,
    #[serde(borrow)]
    cid: Option<&'a RawValue>,
    #[serde(borrow)]
    account: Option<WireAccount<'a>>,
}

/// A message of `subscribeEvents` that is not an event.
#[derive(Deserialize)]
struct WireRemark {
    #[serde(rename = "$type")]
    kind: String,
    payload: Option<WireInfo>,
    error: Option<String>,
    message: Option<String>,
}

#[derive(Deserialize)]
struct WireInfo {
    #[serde(rename = "$type")]
    kind: String,
    name: Option<String>,
    message: Option<String>,
}

#[derive(Deserialize)]
struct WireCommit<'a> {
    #[serde(borrow, default)]
    rev: Cow<'a, str>,
    #[serde(borrow, default)]
    operation: Cow<'a, str>,
    #[serde(borrow, default)]
    collection: Cow<'a, str>,
    #[serde(borrow, default)]
    rkey: Cow<'a, str>,
    #[serde(borrow)]
    record: Option<&'a RawValue>,
    // Raw, because serde borrows strings only outside of an Option.
    #[serde(borrow)]
    cid: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct WireAccount<'a> {
    // Absent means false: an account that is not known to be active is hidden.
    #[serde(default)]
    active: bool,
    #[serde(borrow)]
    status: Option<Cow<'a, str>>,
    #[serde(borrow)]
    time: Option<Cow<'a, str>>,
}

/// Parses one frame. Never panics, whatever the bytes are.
///
/// # Errors
/// When the bytes aren't a JSON object with a DID and a time, or a known part has the wrong shape.
pub fn parse(bytes: &[u8]) -> Result<Frame<'_>, MalformedFrame> {
    // Servers of `subscribeEvents` write this field first; an event of `/subscribe` has none.
    if bytes.starts_with(b"{\"$type\"") {
        let event = serde_json::from_slice::<WireMessage<'_>>(bytes).map_err(MalformedFrame::from);
        let event = event.and_then(|message| message.payload.into_event());
        return event.map(Frame::Event).or_else(|error| remark(bytes).map(Frame::Remark).ok_or(error));
    }
    let wire: Wire<'_> = serde_json::from_slice(bytes)?;
    let kind = match (&*wire.kind, wire.commit, wire.account) {
        ("commit", Some(commit), _) => commit.into_kind(),
        ("identity", ..) => EventKind::Identity,
        ("account", _, Some(WireAccount { active, status, time })) => {
            EventKind::Account(Account { active, status, time })
        }
        ("sync", ..) => EventKind::Sync,
        _ => EventKind::Other,
    };
    Ok(Frame::Event(Event { did: wire.did, time_us: wire.time_us, kind }))
}

/// Kinds of messages that are events, after the `#` of their type.
const EVENTS: [&str; 4] = ["commit", "identity", "account", "sync"];

/// A message that is not an event; `None` for an event that can't be read.
fn remark(bytes: &[u8]) -> Option<Remark> {
    let WireRemark { kind, payload, error, message } = serde_json::from_slice(bytes).ok()?;
    if kind != "message" {
        let is_error = kind == "error";
        return Some(Remark { is_error, name: error.unwrap_or(kind), message: message.unwrap_or_default() });
    }
    let WireInfo { kind, name, message } = payload?;
    let is_event = kind.rsplit_once('#').is_some_and(|(_, kind)| EVENTS.contains(&kind));
    let said =
        || Remark { is_error: false, name: name.unwrap_or(kind), message: message.unwrap_or_default() };
    (!is_event).then(said)
}

#[cfg(test)]
impl<'a> Frame<'a> {
    pub fn into_event(self) -> Option<Event<'a>> {
        if let Self::Event(event) = self { Some(event) } else { None }
    }
}

impl<'a> WirePayload<'a> {
    fn into_event(self) -> Result<Event<'a>, MalformedFrame> {
        let time = Timestamp::parse(&self.time).map_err(serde_json::Error::custom)?;
        let kind = match (self.kind.rsplit_once('#').map(|(_, kind)| kind), self.account) {
            (Some("commit"), _) => {
                let Self { rev, operation, collection, rkey, record, cid, .. } = self;
                WireCommit { rev, operation, collection, rkey, record, cid }.into_kind()
            }
            (Some("identity"), _) => EventKind::Identity,
            (Some("sync"), _) => EventKind::Sync,
            (Some("account"), Some(WireAccount { active, status, time })) => {
                EventKind::Account(Account { active, status, time })
            }
            _ => EventKind::Other,
        };
        Ok(Event { did: self.did, time_us: time.0, kind })
    }
}

impl<'a> WireCommit<'a> {
    fn into_kind(self) -> EventKind<'a> {
        let Some(action) = RecordAction::parse(&self.operation) else { return EventKind::Other };
        EventKind::Commit(Commit {
            action,
            rev: self.rev,
            collection: self.collection,
            rkey: self.rkey,
            record: self.record.map(RawValue::get),
            cid: self.cid.map(RawValue::get),
        })
    }
}
