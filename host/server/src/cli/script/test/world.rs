//! The world of one case, on which the functions of test files act: its application, its clock, and the stand-in of the network.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::network::Network;
use super::plugins::TestPlugins;
use super::seen::Seen;
use crate::app::App;
use crate::event_scripts::Label;
use belvedere_base::clock::{Clock, Timestamp};
use belvedere_protocol::atproto::{Did, record};
use belvedere_storage::store::index::{CheckedRecord, Validity};
use belvedere_storage::store::{labelers, labels};

/// The labeler of labels without a `src`.
const LABELER: &str = "did:plc:labeler";

#[derive(Clone, Debug)]
pub(super) struct World {
    pub(super) app: Arc<App>,
    pub(super) clock: Clock,
    pub(super) network: Arc<Network>,
    pub(super) plugins: Arc<TestPlugins>,
    pub(super) seen: Arc<Seen>,
}

/// The reason why a function of a test file was refused. The case fails with it, at the line of the call.
#[derive(Debug)]
pub(super) struct Refused(pub(super) String);

impl Refused {
    pub(super) fn of(error: impl fmt::Display) -> Self {
        Self(error.to_string())
    }
}

/// The input of a function.
pub(super) fn parse<T: DeserializeOwned>(function: &str, input: &[u8]) -> Result<T, Refused> {
    serde_json::from_slice(input).map_err(|error| {
        let text = error.to_string();
        // The place in the JSON says nothing to the author of a table.
        let text = text.split(" at line ").next().unwrap_or(&text);
        Refused(format!("{function}: {text}"))
    })
}

/// An object without the fields that are null, so that they are nil in Lua.
pub(super) fn without_nulls(mut object: Value) -> Value {
    if let Value::Object(fields) = &mut object {
        fields.retain(|_, value| !value.is_null());
    }
    object
}

/// A record of a test, with its CID.
pub(super) fn checked(text: Bytes) -> Result<CheckedRecord, String> {
    let inspected = record::inspect(&text).map_err(|error| error.to_string())?;
    let cid = inspected.cid.map_err(|error| error.to_string())?;
    let text = inspected.canonical.unwrap_or(text);
    let (refs, validity) = (inspected.refs, Validity::Unchecked);
    Ok(CheckedRecord { text, cid: Some(cid), cid_verified: true, refs, validity })
}

pub(super) fn parse_did(what: &str, text: &str) -> Result<Did, Refused> {
    Did::try_from(text).map_err(|_| Refused(format!("{what}: {text:?} is not a DID such as did:plc:alice")))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LabelFields {
    uri: String,
    val: String,
    src: Option<String>,
    cid: Option<String>,
    neg: Option<bool>,
    cts: Option<Timestamp>,
    exp: Option<Timestamp>,
}

impl World {
    /// The label of a function's input.
    pub(super) fn label(&self, function: &str, input: &[u8]) -> Result<Label, Refused> {
        let LabelFields { uri, val, src, cid, neg, cts, exp } = parse(function, input)?;
        let label = Label {
            src: src.unwrap_or_else(|| LABELER.to_owned()),
            uri,
            cid,
            val,
            neg: neg.unwrap_or_default(),
            cts: cts.unwrap_or_else(|| self.clock.now()),
            exp,
        };
        label.validate().map_err(|error| Refused(format!("{function}: {error}")))?;
        Ok(label)
    }
}

/// Stores a label as one that its labeler has sent.
pub(super) async fn store_label(world: &World, label: Label) -> Result<(), Refused> {
    let did = parse_did("src", &label.src)?;
    let (db, now) = (&world.app.db, world.clock.now());
    labelers::create(db, &did, now).await.map_err(Refused::of)?;
    let Label { src, uri, cid, val, neg, cts, exp } = label;
    let row = labels::Label { uri, src, val, cid, neg, cts, exp };
    let stored = labelers::store(db, &did, None, None, &[row], now).await.map_err(Refused::of)?;
    if stored { Ok(()) } else { Err(Refused(format!("the label of {did} can't be stored"))) }
}
