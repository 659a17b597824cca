//! Lets a run write to one linked repo. The grant is read from the store for each use, so that a revoked one stops
//! working immediately.

use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;

use super::{ACTIVE, LinkedRepos, PENDING, collection};
use crate::pds::{Agent, InvalidCall, PdsError, Session, StandardCall, Write, WriteAction};
use crate::repos::{InvalidWrite, RecordScripts, Validation};
use belvedere_protocol::atproto::scope::{Need, RepoAction, Scopes};
use belvedere_protocol::atproto::{Cid, Did, Nsid, RecordKey, RecordUri, set_record_type};
use belvedere_protocol::trigger::TriggerKind;
use belvedere_storage::store::StoreError;
use belvedere_storage::store::linked_repos::{self, GrantRow};
use belvedere_web::fair_share::Tenant;

/// The run that uses a linked repo: its script, and whether it has a caller.
#[derive(Clone, Copy, Debug)]
pub struct GrantUser<'a> {
    pub trigger: &'a str,
    pub kind: TriggerKind,
    pub has_caller: bool,
    /// The tenant whose share the calls take.
    pub tenant: &'a Tenant,
}

/// An authorized grant that the run may use, with its session.
#[derive(Debug)]
pub struct LinkedRepo {
    grants: LinkedRepos,
    grant: GrantRow,
    scopes: Scopes,
    session: std::sync::Arc<Session>,
    tenant: Tenant,
    record_scripts: RecordScripts,
}

/// The reason why a use of a linked repo failed.
#[derive(Debug, thiserror::Error)]
pub enum GrantError {
    #[error("no linked repo for this account")]
    Unknown,
    #[error("the linked repo has not been authorized yet")]
    Pending,
    #[error("the linked repo needs to be authorized again: {0}")]
    NeedsReauth(String),
    #[error("the grant does not allow that: it lacks the scope {0}")]
    Scope(String),
    #[error("{0}")]
    Invalid(String),
    #[error(transparent)]
    Record(#[from] InvalidWrite),
    #[error(transparent)]
    Pds(#[from] PdsError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl GrantUser<'_> {
    /// Whether this run may use a grant: when the grant lists scripts, its script has to be among them; otherwise every
    /// run may, except of queries without an authenticated caller.
    pub(super) fn may_use(&self, grant: &GrantRow) -> bool {
        if grant.scripts.is_empty() {
            return self.has_caller || !self.kind.only_reads();
        }
        grant.scripts.iter().any(|trigger| trigger == self.trigger)
    }
}

impl LinkedRepos {
    /// Opens the linked repo of an account.
    ///
    /// # Errors
    /// When the run may use no such repo, or it has no valid session.
    pub async fn open(&self, did: &Did, runner: &GrantUser<'_>) -> Result<LinkedRepo, GrantError> {
        let grant = self.find(did, runner).await?.ok_or(GrantError::Unknown)?;
        match grant.status.as_str() {
            ACTIVE => {}
            PENDING => return Err(GrantError::Pending),
            _ => return Err(GrantError::NeedsReauth(grant.last_error.unwrap_or_default())),
        }
        let session = match &grant.session_id {
            Some(id) => self.0.vault.by_id(id).await?,
            None => None,
        };
        let Some(session) = session else {
            let why = "its session has ended";
            linked_repos::mark_needs_reauth(&self.0.db, &grant.id, grant.session_id.as_deref(), why).await?;
            return Err(GrantError::NeedsReauth(why.to_owned()));
        };
        let scopes = grant.scopes.parse().unwrap_or_default();
        let tenant = runner.tenant.clone();
        let record_scripts = if runner.has_caller { RecordScripts::Now } else { RecordScripts::FromStream };
        Ok(LinkedRepo {
            grants: self.clone(),
            grant,
            scopes,
            session: session.into(),
            tenant,
            record_scripts,
        })
    }
}

impl LinkedRepos {
    /// The write that creates a record, as JSON text, with the key that its lexicon fixes if none is named.
    ///
    /// # Errors
    /// When an argument or the record is invalid.
    pub fn creation(
        &self,
        nsid: &str,
        rkey: Option<&str>,
        record: &[u8],
        validation: Validation,
    ) -> Result<Write, GrantError> {
        let collection = collection(nsid)?;
        let rkey = self.0.repos.key_of_new(&collection, rkey.map(parse_rkey).transpose()?);
        let action = WriteAction::Create(typed(&collection, record)?);
        self.checked(Write { collection, rkey, action, swap: None }, validation)
    }

    /// The write that creates or replaces a record; with `swap`, replaces only the record with that CID.
    ///
    /// # Errors
    /// As [`Self::creation`].
    pub fn put(
        &self,
        nsid: &str,
        rkey: &str,
        record: &[u8],
        swap: Option<String>,
        validation: Validation,
    ) -> Result<Write, GrantError> {
        let collection = collection(nsid)?;
        let rkey = Some(parse_rkey(rkey)?);
        let action = WriteAction::Put(typed(&collection, record)?);
        self.checked(Write { collection, rkey, action, swap }, validation)
    }

    /// The write that deletes a record.
    ///
    /// # Errors
    /// When an argument is invalid.
    pub fn deletion(nsid: &str, rkey: &str) -> Result<Write, GrantError> {
        let (collection, rkey) = (collection(nsid)?, Some(parse_rkey(rkey)?));
        Ok(Write { collection, rkey, action: WriteAction::Delete, swap: None })
    }

    fn checked(&self, write: Write, validation: Validation) -> Result<Write, GrantError> {
        self.0.repos.check_writes(std::slice::from_ref(&write), validation)?;
        Ok(write)
    }
}

impl LinkedRepo {
    /// The account that owns the repo.
    pub fn did(&self) -> &Did {
        &self.session.did
    }

    fn agent(&self, max_wait: Duration) -> Agent<'_> {
        self.grants.0.repos.agent(&self.session, &self.tenant).within(max_wait)
    }

    fn needs_repo(&self, nsid: &Nsid, action: RepoAction) -> Result<(), GrantError> {
        if self.scopes.allows(&Need::Repo { collection: Some(nsid.as_str()), action }) {
            return Ok(());
        }
        Err(GrantError::Scope(format!("repo:{nsid}?action={}", action.as_str())))
    }

    /// Makes a write, unless the grant does not allow it. Returns URI and CID of the record; `None` when it was deleted, or
    /// did not exist.
    ///
    /// # Errors
    /// When the grant does not allow it, before anything is sent; when the PDS refuses or does not answer.
    pub async fn write(
        &self,
        write: &Write,
        max_wait: Duration,
    ) -> Result<Option<(RecordUri, Cid)>, GrantError> {
        for &action in write.actions(false) {
            self.needs_repo(&write.collection, action)?;
        }
        let answer = self.agent(max_wait).write(write).await;
        let committed = match self.store_if_ended(answer).await {
            Err(GrantError::Pds(PdsError::Refused(refusal)))
                if refusal.is_not_found() && matches!(write.action, WriteAction::Delete) =>
            {
                return Ok(None);
            }
            other => other?,
        };
        let repos = &self.grants.0.repos;
        let written = repos
            .mirror_writes(&self.session.did, std::slice::from_ref(write), committed, self.record_scripts)
            .await;
        Ok(written.into_iter().flatten().find_map(|written| Some((written.uri, written.cid?))))
    }

    /// Uploads a blob. Returns the body of the PDS's response, unchanged.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub async fn upload(&self, bytes: Bytes, mime: &str, max_wait: Duration) -> Result<Bytes, GrantError> {
        let kind = mime.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        if !self.scopes.allows(&Need::Blob { kind: &kind }) {
            return Err(GrantError::Scope(format!("blob:{kind}")));
        }
        let answer = self.agent(max_wait).upload_blob(bytes, mime).await;
        self.store_if_ended(answer).await
    }

    /// Calls any method of the PDS. Returns the body of the response, unchanged. Only the PDS checks the session's
    /// scopes. The records of methods that write are validated, unless the input has `validate: false`.
    ///
    /// # Errors
    /// When a record is invalid; when the PDS refuses or does not answer.
    pub async fn call(
        &self,
        nsid: &str,
        query: &str,
        input: Option<Vec<u8>>,
        max_wait: Duration,
    ) -> Result<Bytes, GrantError> {
        let nsid =
            Nsid::try_from(nsid).map_err(|_| GrantError::Invalid(format!("{nsid:?} is not an NSID")))?;
        match StandardCall::read(&nsid, &[], input.as_deref()) {
            Ok(StandardCall::Write(requested)) if requested.validate => {
                self.grants.0.repos.check_writes(&requested.writes, Validation::Lexicon)?;
            }
            Err(error @ InvalidCall::RecordType(_)) => return Err(GrantError::Invalid(error.to_string())),
            // The PDS refuses what is malformed.
            _ => {}
        }
        let method = if query.is_empty() { nsid.to_string() } else { format!("{nsid}?{query}") };
        let answer = match input {
            None => self.agent(max_wait).query(&method).await,
            Some(input) => self.agent(max_wait).procedure(&method, input).await,
        };
        self.store_if_ended(answer).await
    }

    /// Stores that the grant needs a new authorization when the session has ended, and passes the result on.
    async fn store_if_ended<T>(&self, answer: Result<T, PdsError>) -> Result<T, GrantError> {
        if let Err(error) = &answer
            && error.has_ended()
        {
            let (db, session) = (&self.grants.0.db, self.grant.session_id.as_deref());
            linked_repos::mark_needs_reauth(db, &self.grant.id, session, "its session has ended").await?;
        }
        Ok(answer?)
    }
}

fn parse_rkey(text: &str) -> Result<RecordKey, GrantError> {
    RecordKey::try_from(text).map_err(|_| GrantError::Invalid(format!("{text:?} is not a record key")))
}

/// Adds `$type` to a record. Returns its text.
fn typed(nsid: &Nsid, record: &[u8]) -> Result<Bytes, GrantError> {
    let value = serde_json::from_slice(record);
    let Value::Object(mut fields) = value.map_err(|error| GrantError::Invalid(error.to_string()))? else {
        return Err(GrantError::Invalid("the record is not a table with fields".to_owned()));
    };
    set_record_type(&mut fields, nsid.as_str()).map_err(|error| GrantError::Invalid(error.to_string()))?;
    Ok(Value::Object(fields).to_string().into())
}
