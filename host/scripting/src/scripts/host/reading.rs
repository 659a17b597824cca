//! Calls the index on behalf of a run, and gives it pages.

use std::time::Instant;

use super::fault;
use super::rows::pack;
use super::state::RunState;
use crate::scripts::bindings::belvedere::script::db::Page;
use crate::scripts::bindings::belvedere::script::types::Fault;
use crate::scripts::services::IndexError;
use belvedere_storage::query::Position;
use belvedere_storage::store::records;

/// A page as the script gets it.
pub(super) fn page(state: &mut RunState, page: &records::Page) -> Result<Page, Fault> {
    Ok(Page { records: pack(state, &page.rows)?, cursor: page.next.as_ref().map(Position::cursor) })
}

/// Waits for a call of the index, and counts the time as the run's database time.
pub(super) async fn call_index<T>(
    state: &mut RunState,
    function: &str,
    call: impl Future<Output = Result<T, IndexError>>,
) -> Result<T, Fault> {
    let started = Instant::now();
    let result = call.await;
    state.spend_on_database(started.elapsed());
    result.map_err(|e| fault::index(function, &e))
}
