//! `db`: reads the index. Rows cross as the stored bytes; nothing here parses them.

use std::time::Instant;

use super::bindings::belvedere::script::db::{BacklinksArgs, Host, Page, QueryArgs, RawAnswer, SearchArgs};
use super::bindings::belvedere::script::types::{Fault, FaultCode};
use super::rows::pack;
use super::state::RunState;
use super::{Refusal, fault, handles, json, report};
use crate::scripts::dry_run::DryWrite;
use crate::scripts::effects::writes;
use crate::scripts::limits;
use crate::scripts::services::{Backlinks, IndexError, Query, Search};

impl Host for RunState {
    async fn query(&mut self, args: QueryArgs) -> Result<Page, Refusal> {
        let page = query(self, args).await?;
        self.memory.hold_result(page.records.len()).await?;
        Ok(page)
    }

    async fn get(&mut self, uri: String) -> Result<Vec<u8>, Refusal> {
        Ok(get(self, uri).await?)
    }

    async fn count(&mut self, collection: String, did: Option<String>) -> Result<u64, Refusal> {
        Ok(count(self, collection, did).await?)
    }

    async fn backlinks(&mut self, args: BacklinksArgs) -> Result<Page, Refusal> {
        let page = backlinks(self, args).await?;
        self.memory.hold_result(page.records.len()).await?;
        Ok(page)
    }

    async fn raw(&mut self, sql: String, params: Vec<u8>) -> Result<RawAnswer, Refusal> {
        let answer = raw(self, sql, params).await?;
        self.memory.hold_result(answer.rows.len()).await?;
        Ok(answer)
    }

    async fn search(&mut self, args: SearchArgs) -> Result<Vec<u8>, Refusal> {
        let rows = search(self, args).await?;
        self.memory.hold_result(rows.len()).await?;
        Ok(rows)
    }

    async fn backend(&mut self) -> wasmtime::Result<String> {
        Ok(self.index("db.backend").map_or("", |index| index.backend()).to_owned())
    }
}

async fn query(state: &mut RunState, args: QueryArgs) -> Result<Page, Fault> {
    let (index, tenant) = (state.index("db.query")?, state.tenant().clone());
    check_lengths(
        "db.query",
        &[Some(&args.collection), args.did.as_ref(), args.cursor.as_ref(), args.sort.as_ref()],
    )?;
    if let Some(filter) = &args.filter {
        json::check(state, "db.query: filter", filter, limits::FILTER_BYTES)?;
    }
    let query = Query {
        collection: args.collection,
        did: args.did,
        limit: args.limit,
        cursor: args.cursor,
        sort: args.sort,
        ascending: args.ascending,
        filter: args.filter.map(Into::into),
        valid: args.valid,
    };
    let page = call_index(state, "db.query", index.query(tenant, query)).await?;
    Ok(Page { records: pack(state, &page.rows)?, cursor: page.cursor })
}

async fn get(state: &mut RunState, uri: String) -> Result<Vec<u8>, Fault> {
    let (index, tenant) = (state.index("db.get")?, state.tenant().clone());
    check_lengths("db.get", &[Some(&uri)])?;
    let uri = handles::without_handle(state, "db.get", uri).await?;
    let row = call_index(state, "db.get", index.get(tenant, uri)).await?;
    pack(state, row.as_slice())
}

async fn count(state: &mut RunState, collection: String, did: Option<String>) -> Result<u64, Fault> {
    let (index, tenant) = (state.index("db.count")?, state.tenant().clone());
    check_lengths("db.count", &[Some(&collection), did.as_ref()])?;
    call_index(state, "db.count", index.count(tenant, collection, did)).await
}

async fn backlinks(state: &mut RunState, args: BacklinksArgs) -> Result<Page, Fault> {
    let (index, tenant) = (state.index("db.backlinks")?, state.tenant().clone());
    check_lengths(
        "db.backlinks",
        &[Some(&args.collection), Some(&args.uri), args.did.as_ref(), args.cursor.as_ref()],
    )?;
    let links = Backlinks {
        collection: args.collection,
        // References name accounts by their DIDs.
        uri: handles::without_handle(state, "db.backlinks", args.uri).await?,
        did: args.did,
        limit: args.limit,
        cursor: args.cursor,
    };
    let page = call_index(state, "db.backlinks", index.backlinks(tenant, links)).await?;
    Ok(Page { records: pack(state, &page.rows)?, cursor: page.cursor })
}

async fn raw(state: &mut RunState, sql: String, params: Vec<u8>) -> Result<RawAnswer, Fault> {
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

/// Refuses texts such as names and URIs that are longer than any valid one, before they are parsed.
fn check_lengths(function: &str, texts: &[Option<&String>]) -> Result<(), Fault> {
    if texts.iter().flatten().any(|text| text.len() > limits::NAME_BYTES) {
        let max = limits::NAME_BYTES;
        return Err(fault::new(
            FaultCode::BadInput,
            format!("{function}: a text is longer than {max} bytes"),
        ));
    }
    Ok(())
}

/// Waits for a call of the index, and counts the time as the run's database time.
async fn call_index<T>(
    state: &mut RunState,
    function: &str,
    call: impl Future<Output = Result<T, IndexError>>,
) -> Result<T, Fault> {
    let started = Instant::now();
    let result = call.await;
    state.spend_on_database(started.elapsed());
    result.map_err(|e| fault::index(function, &e))
}

async fn search(state: &mut RunState, args: SearchArgs) -> Result<Vec<u8>, Fault> {
    let (index, tenant) = (state.index("db.search")?, state.tenant().clone());
    check_lengths("db.search", &[Some(&args.collection), Some(&args.field), Some(&args.text)])?;
    let search =
        Search { collection: args.collection, field: args.field, text: args.text, limit: args.limit };
    let rows = call_index(state, "db.search", index.search(tenant, search)).await?;
    pack(state, &rows)
}
