//! Makes the messages of a subscription of changes.

use std::fmt::Write as _;

use belvedere_protocol::atproto::event_stream::{self, Message, Subprotocol};
use belvedere_protocol::atproto::{Cid, Nsid};
use belvedere_storage::store::record_changes::{Action, RecordChange};
use belvedere_web::http::websocket::Frame;

use super::scripts::Checked;
use crate::lexicons::Snapshot;

/// The frame of a change. `None` when the subscription's lexicon has no such message or does not allow its content, and for a
/// record that is hidden now.
pub(super) fn change(
    lexicons: &Snapshot,
    nsid: &Nsid,
    change: &RecordChange,
    subprotocol: Subprotocol,
) -> Option<Frame> {
    let name = change.action.as_str();
    let definition = format!("{nsid}#{name}");
    if !lexicons.documents.has_message(nsid.as_str(), &definition) {
        return None;
    }
    // DIDs, NSIDs and record keys have no character that JSON escapes.
    let RecordChange { seq, did, collection, rkey, .. } = change;
    let mut fields = format!(r#""seq":{seq},"uri":"at://{did}/{collection}/{rkey}""#);
    if change.action != Action::Deleted {
        let record = change.record.as_ref()?;
        if let Some(cid) = change.cid.as_deref().and_then(|bytes| Cid::from_bytes(bytes).ok()) {
            let is_link = lexicons.documents.is_link(&definition, "cid");
            // Writing to a String never fails.
            let _ = if is_link {
                write!(fields, r#","cid":{{"$link":"{cid}"}}"#)
            } else {
                write!(fields, r#","cid":"{cid}""#)
            };
        }
        let _ = write!(fields, r#","record":{record}"#);
    }
    message(lexicons, nsid, (name, &fields), subprotocol)
}

/// The frame that says that messages before the window are lost. `None` if the lexicon does not declare it.
pub(super) fn outdated_cursor(lexicons: &Snapshot, nsid: &Nsid, subprotocol: Subprotocol) -> Option<Frame> {
    if !lexicons.documents.has_message(nsid.as_str(), &format!("{nsid}#info")) {
        return None;
    }
    let fields =
        r#""name":"OutdatedCursor","message":"the cursor is older than the oldest message that is kept""#;
    message(lexicons, nsid, ("info", fields), subprotocol)
}

/// The frames of the messages that a script has made of a change.
pub(super) fn made_by_script(
    lexicons: &Snapshot,
    nsid: &Nsid,
    messages: &[Checked],
    subprotocol: Subprotocol,
) -> Vec<Frame> {
    let messages = messages.iter().map(|Checked { name, fields }| (name.as_str(), fields.as_str()));
    messages.filter_map(|one| message(lexicons, nsid, one, subprotocol)).collect()
}

fn message(
    lexicons: &Snapshot,
    nsid: &Nsid,
    (name, fields): (&str, &str),
    subprotocol: Subprotocol,
) -> Option<Frame> {
    let message = Message { nsid: nsid.as_str(), name, fields };
    match subprotocol.message(&lexicons.documents, message) {
        Ok(encoded) => Some(frame(encoded)),
        Err(error) => {
            metrics::counter!("belvedere_subscription_messages_invalid_total").increment(1);
            tracing::debug!(%nsid, name, %error, "a message is left out: the lexicon does not allow it");
            None
        }
    }
}

/// The frame of an error, after which the connection is closed.
pub(super) fn error(subprotocol: Subprotocol, name: &str, message: &str) -> Frame {
    frame(subprotocol.error(name, message))
}

fn frame(encoded: event_stream::Frame) -> Frame {
    match encoded {
        event_stream::Frame::Text(text) => Frame::text(text),
        event_stream::Frame::Binary(bytes) => Frame::binary(bytes),
    }
}
