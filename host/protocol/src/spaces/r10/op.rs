//! Changes of a repo as `com.atproto.space.listRepoOps` returns them (spaces-delta.md §3).

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::atproto::{Cid, Tid};
use crate::spaces::RecordPath;
use crate::spaces::oplog::{Change, Op, Position};

/// A change in a response. Peers send the changes of one commit one after the other.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OpView {
    rev: String,
    collection: String,
    rkey: String,
    /// `null` for a deletion.
    cid: Option<String>,
    /// `null` for a creation.
    prev: Option<String>,
    /// The record, if it is still the one with this CID.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Box<RawValue>>,
}

impl OpView {
    pub fn new(op: &Op, value: Option<Box<RawValue>>) -> Self {
        let text = |cid: Option<Cid>| cid.map(|cid| cid.to_string());
        Self {
            rev: op.position.rev.to_string(),
            collection: op.path.collection.to_string(),
            rkey: op.path.rkey.to_string(),
            cid: text(op.change.cid()),
            prev: text(op.change.prev()),
            value,
        }
    }

    /// The change that a peer sent as the change with number `index` of its commit. `None` when a field is malformed, or the
    /// record existed neither before nor after.
    pub fn to_op(&self, index: u32) -> Option<Op> {
        let cid = |text: &Option<String>| text.as_ref().map(|text| text.parse()).transpose().ok();
        Some(Op {
            position: Position { rev: Tid::try_from(self.rev.as_str()).ok()?, index },
            path: RecordPath::parse(&format!("{}/{}", self.collection, self.rkey)).ok()?,
            change: Change::of(cid(&self.prev)?, cid(&self.cid)?)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const CID: &str = "bafyreidyb5endvknt7zzamrb3yut6e4u5bxaklpnbgxgdxfydigcuvgccu";

    #[test]
    fn a_change_round_trips() {
        for (cid, prev) in [(json!(CID), json!(null)), (json!(CID), json!(CID)), (json!(null), json!(CID))] {
            let json = json!({ "rev": "3lzzzzzzzzz22", "collection": "com.example.note", "rkey": "a", "cid": cid, "prev": prev });
            let view: OpView = serde_json::from_value(json.clone()).unwrap();
            let op = view.to_op(3).unwrap();
            assert_eq!(op.position.to_string(), "3lzzzzzzzzz22:3");
            assert_eq!(serde_json::to_value(OpView::new(&op, None)).unwrap(), json);
        }
        let op: OpView = serde_json::from_str(&format!(
            r#"{{"rev":"3lzzzzzzzzz22","collection":"a.b.c","rkey":"a","cid":"{CID}","prev":null,"value":{{"a": 1.0}}}}"#
        ))
        .unwrap();
        assert_eq!(op.value.unwrap().get(), r#"{"a": 1.0}"#);
    }

    #[test]
    fn malformed_changes_are_refused() {
        let good =
            json!({ "rev": "3lzzzzzzzzz22", "collection": "a.b.c", "rkey": "a", "cid": CID, "prev": null });
        for (field, value) in [
            ("rev", json!("now")),
            ("collection", json!("note")),
            ("rkey", json!("a/b")),
            ("cid", json!(null)),
            ("cid", json!("bafy")),
            ("prev", json!("")),
        ] {
            let mut wrong = good.clone();
            wrong[field] = value;
            assert!(serde_json::from_value::<OpView>(wrong).unwrap().to_op(0).is_none(), "{field}");
        }
    }
}
