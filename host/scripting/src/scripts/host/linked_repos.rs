//! `linked-repos`: access to repos whose owners let the instance write to them.

use std::time::Instant;

use serde_json::{Value, json};
use url::form_urlencoded;

use super::state::{RunInfo, RunState};
use super::{Refusal, fault, json, repo, report, xrpc};
use crate::scripts::bindings::belvedere::script::linked_repos::{Host, Put};
use crate::scripts::bindings::belvedere::script::types::{Fault, FaultCode};
use crate::scripts::limits;
use belvedere_instance::pds::{PdsError, Write};
use belvedere_instance::repos::Validation;
use belvedere_instance::repos::linked::{GrantError, GrantUser, LinkedRepo, LinkedRepos};
use belvedere_protocol::atproto::Did;
use belvedere_protocol::atproto::record::MAX_RECORD_BYTES;
use belvedere_storage::store::StoreError;

impl Host for RunState {
    async fn list(&mut self) -> Result<Vec<u8>, Refusal> {
        let grants = grants(self, "linked_repos.list")?;
        let rows = grants.list(&runner(self)).await.map_err(|error| database(&error))?;
        let rows: Vec<Value> = rows
            .into_iter()
            .map(|row| {
                json!({ "id": row.id, "did": row.did, "handle": row.handle, "reason": row.reason,
                    "status": row.status, "scopes": row.scopes })
            })
            .collect();
        Ok(Value::from(rows).to_string().into_bytes())
    }

    async fn get(&mut self, did: String) -> Result<Vec<u8>, Refusal> {
        const FUNCTION: &str = "linked_repos.get";
        let grants = grants(self, FUNCTION)?;
        let did = parse_did(FUNCTION, &did)?;
        let runner = runner(self);
        let found = grants.find(&did, &runner).await.map_err(|error| database(&error))?;
        let Some(row) = found else { return Ok(b"null".to_vec()) };
        // An unusable grant fails here instead of at the script's first write. Opening it may renew its tokens, which a dry
        // run does not.
        if self.dry_run().is_none()
            && let Err(error) = grants.open(&did, &runner).await
        {
            return Err(grant_fault(self, FUNCTION, error).into());
        }
        let repo =
            json!({ "did": row.did, "handle": row.handle, "status": row.status, "scopes": row.scopes });
        Ok(repo.to_string().into_bytes())
    }

    async fn create_record(
        &mut self,
        did: String,
        collection: String,
        rkey: Option<String>,
        value: Vec<u8>,
        validate: bool,
    ) -> Result<Put, Refusal> {
        const FUNCTION: &str = "repo:create_record";
        let written = put(self, FUNCTION, &did, &collection, value, |repos, value| {
            repos.creation(&collection, rkey.as_deref(), value, Validation::of(validate))
        });
        Ok(written.await?)
    }

    async fn put_record(
        &mut self,
        did: String,
        collection: String,
        rkey: String,
        value: Vec<u8>,
        swap: Option<String>,
        validate: bool,
    ) -> Result<Put, Refusal> {
        const FUNCTION: &str = "repo:put_record";
        let written = put(self, FUNCTION, &did, &collection, value, |repos, value| {
            repos.put(&collection, &rkey, value, swap, Validation::of(validate))
        });
        Ok(written.await?)
    }

    async fn delete_record(&mut self, did: String, collection: String, rkey: String) -> Result<(), Refusal> {
        const FUNCTION: &str = "repo:delete_record";
        write(self, FUNCTION, &did, |_| LinkedRepos::deletion(&collection, &rkey)).await?;
        Ok(())
    }

    async fn upload_blob(
        &mut self,
        did: String,
        bytes: Vec<u8>,
        mime_type: String,
    ) -> Result<Vec<u8>, Refusal> {
        const FUNCTION: &str = "repo:upload_blob";
        let done = with_grant(self, FUNCTION, &did, async |_, repo, max_wait| {
            repo.upload(bytes.into(), &mime_type, max_wait).await
        });
        Ok(pds_json(FUNCTION, &done.await?)?)
    }

    async fn call(
        &mut self,
        did: String,
        nsid: String,
        params: Option<Vec<u8>>,
        input: Option<Vec<u8>>,
    ) -> Result<Vec<u8>, Refusal> {
        const FUNCTION: &str = "repo:call";
        if input.as_ref().is_some_and(|input| input.len() > limits::HTTP_BODY_BYTES) {
            return Err(fault::limit("repo:call: the input is too large", limits::HTTP_BODY_BYTES).into());
        }
        let params = params.map(|json| xrpc::query_params(self, FUNCTION, &json)).transpose()?;
        let params = params.unwrap_or_default();
        let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(params).finish();
        let done = with_grant(self, FUNCTION, &did, async |_, repo, max_wait| {
            repo.call(&nsid, &query, input, max_wait).await
        });
        Ok(pds_json(FUNCTION, &done.await?)?)
    }
}

fn grants(state: &mut RunState, function: &str) -> Result<LinkedRepos, Fault> {
    state.service(function, |services| services.linked_repos.clone())
}

fn runner(state: &RunState) -> GrantUser<'_> {
    let RunInfo { trigger, kind, caller, .. } = &state.info;
    GrantUser { trigger, kind: *kind, has_caller: caller.did.is_some(), tenant: &caller.tenant }
}

fn parse_did(function: &str, text: &str) -> Result<Did, Fault> {
    let message = || format!("{function}: {text:?} is not a DID");
    Did::try_from(text).map_err(|_| fault::new(FaultCode::BadInput, message()))
}

fn database(error: &StoreError) -> Fault {
    tracing::error!(function = "linked_repos", %error, "a script's database request failed");
    fault::new(FaultCode::Unavailable, "linked_repos: database unavailable")
}

/// A PDS's answer, which must be JSON; an empty one becomes null.
fn pds_json(function: &str, answer: &[u8]) -> Result<Vec<u8>, Fault> {
    if answer.is_empty() {
        return Ok(b"null".to_vec());
    }
    if answer.len() > limits::HTTP_BODY_BYTES {
        return Err(fault::limit("the answer of the PDS is too large", limits::HTTP_BODY_BYTES));
    }
    match serde_json::from_slice::<serde::de::IgnoredAny>(answer) {
        Ok(_) => Ok(answer.to_vec()),
        Err(_) => Err(fault::new(FaultCode::Upstream, format!("{function}: the PDS's answer is not JSON"))),
    }
}

/// Writes a record to a linked repo. `make` makes the write of the record's text.
async fn put(
    state: &mut RunState,
    function: &'static str,
    did: &str,
    collection: &str,
    value: Vec<u8>,
    make: impl FnOnce(&LinkedRepos, &[u8]) -> Result<Write, GrantError>,
) -> Result<Put, Fault> {
    json::check(state, function, &value, MAX_RECORD_BYTES)?;
    let value = repo::with_arrays(state, collection, value);
    let written = write(state, function, did, |repos| make(repos, &value)).await?;
    written.ok_or_else(|| {
        let unnamed = PdsError::Malformed("it does not name the written record".to_owned());
        grant_fault(state, function, unnamed.into())
    })
}

/// Makes a write in a linked repo, or adds it to the report of a dry run.
async fn write(
    state: &mut RunState,
    function: &'static str,
    did: &str,
    make: impl FnOnce(&LinkedRepos) -> Result<Write, GrantError>,
) -> Result<Option<Put>, Fault> {
    if let Some(dry_run) = state.dry_run().cloned() {
        let grants = grants(state, function)?;
        let did = parse_did(function, did)?;
        let found = grants.find(&did, &runner(state)).await.map_err(|error| database(&error))?;
        let write = match found {
            Some(_) => make(&grants),
            None => Err(GrantError::Unknown),
        };
        let write = write.map_err(|error| grant_fault(state, function, error))?;
        return Ok(Some(report::linked_write(state, &dry_run, &did, &write)));
    }
    let written = with_grant(state, function, did, async |grants, repo, max_wait| {
        repo.write(&make(grants)?, max_wait).await
    });
    Ok(written.await?.map(|(uri, cid)| Put { uri: uri.to_string(), cid: cid.to_string() }))
}

/// Uses a grant for one call, within what the run has left for other servers.
async fn with_grant<T>(
    state: &mut RunState,
    function: &'static str,
    did: &str,
    work: impl AsyncFnOnce(&LinkedRepos, &LinkedRepo, std::time::Duration) -> Result<T, GrantError>,
) -> Result<T, Fault> {
    if let Some(dry_run) = state.dry_run() {
        return Err(report::refusal(dry_run, function));
    }
    let grants = grants(state, function)?;
    let did = parse_did(function, did)?;
    let repo = match grants.open(&did, &runner(state)).await {
        Ok(repo) => repo,
        Err(error) => return Err(grant_fault(state, function, error)),
    };
    state.outbound.count(1)?;
    let max_wait = state.outbound.time_left()?;
    let started = Instant::now();
    let done = work(&grants, &repo, max_wait).await;
    state.outbound.charge(0, started.elapsed());
    // Not every use writes, but those that do are in the index now.
    state.announce_write(repo.did()).await;
    done.map_err(|error| grant_fault(state, function, error))
}

fn grant_fault(state: &mut RunState, function: &str, error: GrantError) -> Fault {
    let message = format!("{function}: {error}");
    match error {
        // Not the answer of an ended session: the caller can't renew one of the repo's owner.
        GrantError::Pending | GrantError::NeedsReauth(_) => fault::new(FaultCode::NoSession, message),
        GrantError::Pds(error) if error.has_ended() => fault::new(FaultCode::NoSession, message),
        GrantError::Pds(error) => repo::pds_fault(state, function, error),
        GrantError::Record(invalid) => repo::invalid_fault(state, function, invalid),
        GrantError::Store(error) => database(&error),
        GrantError::Unknown | GrantError::Scope(_) => fault::forbidden(message),
        GrantError::Invalid(_) => fault::new(FaultCode::BadInput, message),
    }
}
