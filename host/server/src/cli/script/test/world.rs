//! The world of one case, on which the functions of test files act: its application, its clock, and the stand-in of the network.

use std::fmt;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::network::Network;
use super::seen::Seen;
use crate::app::App;
use crate::event_scripts::Label;
use belvedere_base::clock::{Clock, Timestamp};
use belvedere_protocol::atproto::Did;
use belvedere_storage::store::{labelers, labels};

/// The labeler of labels without a `src`.
const LABELER: &str = "did:plc:labeler";

#[derive(Clone, Debug)]
pub(super) struct World {
    pub(super) app: Arc<App>,
    pub(super) clock: Clock,
    pub(super) network: Arc<Network>,
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
