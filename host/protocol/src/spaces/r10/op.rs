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

/// Error for the change with this number in a page.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[error("change {0} of the page is malformed, or older than the one before it")]
pub struct InvalidOp(pub usize);

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

    /// Numbers the changes of a page that a peer sent. `after`: the position of the last change before the page.
    ///
    /// # Errors
    /// When a change is malformed, or older than the one before it.
    pub fn read_page(page: &[Self], after: Option<Position>) -> Result<Vec<Op>, InvalidOp> {
        let mut last = after;
        let ops = page.iter().enumerate().map(|(n, view)| {
            let op = view.to_op(last).ok_or(InvalidOp(n))?;
            last = Some(op.position);
            Ok(op)
        });
        ops.collect()
    }

    /// The change after the one at `last`.
    fn to_op(&self, last: Option<Position>) -> Option<Op> {
        let rev = Tid::try_from(self.rev.as_str()).ok()?;
        let index = match last {
            Some(last) if last.rev > rev => return None,
            Some(last) if last.rev == rev => last.index.checked_add(1)?,
            _ => 0,
        };
        let cid = |text: &Option<String>| text.as_ref().map(|text| text.parse()).transpose().ok();
        Some(Op {
            position: Position { rev, index },
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
            let after = "3lzzzzzzzzz22:2".parse().unwrap();
            let op = OpView::read_page(&[view], Some(after)).unwrap().remove(0);
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
            let page = [&good, &wrong].map(|op| serde_json::from_value(op.clone()).unwrap());
            assert_eq!(OpView::read_page(&page, None).unwrap_err(), InvalidOp(1), "{field}");
        }
    }

    #[test]
    fn the_changes_of_a_commit_are_numbered_across_pages() {
        let view = |rev: &str| {
            let json = json!({ "rev": rev, "collection": "a.b.c", "rkey": "a", "cid": CID, "prev": null });
            serde_json::from_value::<OpView>(json).unwrap()
        };
        let (early, late) = (view("3lzzzzzzzzz22"), view("3lzzzzzzzzz23"));
        let page = [early.clone(), early.clone(), late.clone(), late.clone()];
        let positions = |after: Option<&str>| {
            let ops = OpView::read_page(&page, after.map(|after| after.parse().unwrap()))?;
            Ok(ops.into_iter().map(|op| op.position.index).collect::<Vec<_>>())
        };
        assert_eq!(positions(None), Ok(vec![0, 1, 0, 1]));
        assert_eq!(positions(Some("3lzzzzzzzzz22:6")), Ok(vec![7, 8, 0, 1]));
        assert_eq!(positions(Some("3lzzzzzzzzz22:4294967295")), Err(InvalidOp(0)));
        assert_eq!(positions(Some("3lzzzzzzzzz23:0")), Err(InvalidOp(0)));
        assert_eq!(OpView::read_page(&[late, early], None).unwrap_err(), InvalidOp(1));
    }
}
