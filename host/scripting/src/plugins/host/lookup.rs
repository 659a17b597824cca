//! `lookup`: finds a record in the index by the value of a field. It reads by the index of the field if there is one. Else it
//! scans the collection, with one of the permits of its tenant and within the time limit of scans, and counts as a reason to
//! build that index (`store::query`).

use serde_json::Value;

use super::state::CallState;
use super::{Refusal, fault};
use crate::plugins::bindings::belvedere::plugin::lookup::Host;
use crate::plugins::bindings::belvedere::plugin::types::{FaultCode, StrongRef};
use crate::plugins::limits;
use belvedere_protocol::atproto::Nsid;
use belvedere_storage::query::{Filter, Query};
use belvedere_storage::store::{StoreError, query};

impl Host for CallState {
    async fn find(
        &mut self,
        collection: String,
        path: String,
        value: String,
    ) -> Result<Option<StrongRef>, Refusal> {
        let account = self.account("lookup.find")?;
        let (tenant, grants) = (account.tenant.clone(), &account.grants);
        let collection = Nsid::try_from(collection.as_str())
            .map_err(|_| fault::bad_input("lookup.find: the collection is not an NSID"))?;
        if !grants.allow_find(&collection) {
            return Err(
                fault::forbidden(format!("lookup.find: the operator did not grant {collection}")).into()
            );
        }
        self.count_lookup()?;
        if value.len() > limits::LONG_TEXT_BYTES {
            return Err(fault::bad_input(format!(
                "lookup.find: the value is larger than {} bytes",
                limits::LONG_TEXT_BYTES
            ))
            .into());
        }
        let value: Value = serde_json::from_str(&value)
            .map_err(|error| fault::bad_input(format!("lookup.find: the value is not JSON: {error}")))?;
        let condition = serde_json::json!({ "field": path, "op": "=", "value": value });
        let filter = Filter::from_json(&condition)
            .map_err(|error| fault::bad_input(format!("lookup.find: {error}")))?;
        // Without a sort, the first match ends the search.
        let first = Query { filter: Some(filter), with_cid: true, limit: 1, ..Query::of(collection) };
        let db = self.services.db.clone();
        self.wait_for_host(true);
        let found = query::read(&db, &first, &tenant).await;
        self.wait_for_host(false);
        let found = found.map_err(|error| match error {
            StoreError::TooSlow => fault::new(
                FaultCode::TimedOut,
                format!(
                    "lookup.find: {path} has no index yet, and the collection is too large to be searched"
                ),
            ),
            error => fault::store("lookup.find", &error),
        })?;
        let row = found.rows.into_iter().next();
        Ok(row.map(|row| StrongRef { uri: row.uri(), cid: row.cid.map(|cid| cid.to_string()) }))
    }
}
