//! Users' repos: a write to a PDS and its mirror in the index. Records that scripts and procedures write come through here.

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
use crate::pds::{Action, Agent, Committed, PdsPlaces, Session, SessionOf, Sessions, Write};
use crate::store::index::{Change, Delete, Upsert};
use crate::store::records::{FullRecordRow, Slice, delete, get_many_full, latest_rev};
use crate::store::{Db, StoreError};
use crate::trigger::{Bindings, TriggerKind};

/// How long a run waits for the index's writer. It commits within milliseconds; one that takes longer waits for its
/// database.
const WRITER_PATIENCE: Duration = Duration::from_secs(5);

/// What `Record` reaches. Cheap to clone.
#[derive(Clone)]
pub struct Repos(Arc<Parts>);

struct Parts {
    db: Db,
    registry: Arc<Registry>,
    scripts: Arc<dyn Bindings>,
    sessions: Sessions,
    net: net::Client,
    places: PdsPlaces,
    writer: OnceLock<WriterHandle>,
}

impl fmt::Debug for Repos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Repos")
    }
}

/// A record after a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    pub uri: RecordUri,
    /// `None` when it was deleted.
    pub cid: Option<Cid>,
}

/// Why a record was not stored in the index.
#[derive(Debug, thiserror::Error)]
pub enum LocalError {
    #[error("the index does not take the record now")]
    NoWriter,
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Repos {
    pub fn new(
        db: Db,
        registry: Arc<Registry>,
        scripts: Arc<dyn Bindings>,
        sessions: Sessions,
        net: net::Client,
    ) -> Self {
        let (places, writer) = (PdsPlaces::default(), OnceLock::new());
        Self(Arc::new(Parts { db, registry, scripts, sessions, net, places, writer }))
    }

    /// Tells the way into the index, as soon as there is one: event scripts are there before the stream they decide
    /// about.
    pub fn attach(&self, writer: WriterHandle) {
        // A second writer would be a second stream; the first one stays.
        let _ = self.0.writer.set(writer);
    }

    /// # Errors
    /// When the sessions can't be read.
    pub async fn session(&self, which: SessionOf<'_>) -> Result<Option<Arc<Session>>, StoreError> {
        self.0.sessions.find(which).await
    }

    /// The calls of a session, which take the share of `tenant`.
    pub fn agent<'a>(&'a self, session: &'a Session, tenant: &'a Tenant) -> Agent<'a> {
        Agent::new(&self.0.net, session, &self.0.places, tenant)
    }

    pub fn schema(&self, collection: &Nsid) -> Option<Bytes> {
        self.0.registry.snapshot().record_schema(collection.as_str())
    }

    /// Those of `uris` that are there, as far as they take at most `bytes`.
    pub async fn load(&self, uris: &[RecordUri], bytes: usize) -> Result<Slice<FullRecordRow>, StoreError> {
        get_many_full(&self.0.db, uris, bytes).await
    }

    /// Brings into the index what a PDS says that it has committed of `writes` to `repo`, and tells for each where the record
    /// is; `None` where nobody says. What does not fit the write stays out of the index (invariant 5).
    pub async fn take_over(
        &self,
        repo: &Did,
        writes: &[Write],
        committed: Committed,
    ) -> Vec<Option<Written>> {
        let mut all = Vec::with_capacity(writes.len());
        for (write, place) in writes.iter().zip(committed.records) {
            let fits = write.fits(repo, place.as_ref());
            let Write { collection, rkey, action, .. } = write;
            let written = match (place, rkey) {
                (Some((uri, cid)), _) => Some(Written { uri, cid: Some(cid) }),
                (None, Some(rkey)) => {
                    let (did, collection, rkey) = (repo.clone(), collection.clone(), rkey.clone());
                    Some(Written { uri: RecordUri { did, collection, rkey }, cid: None })
                }
                (None, None) => None,
            };
            if let Some(Written { uri, cid }) = &written
                && fits
            {
                self.mirror(uri.clone(), action, *cid, committed.rev).await;
            }
            all.push(written);
        }
        all
    }

    /// Brings into the index what the PDS has accepted, so that its writer can read it at once. The echo of the stream
    /// has the same `rev` and is no second write. Where a script decides about such events, the index waits for the echo
    /// and the script's word; a collection that the stream does not follow is not mirrored, for it would grow old.
    async fn mirror(&self, uri: RecordUri, action: &Action, cid: Option<Cid>, rev: Option<Tid>) {
        let kind = match action {
            Action::Create(_) => TriggerKind::RecordCreate,
            Action::Put(_) => TriggerKind::RecordUpdate,
            Action::Delete => TriggerKind::RecordDelete,
        };
        let parts = &self.0;
        let collection = uri.collection.as_str();
        if !parts.registry.snapshot().is_tracked(collection) || parts.scripts.decides(collection, kind) {
            return;
        }
        if let Err(error) = self.bring(&uri, action, cid, rev).await {
            tracing::warn!(%uri, %error, "a record is on its PDS, and will be indexed when the stream brings it");
        }
    }

    async fn bring(
        &self,
        uri: &RecordUri,
        action: &Action,
        cid: Option<Cid>,
        rev: Option<Tid>,
    ) -> Result<(), LocalError> {
        let rev = match rev {
            Some(rev) => rev,
            None => self.local_rev(uri).await?,
        };
        match action {
            Action::Create(record) | Action::Put(record) => {
                let Ok(inspected) = record::inspect(record) else { return Ok(()) };
                if cid.is_none() || inspected.cid.ok() != cid {
                    // The PDS keeps another record than was sent: the stream has it.
                    return Ok(());
                }
                self.submit(upsert(uri, rev, cid, record, inspected.refs)).await
            }
            Action::Delete => {
                let RecordUri { did, collection, rkey } = uri.clone();
                self.submit(Change::Delete(Delete { did, collection, rkey, rev })).await
            }
        }
    }

    /// Stores a record in the index that no repo has, with `refs` as it refers to others. Any event of the network
    /// overwrites it.
    pub async fn save_local(
        &self,
        uri: &RecordUri,
        record: &Bytes,
        refs: Vec<String>,
    ) -> Result<(), LocalError> {
        let rev = self.local_rev(uri).await?;
        self.submit(upsert(uri, rev, None, record, refs)).await
    }

    /// Removes a row of the index; a later event or a backfill brings the record back. `false` when there is none.
    pub async fn delete_local(&self, uri: &RecordUri) -> Result<bool, StoreError> {
        delete(&self.0.db, uri).await
    }

    /// A `rev` one above what the index has: it overwrites that, and is below whatever comes from the network, whose
    /// revs are at least a microsecond (1024 of these steps) apart.
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
