//! Reads the rows of a view: a page of a collection, or one record.

use serde_json::Value;

use belvedere_base::clock::Timestamp;
use belvedere_protocol::atproto::{Did, Nsid, RecordUri};
use belvedere_storage::query::{Filter, Links, Narrow, Position, Query};
use belvedere_storage::store::{query, records};

use super::{Found, Reads, Run, accounts, page_limit};
use crate::views::conditions::Conditions;
use crate::views::error::ViewError;
use crate::views::level::Row;
use crate::views::operand::Operand;
use crate::views::plan::View;

impl Run<'_> {
    /// A page of the collection, or its groups.
    pub(super) async fn list(
        &self,
        view: &View,
        collection: &Nsid,
        linked_from: Option<&(Operand, Links)>,
    ) -> Result<Found, ViewError> {
        let mut wanted = self.query(view, collection)?;
        if let Some((account, links)) = linked_from {
            let account = self.account(account)?;
            // Without the account there is no list of accounts, and not one of all records.
            let Some(account) = account else { return Ok(Found::default()) };
            wanted.dids = Some(accounts(self.reads, &account, links).await?);
        }
        let Reads { db, tenant, .. } = self.reads;
        if let Some(group) = &view.group {
            let limit = group.limit.as_ref().and_then(|limit| limit.value(self.arguments)?.as_i64());
            let group = group.of(wanted, limit).map_err(ViewError::parameter)?;
            let found = query::group(db, &group, tenant).await?;
            let rows = found.into_iter().map(|row| Row::of_group(&group.by, row)).collect();
            return Ok(Found { rows, ..Found::default() });
        }
        let page = query::read(db, &wanted, tenant).await?;
        let rows = page.rows.into_iter().map(Row::of_record).collect();
        let cursor = page.next.as_ref().map(Position::cursor);
        let previous = page.previous.as_ref().map(Position::cursor_before);
        Ok(Found { rows, cursor, previous, ..Found::default() })
    }

    /// The query of a call.
    fn query(&self, view: &View, collection: &Nsid) -> Result<Query, ViewError> {
        let View { conditions, order, .. } = view;
        let Conditions { did, rkey, indexed_at, .. } = conditions;
        let arguments = self.arguments;
        let cursor = arguments.values.get("cursor").and_then(Value::as_str);
        let (after, is_backwards) =
            Position::read_either(cursor, order.as_ref()).map_err(ViewError::parameter)?;
        let mut narrow = Narrow { hidden: self.hidden.clone(), ..Narrow::default() };
        if let Some(rkey) = rkey {
            narrow.rkey = rkey.text(arguments);
        }
        for (test, operand) in indexed_at {
            let Some(text) = operand.text(arguments) else { continue };
            let at = Timestamp::parse(&text).map_err(|_| {
                ViewError::Parameter(format!("{text:?} is not a time such as 2026-01-31T12:00:00Z"))
            })?;
            let bound = test.bound(at);
            if test.is_lower() {
                narrow.from = Some(narrow.from.map_or(bound, |other| other.max(bound)));
            } else {
                narrow.before = Some(narrow.before.map_or(bound, |other| other.min(bound)));
            }
        }
        let filter = conditions.filter(arguments).map(|filter| Filter::from_json(&filter));
        let filter = filter.transpose().map_err(ViewError::parameter)?;
        let mut wanted = Query {
            filter,
            narrow,
            sort: order.clone(),
            with_cid: true,
            valid: Some(true),
            after,
            is_backwards,
            limit: page_limit(arguments),
            ..Query::of(collection.clone())
        };
        match did.as_ref().and_then(|did| did.value(&|operand| operand.value(arguments))) {
            None => {}
            Some(Value::Array(dids)) => {
                let dids = dids.iter().map(account).collect::<Result<Vec<_>, _>>()?;
                wanted.dids = Some(dids);
            }
            Some(did) => wanted.did = Some(account(&did)?),
        }
        Ok(wanted)
    }

    /// The account of an operand; `None` if the call does not name it.
    fn account(&self, operand: &Operand) -> Result<Option<Did>, ViewError> {
        operand.value(self.arguments).as_ref().map(account).transpose()
    }

    /// The record that a parameter names.
    pub(super) async fn record(&self, uri: &Operand, collection: Option<&Nsid>) -> Result<Row, ViewError> {
        let Some(text) = uri.text(self.arguments) else {
            return Err(ViewError::Parameter(
                "the parameter with the URI of the record is required".to_owned(),
            ));
        };
        let uri = RecordUri::parse(&text).map_err(ViewError::parameter)?;
        if collection.is_some_and(|collection| *collection != uri.collection) {
            return Err(ViewError::NotFound);
        }
        let found = {
            let _permit = self.reads.db.read_permit(self.reads.tenant).await?;
            records::get(self.reads.db, &uri).await?
        };
        let mut rows = self.visible(found.into_iter().map(Row::of_record).collect()).await?;
        rows.pop().ok_or(ViewError::NotFound)
    }
}

fn account(value: &Value) -> Result<Did, ViewError> {
    let text = value.as_str().unwrap_or_default();
    Did::try_from(text).map_err(|_| ViewError::Parameter(format!("{text:?} is neither a DID nor a handle")))
}
