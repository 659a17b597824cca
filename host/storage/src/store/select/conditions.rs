//! The conditions that the caller of a list or query has.

use crate::query::filter::{Combine, Filter, Test};
use crate::query::{HasLabel, Hidden, Narrow};
use crate::store::labels::{self, VERSION_MARK};
use crate::store::types::to_json_text;
use belvedere_protocol::atproto::{Did, Nsid};

use super::{Among, Dialect, Select, Sql, Value};

/// The condition that an account is not hidden, by its id. It looks into the index of hidden accounts, which is small, and not into
/// the table of all. PostgreSQL expects it of nearly all rows, and `IS NULL` of one in two hundred, for which it would read a
/// collection and sort it.
pub(in crate::store) fn is_visible(account: &str) -> String {
    format!("(SELECT 1 FROM dids d WHERE d.id = {account} AND d.status <> 0) IS DISTINCT FROM 1")
}

impl Select<'_> {
    /// Adds the conditions of the caller.
    pub(in crate::store) fn write_conditions<D: Dialect>(&self, sql: &mut Sql) {
        if let Some(did) = self.did {
            let did = sql.bind(Value::Text(did.as_str().to_owned()));
            sql.push(format_args!(" AND r.did_id = (SELECT id FROM dids WHERE did = {did})"));
        }
        if let Some(among) = self.among {
            let (accounts, (before, after)) = match among {
                Among::Dids(dids) => (json_list(dids), D::DID_IS_IN_JSON),
                Among::Ids(ids) => (Value::Text(to_json_text(ids)), D::DID_ID_IS_IN_JSON),
            };
            let accounts = sql.bind(accounts);
            sql.push(format_args!(" AND {before}{accounts}{after}"));
        }
        if let Some(filter) = self.filter {
            let condition = condition::<D>(sql, filter);
            sql.push(format_args!(" AND {condition}"));
        }
        self.write_narrow::<D>(sql);
        let tables = self.collection.partition.tables();
        match self.valid {
            Some(true) => sql.push(format_args!("{}", tables.and_valid())),
            Some(false) => {
                let collection = sql.bind(Value::Integer(self.collection.id));
                let (before, after) = D::ID_IS_AMONG;
                sql.push(format_args!(
                    " AND r.id {before}SELECT record_id FROM {} WHERE collection_id = {collection}{after}",
                    tables.invalid_records
                ));
            }
            None => {}
        }
    }

    fn write_narrow<D: Dialect>(&self, sql: &mut Sql) {
        let Narrow { rkey, from, before, label, hidden } = self.narrow;
        if let Some(rkey) = rkey {
            let rkey = sql.bind(Value::Text(rkey.clone()));
            sql.push(format_args!(" AND r.rkey = {rkey}"));
        }
        for (time, than) in [(from, ">="), (before, "<")] {
            if let Some(time) = time {
                let time = sql.bind(Value::Integer(time.0));
                sql.push(format_args!(" AND r.indexed_at {than} {time}"));
            }
        }
        if let Some(label) = label {
            let condition = has_label::<D>(sql, self.nsid, label, D::DID, Subjects::Record);
            sql.push(format_args!(" AND {condition}"));
        }
        let hidden = self::hidden::<D>(sql, self.nsid, hidden, D::DID);
        sql.push(format_args!("{hidden}"));
    }
}

/// The conditions that leave hidden records `r` out, each after an AND. `did`: the DID of their account.
pub(in crate::store) fn hidden<D: Dialect>(sql: &mut Sql, nsid: &Nsid, hidden: &Hidden, did: &str) -> String {
    let Hidden { labels, accounts } = hidden;
    let mut conditions = String::new();
    if !accounts.is_empty() {
        let (before, after) = D::DID_IS_IN_JSON;
        conditions = format!(" AND NOT ({before}{}{after})", sql.bind(json_list(accounts)));
    }
    for label in labels {
        // A field that is missing makes a comparison NULL, not false.
        conditions.push_str(" AND ");
        conditions.push_str(&has_label::<D>(sql, nsid, label, did, Subjects::RecordAndAccount));
        conditions.push_str(" IS NOT TRUE");
    }
    conditions
}

/// The subjects whose labels count for a record.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Subjects {
    Record,
    RecordAndAccount,
}

/// The condition that the record `r` has a label.
fn has_label<D: Dialect>(
    sql: &mut Sql,
    nsid: &Nsid,
    HasLabel { val, now, own }: &HasLabel,
    did: &str,
    subjects: Subjects,
) -> String {
    let collection = sql.bind(Value::Text(nsid.as_str().to_owned()));
    let of_version = sql.bind(Value::Text(format!("{val}{VERSION_MARK}")));
    let val = sql.bind(Value::Text(val.clone()));
    let now = sql.bind(Value::Integer(now.0));
    let in_force = labels::in_force(&now.to_string(), &D::cid_text("r.cid"));
    let own = condition::<D>(sql, own);
    let account = if subjects == Subjects::Record { String::new() } else { format!("{did}, ") };
    format!(
        "({own} OR EXISTS (SELECT 1 FROM labels l \
         WHERE l.uri IN ({account}'at://' || {did} || '/' || {collection} || '/' || r.rkey) \
             AND (l.val = {val} OR l.val = {of_version} || l.cid) AND {in_force}))"
    )
}

/// Accounts as a JSON array, each once.
fn json_list(dids: &[Did]) -> Value {
    let mut dids: Vec<_> = dids.iter().map(Did::as_str).collect();
    dids.sort_unstable();
    dids.dedup();
    Value::Text(serde_json::Value::from(dids).to_string())
}

/// The condition that a record matches a filter.
fn condition<D: Dialect>(sql: &mut Sql, filter: &Filter) -> String {
    match filter {
        Filter::Condition { field, test } => match test {
            Test::Compare { op, value } => D::condition(sql, field, *op, value),
            Test::Among { values, is_negated } => D::among(sql, field, values, *is_negated),
            Test::Exists { is_negated } => D::exists(field, *is_negated),
        },
        Filter::Group { combine, children } => {
            let word = match combine {
                Combine::And => " AND ",
                Combine::Or => " OR ",
            };
            let children: Vec<_> = children.iter().map(|child| condition::<D>(sql, child)).collect();
            format!("({})", children.join(word))
        }
    }
}
