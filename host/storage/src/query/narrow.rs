//! Conditions on the columns of records and on their labels, which the lists of the admin API and views add to those of a query.

use serde_json::json;

use super::Filter;
use super::filter::FilterError;
use belvedere_base::clock::Timestamp;
use belvedere_protocol::atproto::Did;

/// The labels that a lexicon lets an author put into a record, at most.
const MAX_OWN_LABELS: usize = 10;

/// The records that a list contains: by default all.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Narrow {
    pub rkey: Option<String>,
    /// Indexed at this time or later.
    pub from: Option<Timestamp>,
    /// Indexed before this time.
    pub before: Option<Timestamp>,
    pub label: Option<HasLabel>,
    pub hidden: Hidden,
}

/// The records that a read leaves out before it counts the rows of its page, so that pages are full.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Hidden {
    /// Records with one of these labels, and those of accounts with one.
    pub labels: Vec<HasLabel>,
    /// Records of these accounts.
    pub accounts: Vec<Did>,
}

impl Hidden {
    /// Nothing is left out.
    pub const NONE: Self = Self { labels: Vec::new(), accounts: Vec::new() };
}

/// A label that records must have, of a labeler or of their author. Those of labelers are in force as for answers
/// (`store::labels::in_force`).
#[derive(Clone, Debug, PartialEq)]
pub struct HasLabel {
    pub val: String,
    /// The time at which it has to be in effect.
    pub(crate) now: Timestamp,
    /// The condition that its author has put it into the record.
    pub(crate) own: Filter,
}

impl HasLabel {
    /// # Errors
    /// When the value can't be that of a label.
    pub fn new(val: String, now: Timestamp) -> Result<Self, FilterError> {
        let own =
            (0..MAX_OWN_LABELS).map(|n| json!({ "field": format!("labels.values[{n}].val"), "value": val }));
        let any = json!({ "combine": "OR", "children": own.collect::<Vec<_>>() });
        // Most records have none, and are not looked at ten times.
        let has_own = json!({ "field": "labels", "op": "EXISTS" });
        let own = Filter::from_json(&json!({ "combine": "AND", "children": [has_own, any] }))?;
        Ok(Self { val, now, own })
    }
}

impl Narrow {
    /// The list of all records.
    pub const ALL: &'static Self =
        &Self { rkey: None, from: None, before: None, label: None, hidden: Hidden::NONE };

    /// Whether it only leaves hidden records out, which are few.
    pub(crate) fn only_hides(&self) -> bool {
        self.rkey.is_none() && self.from.is_none() && self.before.is_none() && self.label.is_none()
    }
}
