//! `repo`: reads schemas and records, and writes to the caller's repo and to the index. The host enforces that a write
//! goes to one repo, and only to records of that repo.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;

use super::arguments::{check_lengths, space};
use super::state::RunState;
use super::{Refusal, fault, handles, log, report, space_records};
use crate::scripts::bindings::belvedere::script::repo::{Host, Loaded, Write as WitWrite, Written};
use crate::scripts::bindings::belvedere::script::types::{Fault, FaultCode};
use crate::scripts::dry_run::{DryRun, DryWrite};
use crate::scripts::failure::FailureAnswer;
use crate::scripts::limits;
use crate::scripts::services::LogLevel;
use belvedere_instance::pds::{self, CommitResult, PdsError, WriteAction};
use belvedere_instance::repos::{InvalidWrite, LocalError, RecordScripts, Repos, Validation, caller_session};
use belvedere_instance::xrpc::Answer;
use belvedere_protocol::atproto::space_uri::is_in_space;
use belvedere_protocol::atproto::{Did, Nsid, RecordKey, RecordUri};
use belvedere_protocol::spaces::{RecordPath, SpaceRecordUri, SpaceUri};
use belvedere_storage::store::StoreError;

impl Host for RunState {
    async fn schema(&mut self, collection: String) -> Result<Vec<u8>, Refusal> {
        let repos = repos(self)?;
        Ok(repos.schema(&parse_collection(&collection)?).map_or_else(|| b"null".to_vec(), Vec::from))
    }

    async fn load(&mut self, uris: Vec<String>) -> Result<Vec<Loaded>, Refusal> {
        let repos = repos(self)?;
        if uris.len() > limits::LOAD_URIS {
            let max = limits::LOAD_URIS;
            let message = format!("Record.load_all: at most {max} URIs at once");
            return Err(fault::new(FaultCode::Limit, message).into());
        }
        let max_bytes = limits::LOAD_BYTES.min(usize::try_from(self.row_bytes_left()).unwrap_or(usize::MAX));
        let (mut public, mut found, mut bytes) = (Vec::with_capacity(uris.len()), Vec::new(), 0);
        for (position, uri) in uris.into_iter().enumerate() {
            if is_in_space(&uri) {
                let loaded = space_records::load(self, position as u32, uri).await?;
                bytes += loaded.as_ref().map_or(0, |loaded| loaded.value.len());
                if bytes > max_bytes {
                    return Err(too_large(max_bytes).into());
                }
                found.extend(loaded);
            } else {
                let uri = handles::without_handle(self, "Record", uri).await?;
                public.push((position, parse_uri(&uri)?));
            }
        }
        let uris: Vec<RecordUri> = public.iter().map(|(_, uri)| uri.clone()).collect();
        let loaded = repos.load(&uris, max_bytes - bytes).await.map_err(|error| database(&error))?;
        if loaded.next.is_some() {
            return Err(too_large(max_bytes).into());
        }
        let rows = loaded.rows;
        self.count_rows(rows.len(), rows.iter().map(|full| full.row.record.len()).sum())?;
        for (position, uri) in &public {
            let is_it = |row: &belvedere_storage::store::records::RecordRow| {
                row.did == uri.did.as_str()
                    && row.rkey == uri.rkey.as_str()
                    && row.collection == uri.collection
            };
            let Some(full) = rows.iter().find(|full| is_it(&full.row)) else { continue };
            found.push(Loaded {
                position: *position as u32,
                uri: full.row.uri(),
                space: None,
                cid: full.row.cid.map(|cid| cid.to_string()),
                value: full.row.record.to_vec(),
            });
        }
        Ok(found)
    }

    async fn save(&mut self, writes: Vec<WitWrite>, validate: bool) -> Result<Vec<Written>, Refusal> {
        if let Some(space) = common_space(&writes)? {
            let author = space_records::author(self)?;
            let writes = check_all(self, writes, &author, Some(&space))?;
            return Ok(space_records::save(self, &space, &author, writes, validate).await?);
        }
        let validation = Validation::of(validate);
        let repos = repos(self)?;
        let author = match self.dry_run_account() {
            Some((dry_run, account)) => Author::DryRun(dry_run, account),
            None => Author::Session(self.session("Record")?),
        };
        let writes = check_all(self, writes, author.did(), None)?;
        repos.check_writes(&writes, validation).map_err(|invalid| invalid_fault(self, "Record", invalid))?;
        let session = match author {
            Author::Session(session) => session,
            Author::DryRun(dry_run, account) => return Ok(report::commit(self, &dry_run, &account, &writes)),
        };
        let committed = send(self, &repos, &session, &writes).await?;
        let mut written = Vec::with_capacity(writes.len());
        let mirrored = repos.mirror_writes(&session.did, &writes, committed, RecordScripts::Now).await;
        self.announce_write(&session.did).await;
        for (write, done) in writes.iter().zip(mirrored) {
            let Some(done) = done else { continue };
            let deleted = matches!(write.action, WriteAction::Delete);
            written.push(Written {
                uri: (!deleted).then(|| done.uri.to_string()),
                cid: done.cid.map(|cid| cid.to_string()),
            });
        }
        Ok(written)
    }

    async fn save_local(&mut self, write: WitWrite, validate: bool) -> Result<Written, Refusal> {
        let validation = Validation::of(validate);
        let repos = repos(self)?;
        if write.space.is_some() {
            return Err(bad("Record:save_local: records in spaces are not in the index").into());
        }
        let (target, pds::Write { collection, rkey, action, .. }) = check(self, write, None)?;
        let (WriteAction::Create(value) | WriteAction::Put(value)) = action else {
            return Err(bad("Record:save_local: there is no record").into());
        };
        let Some(rkey) = rkey else { return Err(bad("Record:save_local: the record key is missing").into()) };
        let uri = RecordUri { did: target, collection, rkey };
        let inspected = repos
            .check_local(&uri, &value, validation)
            .map_err(|invalid| invalid_fault(self, "Record:save_local", invalid))?;
        if let Some(dry_run) = self.dry_run() {
            dry_run.write(&DryWrite::IndexSave { uri: uri.to_string(), record: report::json(&value) });
            return Ok(Written { uri: Some(uri.to_string()), cid: None });
        }
        repos.save_local(&uri, value, inspected).await.map_err(|error| match error {
            LocalError::Store(error) => database(&error),
            LocalError::NoWriter => fault::new(FaultCode::Unavailable, format!("Record:save_local: {error}")),
        })?;
        self.announce_write(&uri.did).await;
        Ok(Written { uri: Some(uri.to_string()), cid: None })
    }

    async fn validate(&mut self, collection: String, value: Vec<u8>) -> Result<(), Refusal> {
        let repos = repos(self)?;
        let collection = parse_collection(&collection)?;
        let value = with_arrays(self, collection.as_str(), value);
        let write = pds::Write { collection, rkey: None, action: WriteAction::Create(value), swap: None };
        let checked = repos.check_writes(&[write], Validation::Lexicon);
        Ok(checked.map_err(|invalid| invalid_fault(self, "Record", invalid))?)
    }

    /// Writes the line for the operator. It does not count as one of the script's own.
    async fn log_left_out(&mut self, collection: String, fields: Vec<String>) -> Result<(), Refusal> {
        self.count_call()?;
        let fields = fields.join(", ");
        let line =
            format!("Record: fields that the lexicon {collection} does not declare were left out: {fields}");
        log::write_line(self, LogLevel::Debug, line.into_bytes());
        Ok(())
    }

    async fn delete_local(&mut self, uri: String, repo: Option<String>) -> Result<bool, Refusal> {
        let repos = repos(self)?;
        let uri = parse_uri(&uri)?;
        check_owner(&uri, &uri.did, &target(self, repo.as_deref())?)?;
        self.writes.add(1, 0)?;
        if let Some(dry_run) = self.dry_run() {
            dry_run.write(&DryWrite::IndexDelete { uri: uri.to_string() });
            let found = repos.load(std::slice::from_ref(&uri), limits::LOAD_BYTES).await;
            return Ok(!found.map_err(|error| database(&error))?.rows.is_empty());
        }
        let existed = repos.delete_local(&uri).await.map_err(|error| database(&error))?;
        self.announce_write(&uri.did).await;
        Ok(existed)
    }
}

fn bad(message: impl Into<String>) -> Fault {
    fault::new(FaultCode::BadInput, message)
}

fn repos(state: &mut RunState) -> Result<Repos, Fault> {
    state.service("Record", |services| services.repos.clone())
}

fn parse_collection(text: &str) -> Result<Nsid, Fault> {
    Nsid::try_from(text).map_err(|_| bad(format!("Record: collection {text:?} is not an NSID")))
}

fn parse_uri(text: &str) -> Result<RecordUri, Fault> {
    RecordUri::parse(text).map_err(|error| bad(format!("Record: {text:?} is {error}")))
}

fn too_large(max_bytes: usize) -> Fault {
    let message =
        format!("Record.load_all: the records are larger than {max_bytes} bytes: load fewer at once");
    fault::new(FaultCode::Limit, message)
}

fn database(error: &StoreError) -> Fault {
    tracing::error!(function = "Record", %error, "a script's database request failed");
    fault::new(FaultCode::Unavailable, "Record: database unavailable")
}

/// The record with `[]` for each empty table that its collection's lexicon declares as an array. In Lua an empty table is
/// both an empty array and an empty object.
pub(super) fn with_arrays(state: &RunState, collection: &str, value: Vec<u8>) -> Bytes {
    match state.repos() {
        Some(repos) => repos.record_with_arrays(collection, value.into()),
        None => value.into(),
    }
}

/// Checks the writes of a commit by `author`, in `space` if there is one.
fn check_all(
    state: &mut RunState,
    writes: Vec<WitWrite>,
    author: &Did,
    space: Option<&SpaceUri>,
) -> Result<Vec<pds::Write>, Fault> {
    if writes.len() > pds::MAX_WRITES {
        return Err(fault::limit("too many records in one commit", pds::MAX_WRITES));
    }
    let mut checked = Vec::with_capacity(writes.len());
    for write in writes {
        let (target, write) = check(state, write, space)?;
        if target != *author {
            return Err(fault::forbidden(format!("Record: this run may not write to the repo of {target}")));
        }
        checked.push(write);
    }
    Ok(checked)
}

/// Checks that the record and the target of a write belong together. Returns the target.
fn check(
    state: &mut RunState,
    write: WitWrite,
    space: Option<&SpaceUri>,
) -> Result<(Did, pds::Write), Fault> {
    let target = target(state, write.repo.as_deref())?;
    let collection = parse_collection(&write.collection)?;
    let rkey = match (&write.uri, write.rkey) {
        (Some(uri), _) => {
            let (author, path) = author_and_path(uri, space)?;
            check_owner(uri, &author, &target)?;
            if path.collection != collection {
                return Err(bad(format!("Record: {uri} is not of the collection {collection}")));
            }
            Some(path.rkey)
        }
        (None, Some(text)) => {
            let rkey = RecordKey::try_from(text.as_str());
            Some(rkey.map_err(|_| bad(format!("Record: {text:?} is not a record key")))?)
        }
        (None, None) => None,
    };
    let value = write.value.map(|value| with_arrays(state, collection.as_str(), value));
    state.writes.add(1, value.as_ref().map_or(0, Bytes::len))?;
    let action = match (write.uri, value) {
        (None, Some(value)) => WriteAction::Create(value),
        (Some(_), Some(value)) => WriteAction::Put(value),
        (Some(_), None) => WriteAction::Delete,
        (None, None) => return Err(bad("Record: a record that is not saved can't be deleted")),
    };
    Ok((target, pds::Write { collection, rkey, action, swap: write.swap }))
}

/// The space that all writes of a commit go to; `None` for those to a repo.
fn common_space(writes: &[WitWrite]) -> Result<Option<SpaceUri>, Fault> {
    let first = writes.first().and_then(|write| write.space.as_ref());
    check_lengths("Record", &[first])?;
    if writes.iter().any(|write| write.space.as_ref() != first) {
        return Err(bad("Record: the records of one commit must be in one space, or none of them in any"));
    }
    first.map(|uri| space("Record", uri)).transpose()
}

/// The author of the record at an address, and its place in the author's repo: that in `space`, if there is one.
fn author_and_path(uri: &str, space: Option<&SpaceUri>) -> Result<(Did, RecordPath), Fault> {
    let Some(space) = space else {
        let RecordUri { did, collection, rkey } = parse_uri(uri)?;
        return Ok((did, RecordPath { collection, rkey }));
    };
    let found = SpaceRecordUri::parse(uri).map_err(|error| bad(format!("Record: {uri:?} is {error}")))?;
    if found.space != *space {
        return Err(bad(format!("Record: {uri} is not in {space}")));
    }
    Ok((found.author, found.path))
}

/// The repo that a write is for: the one the script names, or else that of the account the caller writes for, which is
/// the caller unless the run has a `delegate_did`.
fn target(state: &RunState, named: Option<&str>) -> Result<Did, Fault> {
    if let Some(text) = named {
        return Did::try_from(text).map_err(|_| bad(format!("Record: {text:?} is not a DID")));
    }
    let own = state.info.delegate.as_ref().or(state.info.caller.did.as_ref());
    own.cloned().ok_or_else(|| bad("Record: there is no caller; name the record's repo with set_repo()"))
}

/// Refuses to write a record of another account, whatever URI the script passed.
fn check_owner(uri: &impl fmt::Display, author: &Did, target: &Did) -> Result<(), Fault> {
    if author == target {
        return Ok(());
    }
    Err(fault::forbidden(format!("Record: {uri} is not a record of {target}")))
}

/// The author of a write: the account of a session, or in a dry run the account that would have one.
enum Author {
    Session(Arc<pds::Session>),
    DryRun(DryRun, Did),
}

impl Author {
    fn did(&self) -> &Did {
        match self {
            Self::Session(session) => &session.did,
            Self::DryRun(_, account) => account,
        }
    }
}

/// Sends one write by its own method, several in one commit.
async fn send(
    state: &mut RunState,
    repos: &Repos,
    session: &pds::Session,
    writes: &[pds::Write],
) -> Result<CommitResult, Fault> {
    state.outbound.count(1)?;
    let tenant = state.tenant().clone();
    let agent = repos.agent(session, &tenant).within(state.outbound.time_left()?);
    let started = Instant::now();
    let answer = match writes {
        [single] => agent.write(single).await,
        several => agent.apply_writes(several).await,
    };
    state.outbound.charge(0, started.elapsed());
    let committed = match answer {
        Err(PdsError::Refused(refusal))
            if refusal.is_not_found()
                && matches!(writes, [pds::Write { action: WriteAction::Delete, .. }]) =>
        {
            // The record to delete does not exist.
            CommitResult { rev: None, records: vec![None] }
        }
        other => other.map_err(|error| pds_fault(state, "Record", error))?,
    };
    let mut records = writes.iter().zip(&committed.records);
    let as_requested = records.all(|(write, record)| write.fits(&session.did, record.as_ref()));
    if !as_requested {
        let error = PdsError::Malformed("it wrote something else than requested".to_owned());
        return Err(pds_fault(state, "Record", error));
    }
    Ok(committed)
}

/// Maps the failure of a PDS call to a fault. Its answer is the one that the caller gets from a method without a script.
pub(super) fn pds_fault(state: &mut RunState, function: &str, error: PdsError) -> Fault {
    let message = format!("{function}: {error}");
    let (code, status) = match &error {
        PdsError::Refused(refusal) => (FaultCode::Upstream, Some(refusal.status.as_u16())),
        PdsError::Net(error) => (fault::no_response(error).code, None),
        PdsError::Malformed(_) => (FaultCode::Upstream, None),
        PdsError::Credential | PdsError::Ended | PdsError::Moved => (FaultCode::NoSession, None),
        PdsError::Busy(_) | PdsError::Renewal(_) | PdsError::Unresolved(_) | PdsError::Store(_) => {
            (FaultCode::Unavailable, None)
        }
    };
    let answer = match caller_session::failed(error) {
        Ok(answer) => Some(FailureAnswer::Upstream(answer)),
        // An error of ours is a failure of the script: its cause is logged with it.
        Err(error) if error.cause.is_some() => None,
        Err(error) => Some(FailureAnswer::Own(Answer::of_error(&error))),
    };
    Fault { code, message, status, answer: answer.map(|answer| state.keep_answer(answer)) }
}

/// The fault of a record that must not be written. Its answer is the one that the caller gets from a procedure without a
/// script.
pub(super) fn invalid_fault(state: &mut RunState, function: &str, invalid: InvalidWrite) -> Fault {
    let message = format!("{function}: {invalid}");
    let answer = state.keep_answer(FailureAnswer::Own(Answer::of_error(&invalid.into())));
    Fault { answer: Some(answer), ..fault::new(FaultCode::BadInput, message) }
}
