//! Writes to users' repos: sends a write to the PDS and mirrors the result in the index. Scripts and procedures write
//! records through this room.

pub mod caller_session;
pub mod linked;
mod mirror;
mod validation;

pub use mirror::RecordScripts;
pub use validation::{InvalidWrite, Validation};

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;

use crate::core::Core;
use crate::indexing::{RecordScriptRunner, WriterHandle};
use crate::lexicons::Registry;
use crate::pds::{Agent, PdsPools, Session, SessionSelector, Sessions};
use belvedere_protocol::atproto::record::Inspection;
use belvedere_protocol::atproto::{Cid, Nsid, RecordUri, Tid};
use belvedere_storage::store::index::{Change, CheckedRecord, Validity};
use belvedere_storage::store::records::{
    FullRecordRow, Page, Room, delete, get_many_full, latest_rev, tid_of_rev,
};
use belvedere_storage::store::replicas::Writer;
use belvedere_storage::store::{Db, StoreError};
use belvedere_web::fair_share::Tenant;
use belvedere_web::net;

/// Time that a run waits for the index's writer. It commits within milliseconds unless the database is slow.
const WRITER_MAX_WAIT: Duration = Duration::from_secs(5);

/// Reads and writes records for scripts (`Record` in the script API) and procedures. Cheap to clone.
#[derive(Clone)]
pub struct Repos(Arc<Inner>);

struct Inner {
    db: Db,
    registry: Arc<Registry>,
    sessions: Sessions,
    net: net::Client,
    permits: PdsPools,
    index: Mutex<Option<IndexAccess>>,
}

/// The services for writes to the index.
#[derive(Clone)]
struct IndexAccess {
    writer: WriterHandle,
    scripts: Arc<dyn RecordScriptRunner>,
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

/// The reason why a record was not stored in the index.
#[derive(Debug, thiserror::Error)]
pub enum LocalError {
    #[error("the index can't store the record at present")]
    NoWriter,
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Repos {
    pub fn new(core: &Core, sessions: Sessions) -> Self {
        let Core { db, registry, net, .. } = core.clone();
        let (permits, index) = (PdsPools::default(), Mutex::default());
        Self(Arc::new(Inner { db, registry, sessions, net, permits, index }))
    }

    /// Sets the index's writer and the record scripts. They are set after construction, because event scripts use
    /// `Repos` and start before the stream that owns the writer.
    pub fn attach(&self, writer: WriterHandle, scripts: Arc<dyn RecordScriptRunner>) {
        *self.0.index.lock().unwrap_or_else(PoisonError::into_inner) = Some(IndexAccess { writer, scripts });
    }

    /// Ends what [`Self::attach`] has begun. The record scripts use these `Repos`, so that neither is dropped before.
    pub fn detach(&self) {
        *self.0.index.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn index(&self) -> Option<IndexAccess> {
        self.0.index.lock().unwrap_or_else(PoisonError::into_inner).clone()
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
        Agent::new(&self.0.net, session, &self.0.permits, tenant)
    }

    /// The record schema of a collection's lexicon, as JSON text.
    pub fn schema(&self, collection: &Nsid) -> Option<Bytes> {
        self.0.registry.snapshot().record_schema(collection.as_str())
    }

    /// The text of a record, in which `[]` replaces each `{}` that the collection's lexicon declares as an array.
    pub fn record_with_arrays(&self, collection: &str, text: Bytes) -> Bytes {
        self.0.registry.snapshot().record_with_arrays(collection, text)
    }

    /// Reads those of `uris` that are in the index, up to `bytes` bytes.
    pub async fn load(&self, uris: &[RecordUri], bytes: usize) -> Result<Page<FullRecordRow>, StoreError> {
        get_many_full(&self.0.db, uris, Room::of(bytes)).await
    }

    /// Stores a record that [`Self::check_local`] accepted in the index only, without a write to a repo. Any later event
    /// for the record overwrites it.
    pub async fn save_local(
        &self,
        uri: &RecordUri,
        record: Bytes,
        inspected: Inspection,
    ) -> Result<(), LocalError> {
        let rev = self.local_rev(uri).await?;
        let submitted = self.submit(vec![upsert(uri, rev, None, record, inspected)]).await;
        self.announce(&[Writer::account(&uri.did)]).await;
        submitted
    }

    /// Deletes a record from the index only; a later event or a backfill restores it. Returns whether it existed.
    pub async fn delete_local(&self, uri: &RecordUri) -> Result<bool, StoreError> {
        let existed = delete(&self.0.db, uri).await?;
        self.announce(&[Writer::account(&uri.did)]).await;
        Ok(existed)
    }

    /// Must be called after a write on behalf of someone else than the repo's owner, whom the functions that write announce:
    /// the next reads of these writers see the write.
    pub async fn announce(&self, writers: &[Writer]) {
        self.0.db.announce_writes(writers).await;
    }

    /// A `rev` one step above the record's latest in the index: it overwrites that, and stays below the `rev`s of later
    /// commits, which are at least a microsecond (1024 steps) apart.
    async fn local_rev(&self, uri: &RecordUri) -> Result<Tid, StoreError> {
        let next = latest_rev(&self.0.db, uri).await?.unwrap_or_default() + 1;
        tid_of_rev(next)
    }

    /// Indexes the changes in one transaction.
    async fn submit(&self, changes: Vec<Change>) -> Result<(), LocalError> {
        if changes.is_empty() {
            return Ok(());
        }
        let index = self.index().ok_or(LocalError::NoWriter)?;
        match tokio::time::timeout(WRITER_MAX_WAIT, index.writer.submit_commit(changes)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(LocalError::NoWriter),
        }
    }
}

/// The change that stores a record, in the form that repos have.
fn upsert(uri: &RecordUri, rev: Tid, cid: Option<Cid>, record: Bytes, inspected: Inspection) -> Change {
    let Inspection { refs, canonical, .. } = inspected;
    let (text, validity) = (canonical.unwrap_or(record), Validity::Unchecked);
    let record = CheckedRecord { text, cid, cid_verified: cid.is_some(), refs, validity };
    Change { uri: uri.clone(), rev, record: Some(record) }
}
