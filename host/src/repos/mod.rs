//! Writes to users' repos: sends a write to the PDS and mirrors the result in the index. Scripts and procedures write
//! records through this room.

pub mod caller_session;
pub mod linked;

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;

use crate::atproto::{Cid, Did, Nsid, RecordUri, Tid, record};
use crate::fair_share::Tenant;
use crate::indexing::WriterHandle;
use crate::lexicons::Registry;
use crate::net;
use crate::pds::{Agent, CommitResult, PdsPools, Session, SessionSelector, Sessions, Write, WriteAction};
use crate::store::index::{Change, Delete, Upsert};
use crate::store::records::{FullRecordRow, Slice, delete, get_many_full, latest_rev};
use crate::store::{Db, StoreError};
use crate::trigger::{ScriptBindings, TriggerKind};

/// How long a run waits for the index's writer. It commits within milliseconds unless the database is slow.
const WRITER_PATIENCE: Duration = Duration::from_secs(5);

/// Reads and writes records for scripts (`Record` in the script API) and procedures. Cheap to clone.
#[derive(Clone)]
pub struct Repos(Arc<Inner>);

struct Inner {
    db: Db,
    registry: Arc<Registry>,
    scripts: Arc<dyn ScriptBindings>,
    sessions: Sessions,
    net: net::Client,
    places: PdsPools,
    writer: OnceLock<WriterHandle>,
}

impl fmt::Debug for Repos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Repos")
    }
}

/// The result of a write to a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenRecord {
    pub uri: RecordUri,
    /// `None` when it was deleted.
    pub cid: Option<Cid>,
}

/// Why a record was not stored in the index.
#[derive(Debug, thiserror::Error)]
pub enum LocalError {
    #[error("the index can't store the record at present")]
    NoWriter,
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Repos {
    pub fn new(
        db: Db,
        registry: Arc<Registry>,
        scripts: Arc<dyn ScriptBindings>,
        sessions: Sessions,
        net: net::Client,
    ) -> Self {
        let (places, writer) = (PdsPools::default(), OnceLock::new());
        Self(Arc::new(Inner { db, registry, scripts, sessions, net, places, writer }))
    }

    /// Sets the index's writer. It is set after construction, because event scripts use `Repos` and start before the
    /// stream that owns the writer.
    pub fn attach(&self, writer: WriterHandle) {
        // There is one stream, so a second writer is ignored.
        let _ = self.0.writer.set(writer);
    }

    /// Finds a session.
    ///
    /// # Errors
    /// When the sessions can't be read.
    pub async fn session(&self, which: SessionSelector<'_>) -> Result<Option<Arc<Session>>, StoreError> {
        self.0.sessions.find(which).await
    }

    /// An agent that calls the session's PDS and counts against the share of `tenant`.
    pub fn agent<'a>(&'a self, session: &'a Session, tenant: &'a Tenant) -> Agent<'a> {
        Agent::new(&self.0.net, session, &self.0.places, tenant)
    }

    /// The record schema of a collection's lexicon, as JSON text.
    pub fn schema(&self, collection: &Nsid) -> Option<Bytes> {
        self.0.registry.snapshot().record_schema(collection.as_str())
    }

    /// Reads those of `uris` that are in the index, up to `bytes` bytes.
    pub async fn load(&self, uris: &[RecordUri], bytes: usize) -> Result<Slice<FullRecordRow>, StoreError> {
        get_many_full(&self.0.db, uris, bytes).await
    }

    /// Mirrors `writes` to `repo` in the index, as the PDS has reported them in `committed`. Returns the record of each
    /// write; `None` when neither the write nor the PDS names it. A reported record that does not fit its write is not
    /// mirrored (invariant 5).
    pub async fn mirror_writes(
        &self,
        repo: &Did,
        writes: &[Write],
        committed: CommitResult,
    ) -> Vec<Option<WrittenRecord>> {
        let mut all = Vec::with_capacity(writes.len());
        for (write, reported) in writes.iter().zip(committed.records) {
            let fits = write.fits(repo, reported.as_ref());
            let Write { collection, rkey, action, .. } = write;
            let written = match (reported, rkey) {
                (Some((uri, cid)), _) => Some(WrittenRecord { uri, cid: Some(cid) }),
                (None, Some(rkey)) => {
                    let (did, collection, rkey) = (repo.clone(), collection.clone(), rkey.clone());
                    Some(WrittenRecord { uri: RecordUri { did, collection, rkey }, cid: None })
                }
                (None, None) => None,
            };
            if let Some(WrittenRecord { uri, cid }) = &written
                && fits
            {
                self.mirror(uri.clone(), action, *cid, committed.rev).await;
            }
            all.push(written);
        }
        all
    }

    /// Writes to the index what the PDS has accepted, so that the caller can read it immediately. The same write from
    /// the stream has the same `rev` and changes nothing. When an event script decides about such records, the index
    /// waits for the stream and the script. An untracked collection is not mirrored, because later changes would be
    /// missed.
    async fn mirror(&self, uri: RecordUri, action: &WriteAction, cid: Option<Cid>, rev: Option<Tid>) {
        let kind = match action {
            WriteAction::Create(_) => TriggerKind::RecordCreate,
            WriteAction::Put(_) => TriggerKind::RecordUpdate,
            WriteAction::Delete => TriggerKind::RecordDelete,
        };
        let inner = &self.0;
        let collection = uri.collection.as_str();
        if !inner.registry.snapshot().is_tracked(collection)
            || inner.scripts.has_record_script(collection, kind)
        {
            return;
        }
        if let Err(error) = self.write_to_index(&uri, action, cid, rev).await {
            tracing::warn!(%uri, %error, "a write could not be mirrored; it is indexed when the stream delivers it");
        }
    }

    async fn write_to_index(
        &self,
        uri: &RecordUri,
        action: &WriteAction,
        cid: Option<Cid>,
        rev: Option<Tid>,
    ) -> Result<(), LocalError> {
        let rev = match rev {
            Some(rev) => rev,
            None => self.local_rev(uri).await?,
        };
        match action {
            WriteAction::Create(record) | WriteAction::Put(record) => {
                let Ok(inspected) = record::inspect(record) else { return Ok(()) };
                if cid.is_none() || inspected.cid.ok() != cid {
                    // The PDS stored a different record than was sent; the stream delivers that one.
                    return Ok(());
                }
                self.submit(upsert(uri, rev, cid, record, inspected.refs)).await
            }
            WriteAction::Delete => {
                let RecordUri { did, collection, rkey } = uri.clone();
                self.submit(Change::Delete(Delete { did, collection, rkey, rev })).await
            }
        }
    }

    /// Stores a record in the index only, without a write to a repo. `refs` are its references. Any later event for the
    /// record overwrites it.
    pub async fn save_local(
        &self,
        uri: &RecordUri,
        record: &Bytes,
        refs: Vec<String>,
    ) -> Result<(), LocalError> {
        let rev = self.local_rev(uri).await?;
        self.submit(upsert(uri, rev, None, record, refs)).await
    }

    /// Deletes a record from the index only; a later event or a backfill restores it. Returns whether it existed.
    pub async fn delete_local(&self, uri: &RecordUri) -> Result<bool, StoreError> {
        delete(&self.0.db, uri).await
    }

    /// A `rev` one step above the record's latest in the index: it overwrites that, and stays below the `rev`s of later
    /// commits, which are at least a microsecond (1024 steps) apart.
    async fn local_rev(&self, uri: &RecordUri) -> Result<Tid, StoreError> {
        let next = latest_rev(&self.0.db, uri).await?.unwrap_or_default() + 1;
        Tid::new(next >> 10, (next & 0x3ff) as u16).map_err(|error| StoreError::Corrupt(error.to_string()))
    }

    async fn submit(&self, change: Change) -> Result<(), LocalError> {
        let writer = self.0.writer.get().ok_or(LocalError::NoWriter)?;
        match tokio::time::timeout(WRITER_PATIENCE, writer.submit(change)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(LocalError::NoWriter),
        }
    }
}

fn upsert(uri: &RecordUri, rev: Tid, cid: Option<Cid>, record: &Bytes, refs: Vec<String>) -> Change {
    let RecordUri { did, collection, rkey } = uri.clone();
    let cid_verified = cid.is_some();
    Change::Upsert(Upsert { did, collection, rkey, rev, cid, cid_verified, record: record.clone(), refs })
}
