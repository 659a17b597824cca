//! `db`: reads the index. The arguments are checked here; the prelude has checked their types. Rows cross as the stored bytes;
//! nothing here parses them.

use super::arguments::{self, accounts, check_lengths, invalid, nsid, sort_keys};
use super::reading::{call_index, page};
use super::rows::pack;
use super::state::RunState;
use super::{Refusal, grouping, handles, links, profiles, space_records, sql};
use crate::scripts::bindings::belvedere::script::db::{
    BacklinksArgs, CountArgs, GroupArgs, Host, LinkKind, Page, PageArgs, QueryArgs, RawAnswer, RawPage,
    SearchArgs,
};
use crate::scripts::bindings::belvedere::script::types::Fault;
use belvedere_protocol::atproto::RecordUri;
use belvedere_protocol::atproto::space_uri::is_in_space;
use belvedere_storage::query::{PageSize, Position, Query, Relevance, Search, Sort};

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

    async fn group(&mut self, args: GroupArgs) -> Result<Vec<u8>, Refusal> {
        let rows = grouping::group(self, args).await?;
        self.memory.hold_result(rows.len()).await?;
        Ok(rows)
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
        let answer = sql::raw(self, sql, params).await?;
        self.memory.hold_result(answer.rows.len()).await?;
        Ok(answer)
    }

    async fn select_page(
        &mut self,
        sql: String,
        params: Vec<u8>,
        args: PageArgs,
    ) -> Result<RawPage, Refusal> {
        let page = sql::page(self, sql, params, args).await?;
        self.memory.hold_result(page.rows.len()).await?;
        Ok(page)
    }

    async fn search(&mut self, args: SearchArgs) -> Result<Page, Refusal> {
        let page = search(self, args).await?;
        self.memory.hold_result(page.records.len()).await?;
        Ok(page)
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
    let QueryArgs { collection, did, dids, limit, cursor, sort, filter, valid } = args;
    check_lengths(FUNCTION, &[Some(&collection), did.as_ref(), cursor.as_ref()])?;
    let filter = arguments::filter(state, FUNCTION, filter)?;
    let keys = sort_keys(FUNCTION, &sort)?;
    let sort = Sort::parse_keys(keys).map_err(|error| invalid(FUNCTION, error))?;
    let (collection, did) = (nsid(FUNCTION, &collection)?, handles::account(state, FUNCTION, did).await?);
    let dids = accounts(FUNCTION, dids)?;
    let after = Position::read(cursor.as_deref(), sort.as_ref()).map_err(|error| invalid(FUNCTION, error))?;
    let limit = PageSize::RECORDS.clamp(limit);
    Ok(Query { did, dids, filter, valid, sort, after, limit, with_cid: true, ..Query::of(collection) })
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
    let filter = arguments::filter(state, FUNCTION, filter)?;
    let (collection, did) = (nsid(FUNCTION, &collection)?, handles::account(state, FUNCTION, did).await?);
    let dids = accounts(FUNCTION, dids)?;
    let query = Query { did, dids, filter, valid, ..Query::of(collection) };
    call_index(state, FUNCTION, index.count(tenant, query)).await
}

async fn search(state: &mut RunState, args: SearchArgs) -> Result<Page, Fault> {
    const FUNCTION: &str = "db.search";
    let (index, tenant) = (state.index(FUNCTION)?, state.tenant().clone());
    let SearchArgs { collection, fields, text, limit, cursor } = args;
    check_lengths(FUNCTION, &[Some(&collection), Some(&text), cursor.as_ref()])?;
    fields.iter().try_for_each(|field| check_lengths(FUNCTION, &[Some(field)]))?;
    let collection = nsid(FUNCTION, &collection)?;
    let search = Search::parse(collection, &fields, text, limit, cursor.as_deref())
        .map_err(|error| invalid(FUNCTION, error))?;
    let found = call_index(state, FUNCTION, index.search(tenant, search)).await?;
    Ok(Page { records: pack(state, &found.rows)?, cursor: found.next.as_ref().map(Relevance::cursor) })
}
