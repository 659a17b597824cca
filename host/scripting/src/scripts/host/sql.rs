//! `db.raw` and `db.page`: SQL.

use super::arguments::{check_lengths, invalid, sort_keys};
use super::reading::call_index;
use super::state::RunState;
use super::{fault, json, report};
use crate::scripts::bindings::belvedere::script::db::{PageArgs, RawAnswer, RawPage};
use crate::scripts::bindings::belvedere::script::types::Fault;
use crate::scripts::dry_run::DryWrite;
use crate::scripts::effects::writes;
use crate::scripts::limits;
use belvedere_storage::query::SqlPage;
use belvedere_storage::store::Backend;

/// Whether a statement changes something.
pub(super) fn is_write(state: &RunState, sql: &str) -> bool {
    // A replay has no index. The dialects differ in no statement that scripts may use to write.
    let backend = state.services.as_ref().map_or(Backend::Sqlite, |services| services.index.backend());
    writes(sql, backend)
}

pub(super) async fn raw(state: &mut RunState, sql: String, params: Vec<u8>) -> Result<RawAnswer, Fault> {
    if state.services.is_none() {
        return Err(fault::forbidden(
            "db.raw can't be used while the script is being saved: tables are made by handle() of a script setup:NAME",
        ));
    }
    let index = state.index("db.raw")?;
    json::check(state, "db.raw: params", &params, limits::SQL_PARAMS_BYTES)?;
    if let Some(dry_run) = state.dry_run()
        && writes(&sql, index.backend())
    {
        dry_run.write(&DryWrite::Sql { statement: &sql, params: report::json(&params) });
        return Ok(RawAnswer { rows: b"[]".to_vec(), changed: Some(0) });
    }
    let tenant = state.tenant().clone();
    let answer = call_index(state, "db.raw", index.raw(tenant, sql, params.into())).await?;
    state.count_rows(answer.count, answer.rows.len())?;
    Ok(RawAnswer { rows: answer.rows, changed: answer.changed })
}

pub(super) async fn page(
    state: &mut RunState,
    sql: String,
    params: Vec<u8>,
    args: PageArgs,
) -> Result<RawPage, Fault> {
    const FUNCTION: &str = "db.page";
    let (index, tenant) = (state.index(FUNCTION)?, state.tenant().clone());
    json::check(state, "db.page: params", &params, limits::SQL_PARAMS_BYTES)?;
    let PageArgs { order, limit, cursor } = args;
    check_lengths(FUNCTION, &[cursor.as_ref()])?;
    let page = SqlPage::parse(sort_keys(FUNCTION, &order)?, limit, cursor.as_deref())
        .map_err(|error| invalid(FUNCTION, error))?;
    let (answer, next) = call_index(state, FUNCTION, index.page(tenant, sql, params.into(), page)).await?;
    state.count_rows(answer.count, answer.rows.len())?;
    let too_long = || invalid(FUNCTION, "the values of the order's columns are too long for a cursor");
    let cursor = next.map(|values| SqlPage::cursor(&values).ok_or_else(too_long)).transpose()?;
    Ok(RawPage { rows: answer.rows, cursor })
}
