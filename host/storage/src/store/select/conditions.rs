//! The conditions that the caller of a list or query has.

use crate::query::filter::{Combine, Filter, Test};
use crate::query::{HasLabel, Narrow};
use crate::store::labels::VERSION_MARK;
use belvedere_protocol::atproto::Did;

use super::{Dialect, Select, Sql, Value};

impl Select<'_> {
    /// Adds the conditions of the caller.
    pub(in crate::store) fn write_conditions<D: Dialect>(&self, sql: &mut Sql) {
        if let Some(did) = self.did {
            let did = sql.bind(Value::Text(did.as_str().to_owned()));
            sql.push(format_args!(" AND r.did_id = (SELECT id FROM dids WHERE did = {did})"));
        }
        if let Some(dids) = self.dids {
            let dids = sql.bind(json_list(dids));
            let (before, after) = D::DID_IS_IN_JSON;
            sql.push(format_args!(" AND {before}{dids}{after}"));
        }
        if let Some(filter) = self.filter {
            let condition = condition::<D>(sql, filter);
            sql.push(format_args!(" AND {condition}"));
        }
        self.write_narrow::<D>(sql);
        match self.valid {
            // Not EXISTS, which PostgreSQL may turn into a join that loses the order of the rows, and not IS NULL, which
            // it expects of few.
            Some(true) => sql.push(format_args!(
                " AND (SELECT 1 FROM invalid_records i WHERE i.record_id = r.id) IS DISTINCT FROM 1"
            )),
            Some(false) => {
                let collection = sql.bind(Value::Integer(self.collection.id));
                let (before, after) = D::ID_IS_AMONG;
                sql.push(format_args!(
                    " AND r.id {before}SELECT record_id FROM invalid_records WHERE collection_id = {collection}{after}"
                ));
            }
            None => {}
        }
    }

    fn write_narrow<D: Dialect>(&self, sql: &mut Sql) {
        let Narrow { rkey, from, before, label } = self.narrow;
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
        if let Some(HasLabel { val, now, own }) = label {
            let collection = sql.bind(Value::Text(self.nsid.as_str().to_owned()));
            let of_version = sql.bind(Value::Text(format!("{val}{VERSION_MARK}")));
            let val = sql.bind(Value::Text(val.clone()));
            let now = sql.bind(Value::Integer(now.0));
            let own = condition::<D>(sql, own);
            sql.push(format_args!(
                " AND ({own} OR EXISTS (SELECT 1 FROM labels l \
                 WHERE l.uri = 'at://' || {} || '/' || {collection} || '/' || r.rkey \
                     AND (l.val = {val} OR l.val = {of_version} || l.cid) AND NOT l.neg AND (l.exp IS NULL OR l.exp > {now})))",
                D::DID
            ));
        }
    }
}

/// Accounts as a JSON array, each once.
pub(in crate::store) fn json_list(dids: &[Did]) -> Value {
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
