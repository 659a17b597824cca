//! `db`: reads the index. The arguments are checked here; the prelude has checked their types. Rows cross as the stored bytes;
//! nothing here parses them.

use super::arguments::{accounts, check_lengths, invalid, nsid};
use super::reading::{call_index, page};
use super::rows::pack;
use super::state::RunState;
use super::{Refusal, handles, json, links, profiles, report, space_records};
use crate::scripts::bindings::belvedere::script::db::{
    BacklinksArgs, CountArgs, Host, LinkKind, Page, QueryArgs, RawAnswer, SearchArgs,
};
use crate::scripts::bindings::belvedere::script::types::Fault;
use crate::scripts::dry_run::DryWrite;
use crate::scripts::effects::writes;
use crate::scripts::limits;
use belvedere_protocol::atproto::RecordUri;
use belvedere_protocol::atproto::space_uri::is_in_space;
use belvedere_storage::query::{Direction, Filter, PageSize, Position, Query, Search, Sort, SortKey};

impl Host for RunState {
    async fn query(&mut self, args: QueryArgs) -> Result<Page, Refusal> {
        let page = query(self, args).await?;
        self.memory.hold_result(page.records.len()).await?;
        Ok(page)
    }

    async fn get(&mut self, uri: String) -> Result<Vec<u8>, Refusal> {
        Ok(get(self, uri).await?)
    }

    async fn count(&mut self, args: CountArgs) -> Result<u64, Refusal> {
        Ok(count(self, args).await?)
    }

    async fn backlinks(&mut self, args: BacklinksArgs) -> Result<Page, Refusal> {
        let page = links::backlinks(self, args).await?;
        self.memory.hold_result(page.records.len()).await?;
        Ok(page)
    }

    async fn link_counts(&mut self, targets: Vec<String>, kinds: Vec<LinkKind>) -> Result<Vec<u8>, Refusal> {
        let counts = links::counts(self, targets, kinds).await?;
        self.memory.hold_result(counts.len()).await?;
        Ok(counts)
    }

    async fn links_by(
        &mut self,
        did: String,
        targets: Vec<String>,
        kinds: Vec<LinkKind>,
    ) -> Result<Vec<u8>, Refusal> {
        let found = links::of_account(self, did, targets, kinds).await?;
        self.memory.hold_result(found.len()).await?;
        Ok(found)
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

    async fn profiles(&mut self, dids: Vec<String>) -> Result<Vec<u8>, Refusal> {
        let json = profiles::read(self, &dids).await?;
        self.memory.hold_result(json.len()).await?;
        Ok(json)
    }

    async fn backend(&mut self) -> wasmtime::Result<String> {
        Ok(self.index("db.backend").map_or("", |index| index.backend().as_str()).to_owned())
    }
}

async fn query(state: &mut RunState, args: QueryArgs) -> Result<Page, Fault> {
    let (index, tenant) = (state.index("db.query")?, state.tenant().clone());
    let query = checked_query(state, args).await?;
    let found = call_index(state, "db.query", index.query(tenant, query)).await?;
    page(state, &found)
}

/// Checks the arguments of `db.query`.
async fn checked_query(state: &mut RunState, args: QueryArgs) -> Result<Query, Fault> {
    const FUNCTION: &str = "db.query";
    let QueryArgs { collection, did, dids, limit, cursor, sort, ascending, filter, valid } = args;
    check_lengths(FUNCTION, &[Some(&collection), did.as_ref(), cursor.as_ref(), sort.as_ref()])?;
    let filter = checked_filter(state, FUNCTION, filter)?;
    let direction = if ascending { Direction::Asc } else { Direction::Desc };
    let sort = match sort {
        // Newest first is the order of a list, which needs no sort.
        None => ascending.then_some(Sort { key: SortKey::IndexedAt, direction }),
        Some(key) => Some(
            Sort::parse(&key, direction)
                .map_err(|_| invalid(FUNCTION, format!("invalid sort field {key:?}")))?,
        ),
    };
    let (collection, did) = (nsid(FUNCTION, &collection)?, handles::account(state, FUNCTION, did).await?);
    let dids = accounts(FUNCTION, dids)?;
    let after = Position::read(cursor.as_deref(), sort.as_ref()).map_err(|error| invalid(FUNCTION, error))?;
    let limit = PageSize::RECORDS.clamp(limit);
    Ok(Query { did, dids, filter, valid, sort, after, limit, with_cid: true, ..Query::of(collection) })
}

fn checked_filter(
    state: &mut RunState,
    function: &str,
    filter: Option<Vec<u8>>,
) -> Result<Option<Filter>, Fault> {
    let Some(text) = filter else { return Ok(None) };
    json::check(state, &format!("{function}: filter"), &text, limits::FILTER_BYTES)?;
    let value =
        serde_json::from_slice(&text).map_err(|error| invalid(function, format!("filter: {error}")))?;
    Filter::from_json(&value).map(Some).map_err(|error| invalid(function, error))
}

async fn get(state: &mut RunState, uri: String) -> Result<Vec<u8>, Fault> {
    check_lengths("db.get", &[Some(&uri)])?;
    if is_in_space(&uri) {
        return space_records::get(state, "db.get", &uri).await;
    }
    let (index, tenant) = (state.index("db.get")?, state.tenant().clone());
    let uri = handles::without_handle(state, "db.get", uri).await?;
    let uri = RecordUri::parse(&uri).map_err(|error| invalid("db.get", error))?;
    let row = call_index(state, "db.get", index.get(tenant, uri)).await?;
    pack(state, row.as_slice())
}

async fn count(state: &mut RunState, args: CountArgs) -> Result<u64, Fault> {
    const FUNCTION: &str = "db.count";
    let (index, tenant) = (state.index(FUNCTION)?, state.tenant().clone());
    let CountArgs { collection, did, dids, filter, valid } = args;
    check_lengths(FUNCTION, &[Some(&collection), did.as_ref()])?;
    let filter = checked_filter(state, FUNCTION, filter)?;
    let (collection, did) = (nsid(FUNCTION, &collection)?, handles::account(state, FUNCTION, did).await?);
    let dids = accounts(FUNCTION, dids)?;
    let query = Query { did, dids, filter, valid, ..Query::of(collection) };
    call_index(state, FUNCTION, index.count(tenant, query)).await
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

async fn search(state: &mut RunState, args: SearchArgs) -> Result<Vec<u8>, Fault> {
    let (index, tenant) = (state.index("db.search")?, state.tenant().clone());
    check_lengths("db.search", &[Some(&args.collection), Some(&args.field), Some(&args.text)])?;
    let collection = nsid("db.search", &args.collection)?;
    let search = Search::parse(collection, &args.field, args.text, args.limit)
        .map_err(|error| invalid("db.search", error))?;
    let rows = call_index(state, "db.search", index.search(tenant, search)).await?;
    pack(state, &rows)
}
