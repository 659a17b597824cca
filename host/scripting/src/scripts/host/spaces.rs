//! `spaces`: records and members of permissioned spaces, as the caller of the run sees them. The room `spaces` of the instance
//! decides what that is.

use std::time::Instant;

use super::arguments::{self, check_lengths, invalid, nsid, space};
use super::rows::pack_of_space;
use super::state::RunState;
use super::{Refusal, fault, handles};
use crate::scripts::bindings::belvedere::script::spaces::{Host, Member, Members, Page, QueryArgs};
use crate::scripts::bindings::belvedere::script::types::{Fault, FaultCode};
use crate::scripts::failure::FailureAnswer;
use crate::scripts::limits;
use crate::scripts::services::store_error;
use belvedere_instance::spaces::{ListQuery, SpaceError, Spaces, Viewer};
use belvedere_instance::xrpc::Answer;
use belvedere_protocol::atproto::Did;
use belvedere_protocol::spaces::access::MemberAccess;
use belvedere_storage::query::PageSize;
use belvedere_storage::store::records::PAGE_BYTES;
use belvedere_storage::store::spaces::lists::Place;

impl Host for RunState {
    async fn query(&mut self, args: QueryArgs) -> Result<Page, Refusal> {
        let page = query(self, args).await?;
        self.memory.hold_result(page.records.len()).await?;
        Ok(page)
    }

    async fn count(&mut self, uri: String, collection: String, did: Option<String>) -> Result<u64, Refusal> {
        let function = "db.count";
        check_lengths(function, &[Some(&uri), Some(&collection), did.as_ref()])?;
        let (uri, collection) = (space(function, &uri)?, nsid(function, &collection)?);
        let did = handles::account(self, function, did).await?;
        let count = call(self, function, async |spaces, viewer| {
            spaces.count(&uri, viewer, did.as_ref(), &collection).await
        });
        Ok(count.await?)
    }

    async fn access(&mut self, uri: String, did: String) -> Result<Option<String>, Refusal> {
        let function = "atproto.spaces.get_access";
        check_lengths(function, &[Some(&uri), Some(&did)])?;
        let uri = space(function, &uri)?;
        let did = arguments::did(function, &did)?;
        let found =
            call(self, function, async |spaces, viewer| match spaces.rights(&uri, viewer, &did).await {
                Err(SpaceError::NoSpace | SpaceError::Anonymous) => Ok(None),
                found => found,
            });
        Ok(found.await?.map(|access| access.word().to_owned()))
    }

    async fn list_members(&mut self, uri: String, after: Option<String>) -> Result<Members, Refusal> {
        let page = list_members(self, uri, after).await?;
        let bytes = page.members.iter().map(|member| member.did.len() + size_of::<Member>()).sum();
        self.count_rows(page.members.len(), bytes)?;
        self.memory.hold_result(bytes).await?;
        Ok(page)
    }
}

async fn query(state: &mut RunState, args: QueryArgs) -> Result<Page, Fault> {
    let function = "db.query";
    let QueryArgs { space: uri, collection, did, limit, cursor, ascending } = args;
    check_lengths(function, &[Some(&uri), collection.as_ref(), did.as_ref(), cursor.as_ref()])?;
    let uri = space(function, &uri)?;
    let after = cursor.map(|cursor| cursor.parse::<Place>()).transpose();
    let query = ListQuery {
        repo: handles::account(state, function, did).await?,
        collection: collection.map(|name| nsid(function, &name)).transpose()?,
        after: after.map_err(|error| invalid(function, error))?,
        limit: PageSize::RECORDS.clamp(limit),
        is_reverse: !ascending,
        with_values: true,
        max_bytes: PAGE_BYTES,
    };
    let page =
        call(state, function, async |spaces, viewer| spaces.records(&uri, viewer, &query).await).await?;
    let records = pack_of_space(state, &uri, &page.records)?;
    Ok(Page { records, cursor: page.next.map(|place| place.to_string()) })
}

async fn list_members(state: &mut RunState, uri: String, after: Option<String>) -> Result<Members, Fault> {
    let function = "atproto.spaces.list_members";
    check_lengths(function, &[Some(&uri), after.as_ref()])?;
    let uri = space(function, &uri)?;
    let after = after.map(|text| arguments::did(function, &text)).transpose()?;
    let after = after.as_ref().map_or("", |did| did.as_str());
    let found = call(state, function, async |spaces, viewer| {
        spaces.members(&uri, viewer, after, limits::SPACE_MEMBERS).await
    });
    let found = found.await?;
    let is_last = found.len() < limits::SPACE_MEMBERS as usize;
    let cursor = found.last().filter(|_| !is_last).map(|(did, _)| did.to_string());
    let member = |(did, access): &(Did, MemberAccess)| Member {
        did: did.to_string(),
        access: access.word().to_owned(),
    };
    Ok(Members { members: found.iter().map(member).collect(), cursor })
}

/// Calls a function of spaces on behalf of the run's caller, with the rights that the caller has now, and counts the time as
/// the run's database time.
pub(super) async fn call<T>(
    state: &mut RunState,
    function: &str,
    work: impl AsyncFnOnce(&Spaces, &Viewer) -> Result<T, SpaceError>,
) -> Result<T, Fault> {
    let spaces = state.database(function, |services| services.spaces.clone())?;
    let caller = state.info.caller.clone();
    let started = Instant::now();
    let result = async {
        spaces.check_enabled()?;
        work(&spaces, &spaces.viewer_of(&caller).await?).await
    };
    let result = result.await;
    state.spend_on_database(started.elapsed());
    result.map_err(|error| refusal(state, function, error))
}

/// The fault of a refused call. Its answer is the one that the caller gets from a method of spaces.
fn refusal(state: &mut RunState, function: &str, error: SpaceError) -> Fault {
    let code = match error {
        SpaceError::Store(error) => return fault::index(function, &store_error(error)),
        SpaceError::NoSession(_) => FaultCode::NoSession,
        SpaceError::Disabled
        | SpaceError::Anonymous
        | SpaceError::NoSpace
        | SpaceError::NoRepo
        | SpaceError::Hidden(_)
        | SpaceError::NotAuthorized(_)
        | SpaceError::Scope(_)
        | SpaceError::OtherRepo
        | SpaceError::NotAdministrator
        | SpaceError::NotAuthority
        | SpaceError::InspectorDisabled
        | SpaceError::GrantRequired
        | SpaceError::HostRefuses(_) => FaultCode::Forbidden,
        SpaceError::HostFails(_) | SpaceError::Copying | SpaceError::Busy | SpaceError::TooManyAttempts => {
            FaultCode::Unavailable
        }
        SpaceError::SpaceExists
        | SpaceError::NotHosted
        | SpaceError::Token(_)
        | SpaceError::Exchange(_)
        | SpaceError::Audience(_)
        | SpaceError::NoRecord
        | SpaceError::RecordExists
        | SpaceError::OtherVersion
        | SpaceError::OtherCommit
        | SpaceError::Collection(_)
        | SpaceError::Ambiguous
        | SpaceError::Invalid(_)
        | SpaceError::Unsupported(_)
        | SpaceError::Conflict(_)
        | SpaceError::NotFound(_)
        | SpaceError::NoService(_)
        | SpaceError::FutureRev => FaultCode::BadInput,
    };
    let message = format!("{function}: {error}");
    let answer = state.keep_answer(FailureAnswer::Own(Answer::of_error(&error.into())));
    Fault { answer: Some(answer), ..fault::new(code, message) }
}
