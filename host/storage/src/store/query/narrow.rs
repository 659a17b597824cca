//! Conditions on the columns of records and on their labels, which the lists of the admin API may add to those of a query.

use serde_json::json;

use super::QueryArgs;
use super::compile::condition;
use super::sql::{Dialect, Sql, Value};
use crate::query::Filter;
use crate::query::filter::FilterError;
use crate::store::labels::VERSION_MARK;
use belvedere_base::clock::Timestamp;

/// The labels that a lexicon lets an author put into a record, at most.
const MAX_OWN_LABELS: usize = 10;

/// Which records a list contains. By default all.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Narrow {
    pub rkey: Option<String>,
    /// Indexed at this time or later.
    pub from: Option<Timestamp>,
    /// Indexed before this time.
    pub before: Option<Timestamp>,
    pub label: Option<HasLabel>,
}

/// A label that records must have, of a labeler or of their author. Labels of labelers that are being deleted and those of
/// another version of the record are taken as well: [`crate::store::labels::active`] says which apply.
#[derive(Clone, Debug, PartialEq)]
pub struct HasLabel {
    pub val: String,
    /// The time at which it has to be in effect.
    now: Timestamp,
    own: Filter,
}

impl HasLabel {
    /// # Errors
    /// When the value can't be that of a label.
    pub fn new(val: String, now: Timestamp) -> Result<Self, FilterError> {
        let own =
            (0..MAX_OWN_LABELS).map(|n| json!({ "field": format!("labels.values[{n}].val"), "value": val }));
        let own = Filter::from_json(&json!({ "combine": "OR", "children": own.collect::<Vec<_>>() }))?;
        Ok(Self { val, now, own })
    }
}

impl Narrow {
    /// The list of all records.
    pub const ALL: &'static Self = &Self { rkey: None, from: None, before: None, label: None };

    /// Whether reading in order of time passes over few records that are not in the list.
    pub(super) fn is_cheap(&self, args: &QueryArgs<'_>) -> bool {
        self.label.is_none() && (self.rkey.is_none() || args.did.is_some())
    }

    pub(super) fn push<D: Dialect>(&self, sql: &mut Sql, args: &QueryArgs<'_>) {
        if let Some(rkey) = &self.rkey {
            let rkey = sql.bind(Value::Text(rkey.clone()));
            sql.push(&format!(" AND r.rkey = {rkey}"));
        }
        for (time, than) in [(self.from, ">="), (self.before, "<")] {
            if let Some(time) = time {
                let time = sql.bind(Value::Integer(time.0));
                sql.push(&format!(" AND r.indexed_at {than} {time}"));
            }
        }
        if let Some(HasLabel { val, now, own }) = &self.label {
            let collection = sql.bind(Value::Text(args.collection.as_str().to_owned()));
            let of_version = sql.bind(Value::Text(format!("{val}{VERSION_MARK}")));
            let val = sql.bind(Value::Text(val.clone()));
            let now = sql.bind(Value::Integer(now.0));
            let own = condition::<D>(sql, own);
            sql.push(&format!(
                " AND ({own} OR EXISTS (SELECT 1 FROM labels l \
                 WHERE l.uri = 'at://' || {} || '/' || {collection} || '/' || r.rkey \
                     AND (l.val = {val} OR l.val = {of_version} || l.cid) AND NOT l.neg AND (l.exp IS NULL OR l.exp > {now})))",
                D::DID
            ));
        }
    }
}
