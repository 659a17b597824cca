//! Writes to the caller's own repo in a space (spaces.md §5.2).

use bytes::Bytes;
use serde_json::{Map, Value};

use super::access::Membership;
use super::{Account, SpaceError, Spaces, Viewer};
use belvedere_base::hand_over_thread::hand_over_thread;
use belvedere_protocol::atproto::record;
use belvedere_protocol::atproto::{Cid, Did, Nsid, RecordKey, Tid, blobs, set_record_type};
use belvedere_protocol::spaces::app_gate::RecordCall;
use belvedere_protocol::spaces::config::SpaceConfig;
use belvedere_protocol::spaces::{RecordPath, SpaceUri};
use belvedere_storage::store::spaces::SpaceId;
use belvedere_storage::store::spaces::space::{self, SpaceRow};
use belvedere_storage::store::spaces::writes::{self, Batch, NewRecord, Precondition, Refused, Write};

/// Spaces of other hosts in which one account may have a repo here.
const MAX_OTHER_SPACES: u64 = 1_000;

/// A write to one record.
#[derive(Clone, Debug)]
pub struct RecordWrite {
    pub kind: WriteKind,
    pub collection: Nsid,
    /// `None`: a new TID, for a record that is created.
    pub rkey: Option<RecordKey>,
    /// The fields of the record; `None` deletes it.
    pub record: Option<Map<String, Value>>,
    /// The version that the write replaces or deletes.
    pub swap: Option<Cid>,
}

/// The action of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteKind {
    /// The record must not exist.
    Create,
    /// Creates the record or replaces it.
    Put,
    /// The record must exist.
    Update,
    /// The record must exist.
    Delete,
}

/// A batch of writes.
#[derive(Clone, Debug)]
pub struct WriteRequest {
    /// The repo that the call names; it must be the caller's.
    pub repo: Option<Did>,
    pub writes: Vec<RecordWrite>,
    /// The rev that the space must have.
    pub swap_commit: Option<String>,
    /// Whether records must match their lexicons, if they are here. `None` counts as yes.
    pub validate: Option<bool>,
}

/// A batch that was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The rev of the repo.
    pub rev: Option<Tid>,
    pub repo: Did,
    pub records: Vec<WrittenRecord>,
}

/// A record that was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenRecord {
    pub path: RecordPath,
    /// `None` for a deleted one.
    pub cid: Option<Cid>,
    /// Whether it was compared with the lexicon of its collection.
    pub is_validated: bool,
}

/// The space that a batch goes to.
struct Target {
    /// `None` for a space of another host that is not known yet.
    id: Option<SpaceId>,
    is_writer: bool,
    config: SpaceConfig,
}

impl Spaces {
    /// Writes to the caller's repo, all or nothing, with one rev.
    ///
    /// # Errors
    /// 403 for a caller, or an app, that may not write; 400 for a record or a collection that the space does not take; 404 and
    /// 409 when a record is not in the state that the write needs.
    pub async fn write(
        &self,
        uri: &SpaceUri,
        viewer: &Viewer,
        request: WriteRequest,
    ) -> Result<Written, SpaceError> {
        let account = viewer.account()?;
        if request.repo.as_ref().is_some_and(|repo| *repo != account.did) {
            return Err(SpaceError::OtherRepo);
        }
        if request.writes.len() > writes::MAX_WRITES {
            return Err(SpaceError::invalid(Refused::TooManyWrites));
        }
        let target = self.target(uri, account).await?;
        let declared = self.core().registry.snapshot().declared_collections(uri.kind.as_str());
        for write in &request.writes {
            if write.kind != WriteKind::Delete
                && !target.config.allows(&write.collection, declared.as_deref())
            {
                return Err(SpaceError::Collection(write.collection.clone()));
            }
        }
        let kinds = request.writes.iter().map(|write| write.kind).collect();
        let gate = Gate { account, uri, declared: &declared.unwrap_or_default(), kinds };
        let validate = request.validate != Some(false);
        let mut writes = Vec::with_capacity(request.writes.len());
        let mut records = Vec::with_capacity(request.writes.len());
        for (n, write) in request.writes.into_iter().enumerate() {
            let requires = gate.precondition(&write)?;
            let rkey = write.rkey.map_or_else(|| self.new_key(n as u64), Ok)?;
            let path = RecordPath { collection: write.collection, rkey };
            let checked = write.record.map(|fields| self.check(&path, fields, validate)).transpose()?;
            let (record, is_validated) = checked.unzip();
            records.push(WrittenRecord {
                path: path.clone(),
                cid: record.as_ref().map(|record| record.cid),
                is_validated: is_validated.unwrap_or_default(),
            });
            writes.push(Write { path, record, requires });
        }
        let id = match target.id {
            Some(id) => id,
            // The caller has no repo there yet, so that there is nothing to change.
            None if writes.iter().all(|write| write.record.is_none()) => return Err(SpaceError::NoRecord),
            None => self.join_other_host(uri, account).await?,
        };
        // A hosted space accepts only the batches of writers, so this one is of another host.
        if !target.is_writer {
            self.register_authority(id, &uri.did).await?;
        }
        let batch = Batch {
            space: id,
            author: &account.did,
            writes: &writes,
            swap_commit: request.swap_commit.as_deref(),
            is_writer: target.is_writer,
            now: self.core().clock.now(),
        };
        let applied = writes::apply(&self.core().db, &batch).await?;
        let applied = applied.map_err(|refused| gate.refusal(refused, &writes))?;
        self.0.queued.notify_one();
        Ok(Written { rev: applied.rev, repo: account.did.clone(), records })
    }

    /// The space that a batch goes to. In a space of another host, the policy of its writers decides who is listed there, not who
    /// writes to a repo here.
    async fn target(&self, uri: &SpaceUri, account: &Account) -> Result<Target, SpaceError> {
        let known = space::get(&self.core().db, uri).await?;
        let Some(space) = known else {
            // Every space of this instance's DID is here.
            if self.0.identity.did() == uri.did {
                return Err(SpaceError::NoSpace);
            }
            return Ok(Target { id: None, is_writer: false, config: SpaceConfig::default() });
        };
        if space.deleted_at.is_some() {
            return Err(SpaceError::NoSpace);
        }
        let membership = Membership::new(&space, &account.did);
        if space.is_hosted && !self.is_writer(&membership).await? {
            return Err(self
                .refused(&membership, account, "Write access is required for this action")
                .await?);
        }
        let SpaceRow { id, settings, is_hosted, .. } = space;
        Ok(Target { id: Some(id), is_writer: is_hosted, config: settings.config })
    }

    /// Adds a space of another host, for the first repo in it.
    async fn join_other_host(&self, uri: &SpaceUri, account: &Account) -> Result<SpaceId, SpaceError> {
        let (db, now) = (&self.core().db, self.core().clock.now());
        if space::count_of_author(db, &account.did).await? >= MAX_OTHER_SPACES {
            return Err(SpaceError::NotAuthorized("you have repos in as many spaces as one account may"));
        }
        space::of_other_host(db, uri, now).await?.ok_or(SpaceError::NoSpace)
    }

    /// A record as it is stored, and whether it was compared with its lexicon.
    fn check(
        &self,
        path: &RecordPath,
        mut fields: Map<String, Value>,
        validate: bool,
    ) -> Result<(NewRecord, bool), SpaceError> {
        let collection = path.collection.as_str();
        set_record_type(&mut fields, collection).map_err(SpaceError::invalid)?;
        let text = Value::Object(fields).to_string();
        hand_over_thread(text.len(), || {
            let (inspected, cbor) = record::inspect_encoded(text.as_bytes()).map_err(SpaceError::invalid)?;
            let cid = inspected
                .cid
                .map_err(|why| SpaceError::invalid(format!("the record can't be encoded: {why}")))?;
            let snapshot = self.core().registry.snapshot();
            if validate {
                snapshot
                    .check(collection, Some(path.rkey.as_str()), text.as_bytes(), Ok(&cbor))
                    .map_err(|why| SpaceError::Invalid(format!("invalid record: {why}")))?;
            }
            let text = canonical(text, inspected.canonical);
            let record = NewRecord { cid, blobs: blobs::cids(&text), text };
            Ok((record, validate && snapshot.is_tracked(collection)))
        })
    }
}

fn canonical(text: String, canonical: Option<Bytes>) -> String {
    canonical.and_then(|bytes| String::from_utf8(bytes.into()).ok()).unwrap_or(text)
}

/// The scopes of the app that writes.
struct Gate<'a> {
    account: &'a Account,
    uri: &'a SpaceUri,
    declared: &'a [Nsid],
    kinds: Vec<WriteKind>,
}

impl Gate<'_> {
    /// The state in which a write must find its record: what the write says, narrowed to what the app may do. So the scope for
    /// a put is checked against the record in the transaction that writes.
    fn precondition(&self, write: &RecordWrite) -> Result<Precondition, SpaceError> {
        let collection = &write.collection;
        let check = |call| self.account.check_app(call, self.uri, Some(collection), self.declared);
        let swap = write.swap.map_or(Precondition::Present, Precondition::Version);
        match write.kind {
            WriteKind::Create => check(RecordCall::Create).map(|()| Precondition::Absent),
            WriteKind::Update => check(RecordCall::Put { exists: true }).map(|()| swap),
            WriteKind::Delete => check(RecordCall::Delete).map(|()| swap),
            WriteKind::Put if write.swap.is_some() => check(RecordCall::Put { exists: true }).map(|()| swap),
            WriteKind::Put => {
                match (check(RecordCall::Put { exists: false }), check(RecordCall::Put { exists: true })) {
                    (Ok(()), Ok(())) => Ok(Precondition::Any),
                    (Ok(()), Err(_)) => Ok(Precondition::Absent),
                    (Err(_), Ok(())) => Ok(Precondition::Present),
                    (Err(error), Err(_)) => Err(error),
                }
            }
        }
    }

    /// The answer to a refused batch. A put is refused only when the app may not do what it would have done.
    fn refusal(&self, refused: Refused, writes: &[Write]) -> SpaceError {
        let of_put = |n: usize, exists, otherwise| match (self.kinds.get(n), writes.get(n)) {
            (Some(WriteKind::Put), Some(Write { path, .. })) => {
                let put = RecordCall::Put { exists };
                let checked = self.account.check_app(put, self.uri, Some(&path.collection), self.declared);
                checked.err().unwrap_or(otherwise)
            }
            _ => otherwise,
        };
        match refused {
            Refused::NoSpace => SpaceError::NoSpace,
            Refused::OtherCommit => SpaceError::OtherCommit,
            Refused::Exists(n) => of_put(n, true, SpaceError::RecordExists),
            Refused::NotFound(n) => of_put(n, false, SpaceError::NoRecord),
            Refused::OtherVersion(_) => SpaceError::OtherVersion,
            Refused::Elsewhere => SpaceError::Conflict(
                "your repo in this space is at another host, which takes the writes to it",
            ),
            Refused::TooManyWrites | Refused::TooManyRecords | Refused::TooLarge(_) => {
                SpaceError::invalid(refused)
            }
        }
    }
}
