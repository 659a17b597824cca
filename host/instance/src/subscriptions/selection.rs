//! The changes that a connection wants: connections with the same selection get the same messages.

use std::collections::BTreeSet;

use belvedere_protocol::atproto::{Did, Nsid, RecordUri};
use belvedere_storage::store::index::Validity;
use belvedere_storage::store::record_changes::RecordChange;

use crate::lexicons::Snapshot;

/// A subscription, and the parameters of a connection to it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Selection {
    pub nsid: Nsid,
    /// The collection whose changes it shows.
    pub collection: Nsid,
    /// The accounts whose records are shown; `None`: all.
    pub dids: Option<BTreeSet<Did>>,
    /// The only record that is shown.
    pub record: Option<RecordUri>,
    /// Whether only records are shown that match the lexicon of their collection, or only others. Deletions are shown in
    /// any case.
    pub valid: Option<bool>,
    /// Names and values in order, without the cursor, for the subscription's script.
    pub params: Vec<(String, String)>,
}

impl Selection {
    /// The accounts whose changes may be shown; `None`: all.
    pub(super) fn accounts(&self) -> Option<Vec<&Did>> {
        match (&self.record, &self.dids) {
            (Some(record), _) => Some(vec![&record.did]),
            (None, Some(dids)) => Some(dids.iter().collect()),
            (None, None) => None,
        }
    }

    /// Whether a change of the collection is shown. `is_valid` checks its record.
    pub(super) fn shows(&self, change: &RecordChange, is_valid: impl FnOnce() -> bool) -> bool {
        let of_account = self.dids.as_ref().is_none_or(|dids| dids.contains(change.did.as_str()));
        let is_record = self
            .record
            .as_ref()
            .is_none_or(|uri| uri.did.as_str() == change.did && uri.rkey.as_str() == change.rkey);
        let has_validity = || self.valid.is_none_or(|wanted| change.record.is_none() || is_valid() == wanted);
        of_account && is_record && has_validity()
    }
}

/// Whether the record of a change matches its lexicon. One without a lexicon does.
pub(super) fn is_valid(lexicons: &Snapshot, change: &RecordChange) -> bool {
    let Some(record) = &change.record else { return true };
    !matches!(lexicons.validate(&change.collection, &change.rkey, record.as_bytes()), Validity::Invalid(_))
}

#[cfg(test)]
mod tests {
    use super::*;
    use belvedere_base::clock::Timestamp;
    use belvedere_storage::store::record_changes::Action;

    #[test]
    fn each_parameter_must_match() {
        let change = |did: &str, rkey: &str, record: Option<&str>| RecordChange {
            seq: 1,
            did: did.to_owned(),
            collection: "com.example.note".to_owned(),
            rkey: rkey.to_owned(),
            action: if record.is_some() { Action::Created } else { Action::Deleted },
            changed_at: Timestamp(0),
            cid: None,
            record: record.map(str::to_owned),
        };
        let nsid = |text: &str| Nsid::try_from(text).unwrap();
        let all = Selection {
            nsid: nsid("com.example.watch"),
            collection: nsid("com.example.note"),
            dids: None,
            record: None,
            valid: None,
            params: Vec::new(),
        };
        let (alice, bob) = ("did:plc:alice", "did:plc:bob");
        let shows = |selection: &Selection, change: &RecordChange, is_valid: bool| {
            selection.shows(change, || is_valid)
        };
        assert!(shows(&all, &change(bob, "a", Some("{}")), false));
        let dids = Some(BTreeSet::from([Did::try_from(alice).unwrap()]));
        let of_alice = Selection { dids, ..all.clone() };
        assert!(shows(&of_alice, &change(alice, "a", None), true));
        assert!(!shows(&of_alice, &change(bob, "a", None), true));
        let record = RecordUri::parse(&format!("at://{bob}/com.example.note/a")).ok();
        let one = Selection { record, ..all.clone() };
        assert!(shows(&one, &change(bob, "a", None), true));
        assert!(!shows(&one, &change(bob, "b", None), true) && !shows(&one, &change(alice, "a", None), true));
        assert_eq!(one.accounts().unwrap()[0].as_str(), bob);
        let neither = Selection { dids: of_alice.dids.clone(), ..one };
        assert!(!shows(&neither, &change(bob, "a", None), true));
        let invalid = Selection { valid: Some(false), ..all };
        assert!(shows(&invalid, &change(bob, "a", Some("{}")), false));
        assert!(!shows(&invalid, &change(bob, "a", Some("{}")), true));
        assert!(shows(&invalid, &change(bob, "a", None), true), "a deletion");
    }
}
