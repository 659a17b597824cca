//! `db.group`: counts records by their values.

use serde_json::Value;

use super::arguments::{self, accounts, check_lengths, invalid, nsid, sort_keys};
use super::handles;
use super::reading::call_index;
use super::state::RunState;
use crate::scripts::bindings::belvedere::script::db::{GroupArgs, GroupKey as GivenKey};
use crate::scripts::bindings::belvedere::script::types::Fault;
use belvedere_storage::query::Query;
use belvedere_storage::query::group::{Group, GroupKey};

const FUNCTION: &str = "db.group";

/// The rows, as a JSON array of objects.
pub(super) async fn group(state: &mut RunState, args: GroupArgs) -> Result<Vec<u8>, Fault> {
    let (index, tenant) = (state.index(FUNCTION)?, state.tenant().clone());
    let group = checked_group(state, args).await?;
    let rows = call_index(state, FUNCTION, index.group(tenant, group.clone())).await?;
    let count = rows.len();
    let rows: Vec<_> = rows.into_iter().map(|row| Value::from(group.object(row))).collect();
    let json = Value::from(rows).to_string().into_bytes();
    state.count_rows(count, json.len())?;
    Ok(json)
}

async fn checked_group(state: &mut RunState, args: GroupArgs) -> Result<Group, Fault> {
    let GroupArgs { collection, by, did, dids, filter, valid, order, limit } = args;
    check_lengths(FUNCTION, &[Some(&collection), did.as_ref()])?;
    let key = |key: &GivenKey| {
        let GivenKey { field, bucket, name } = key;
        check_lengths(FUNCTION, &[Some(field), bucket.as_ref(), name.as_ref()])?;
        GroupKey::parse(field, bucket.as_deref(), name.as_deref()).map_err(|error| invalid(FUNCTION, error))
    };
    let by = by.iter().map(key).collect::<Result<_, _>>()?;
    let filter = arguments::filter(state, FUNCTION, filter)?;
    let (collection, did) = (nsid(FUNCTION, &collection)?, handles::account(state, FUNCTION, did).await?);
    let dids = accounts(FUNCTION, dids)?;
    let query = Query { did, dids, filter, valid, ..Query::of(collection) };
    Group::new(query, by, sort_keys(FUNCTION, &order)?, limit).map_err(|error| invalid(FUNCTION, error))
}
