//! Mirrors writes in the index: what a PDS has accepted can be read here at once. The same event from the stream has the
//! same `rev` and changes nothing.

use std::time::Duration;

use super::{LocalError, Repos, WrittenRecord, upsert};
use crate::indexing::{EarlyDecision, RecordAction, RecordEvent};
use crate::pds::{CommitResult, Write, WriteAction};
use belvedere_protocol::atproto::{Cid, Did, RecordUri, Tid, record};
use belvedere_storage::store::index::Change;
use belvedere_storage::store::records::get;
use belvedere_storage::store::replicas::Writer;

/// Time that the writes of one commit wait for their record scripts together. After that, the stream's events run them.
const SCRIPT_MAX_WAIT: Duration = Duration::from_secs(5);

/// Whether a mirrored write runs the record script that decides about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordScripts {
    /// At once, so that the caller can read the outcome.
    Now,
    /// The script runs when the stream delivers the event. For runs without a caller: record scripts are such runs, and
    /// run at once they would call each other without an end.
    FromStream,
}

/// The next step for the change that a write makes.
enum Plan {
    Nothing,
    Index(Change),
    /// The record script decides on it first.
    Decide(RecordEvent),
}

impl Repos {
    /// Mirrors `writes` to `repo` in the index, as the PDS has reported them in `committed`. Returns the record of each
    /// write; `None` when neither the write nor the PDS names it. A reported record that does not fit its write is not
    /// mirrored (invariant 5).
    pub async fn mirror_writes(
        &self,
        repo: &Did,
        writes: &[Write],
        committed: CommitResult,
        scripts: RecordScripts,
    ) -> Vec<Option<WrittenRecord>> {
        let mut all = Vec::with_capacity(writes.len());
        let (mut changes, mut events) = (Vec::new(), Vec::new());
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
                match self.plan((uri, action, *cid, committed.rev), scripts).await {
                    Ok(Plan::Nothing) => {}
                    Ok(Plan::Index(change)) => changes.push(change),
                    Ok(Plan::Decide(event)) => events.push(event),
                    Err(error) => warn(repo, &error),
                }
            }
            all.push(written);
        }
        if let Err(error) = self.submit(changes).await {
            warn(repo, &error);
        }
        // The commit is made: a caller who waits longer would take it for a failure.
        if let Ok(Err(error)) = tokio::time::timeout(SCRIPT_MAX_WAIT, self.decide_all(events)).await {
            warn(repo, &error);
        }
        self.announce(&[Writer::account(repo)]).await;
        all
    }

    /// An untracked collection is not mirrored, because later changes would be missed.
    async fn plan(
        &self,
        (uri, action, cid, rev): (&RecordUri, &WriteAction, Option<Cid>, Option<Tid>),
        scripts: RecordScripts,
    ) -> Result<Plan, LocalError> {
        if !self.0.registry.snapshot().is_tracked(uri.collection.as_str()) {
            return Ok(Plan::Nothing);
        }
        let index = self.index().ok_or(LocalError::NoWriter)?;
        let is_reported = rev.is_some();
        let rev = match rev {
            Some(rev) => rev,
            None => self.local_rev(uri).await?,
        };
        let Some(change) = change(uri, action, cid, rev) else { return Ok(Plan::Nothing) };
        if !index.scripts.is_idle() {
            if matches!(action, WriteAction::Put(_)) && !index.scripts.puts_are_alike(&change) {
                // The choice of the script depends on whether the repo had the record, and only the stream knows that.
                return Ok(Plan::Nothing);
            }
            let action = self.record_action(uri, action).await?;
            if index.scripts.wants(action, &change) {
                // Without the commit's `rev` the event can't be recognised when the stream delivers it.
                let is_early = scripts == RecordScripts::Now && is_reported;
                return Ok(if is_early {
                    Plan::Decide(RecordEvent { action, change })
                } else {
                    Plan::Nothing
                });
            }
        }
        if is_reported {
            return Ok(Plan::Index(change));
        }
        // The next local `rev` of the same record is one step above this one, once this one is committed.
        self.submit(vec![change]).await?;
        Ok(Plan::Nothing)
    }

    /// The event that the stream will report. Whether a put creates a record or updates one is not known from the write.
    async fn record_action(&self, uri: &RecordUri, action: &WriteAction) -> Result<RecordAction, LocalError> {
        Ok(match action {
            WriteAction::Create(_) => RecordAction::Create,
            WriteAction::Put(_) if get(&self.0.db, uri).await?.is_none() => RecordAction::Create,
            WriteAction::Put(_) => RecordAction::Update,
            WriteAction::Delete => RecordAction::Delete,
        })
    }

    /// Runs the record scripts, one after the other, and indexes what they decide.
    async fn decide_all(&self, events: Vec<RecordEvent>) -> Result<(), LocalError> {
        let Some(index) = self.index() else { return Ok(()) };
        for event in events {
            let Some(EarlyDecision { change, event }) = index.scripts.decide_early(event).await else {
                continue;
            };
            if let Some(change) = change {
                self.submit(vec![change]).await?;
            }
            event.finish();
        }
        Ok(())
    }
}

fn warn(repo: &Did, error: &LocalError) {
    tracing::warn!(%repo, %error, "writes could not be mirrored; they are indexed when the stream delivers them");
}

/// The change that a write makes; `None` when the PDS stored a different record than was sent: the stream delivers that
/// one.
fn change(uri: &RecordUri, action: &WriteAction, cid: Option<Cid>, rev: Tid) -> Option<Change> {
    match action {
        WriteAction::Create(record) | WriteAction::Put(record) => {
            let inspected = record::inspect(record).ok()?;
            if cid.is_none() || inspected.cid.ok() != cid {
                return None;
            }
            Some(upsert(uri, rev, cid, record.clone(), inspected))
        }
        WriteAction::Delete => Some(Change { uri: uri.clone(), rev, record: None }),
    }
}
