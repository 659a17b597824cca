//! Exports a repo as a CAR that is made while it is sent (spaces.md §6.2).

use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, stream};

use super::repos::check_is_here;
use super::{SpaceError, Spaces, Viewer};
use belvedere_base::hand_over_thread::hand_over_thread;
use belvedere_protocol::atproto::{Did, record};
use belvedere_protocol::spaces::r10::Export;
use belvedere_protocol::spaces::{RecordPath, SpaceUri};
use belvedere_storage::store::StoreError;
use belvedere_storage::store::spaces::records::{self, SpaceRecord};
use belvedere_storage::store::spaces::{SpaceId, repos};
use belvedere_web::fair_share::{Bounds, Permit, Tenant};

/// Exports at a time. Each holds the paths of all records of a repo: 30 MB for the largest
/// ([`belvedere_storage::store::spaces::writes::MAX_RECORDS`]).
pub(super) const EXPORTS: Bounds = Bounds {
    permits: 4,
    per_tenant: 2,
    waiting: 64,
    waiting_per_tenant: 8,
    max_wait: Duration::from_secs(30),
};

/// Bytes of an entry of an export's index.
const ENTRY_BYTES: usize = 100;

/// Records that are read together: few, because each may have a megabyte.
const BATCH: usize = 16;

/// A repo at one moment.
#[derive(Debug)]
pub struct RepoExport {
    spaces: Spaces,
    space: SpaceId,
    repo: Did,
    /// The viewer, whose share of the reads it takes.
    tenant: Tenant,
    export: Export,
    _permit: Permit,
}

/// The reason why the rest of an export can't be sent.
#[derive(Debug, thiserror::Error)]
pub enum Unfinished {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the repo has changed meanwhile")]
    Changed,
}

impl Spaces {
    /// A repo at one moment.
    ///
    /// # Errors
    /// [`SpaceError::NoRepo`] when the author has written nothing, or the viewer may not read the repo; 503 when too many exports
    /// are sent.
    pub async fn export(
        &self,
        uri: &SpaceUri,
        viewer: &Viewer,
        repo: &Did,
    ) -> Result<RepoExport, SpaceError> {
        let space = self.repo(uri, viewer, repo).await?.space.id;
        let tenant = viewer.tenant(uri);
        let permit = self.0.exports.enter(&tenant).await.map_err(|_| SpaceError::Busy)?;
        let snapshot = repos::snapshot(&self.core().db, space, repo).await?.ok_or(SpaceError::NoRepo)?;
        check_is_here(&snapshot.state)?;
        let commit = self.sign(uri, repo, snapshot.state.rev, &snapshot.state.hash).await?;
        let bytes = snapshot.records.len() * ENTRY_BYTES;
        let export = hand_over_thread(bytes, || Export::new(&commit, snapshot.records));
        Ok(RepoExport { spaces: self.clone(), space, repo: repo.clone(), tenant, export, _permit: permit })
    }
}

impl RepoExport {
    /// The bytes of the CAR: its head, then the records unless `with_values` is false. A record that has changed meanwhile ends
    /// the export, and the reader begins again.
    pub fn into_stream(self, with_values: bool) -> impl Stream<Item = Result<Bytes, Unfinished>> + Send {
        let end = if with_values { self.export.entries().len() } else { 0 };
        stream::try_unfold((self, None), move |(this, next)| async move {
            let from = match next {
                None => {
                    let head = Bytes::copy_from_slice(this.export.head());
                    return Ok(Some((head, (this, Some(0)))));
                }
                Some(from) if from >= end => return Ok(None),
                Some(from) => from,
            };
            let bytes = this.blocks(from).await?;
            Ok(Some((bytes, (this, Some(from + BATCH)))))
        })
    }

    /// The blocks of a batch of records.
    async fn blocks(&self, from: usize) -> Result<Bytes, Unfinished> {
        let entries = self.export.entries();
        let entries = &entries[from..entries.len().min(from + BATCH)];
        let db = &self.spaces.core().db;
        let _permit = db.read_permit(&self.tenant).await?;
        let found = records::some(db, self.space, &self.repo, entries.iter().map(|(path, _)| path)).await?;
        let mut found: HashMap<RecordPath, SpaceRecord> =
            found.into_iter().map(|record| (record.path.clone(), record)).collect();
        let mut blocks = Vec::new();
        for (path, cid) in entries {
            let current =
                found.remove(path).filter(|record| record.cid == *cid).ok_or(Unfinished::Changed)?;
            let cbor = record::to_cbor(current.text.unwrap_or_default().as_bytes());
            let cbor = cbor.ok().and_then(Result::ok).ok_or(Unfinished::Changed)?;
            Export::append_record(&mut blocks, *cid, &cbor);
        }
        Ok(blocks.into())
    }
}
