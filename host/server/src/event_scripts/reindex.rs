//! Runs the record scripts of a collection on its stored records, as a background job: a script decides on records that were
//! indexed before it was saved.

use serde::{Deserialize, Serialize};

use super::EventScripts;
use super::letters::with_next_rev;
use super::record::Verdict;
use super::retry;
use belvedere_base::clock::Timestamp;
use belvedere_instance::indexing::{RecordAction, RecordEvent, WriterClosed, WriterHandle};
use belvedere_instance::jobs::RunningJob;
use belvedere_protocol::atproto::{Did, Nsid, RecordUri, record};
use belvedere_storage::query::{Keyset, Narrow, Position, Query};
use belvedere_storage::store::index::{Change, CheckedRecord, Validity};
use belvedere_storage::store::records::{self, FullRecordRow, RecordRow};
use belvedere_storage::store::{StoreError, query};
use belvedere_web::fair_share::Tenant;

/// The `job_type`. Scripts can't create such a job: the slash is not allowed in their types.
pub const TYPE: &str = "system/reindex-records";

/// The records on which the scripts run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reindexing {
    pub collection: Nsid,
    pub did: Option<Did>,
    /// Those that were indexed then or later.
    pub since: Option<Timestamp>,
}

/// The reason why a job failed.
#[derive(Debug, thiserror::Error)]
pub enum ReindexError {
    #[error("the job's input is not that of a reindexing")]
    Input,
    #[error("no record script is bound to {0} any more")]
    NoScript(Nsid),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the server is shutting down")]
    Closed(#[from] WriterClosed),
}

impl ReindexError {
    /// Whether the job may go on later, from where it is.
    pub fn is_temporary(&self) -> bool {
        matches!(self, Self::Store(StoreError::Busy(_) | StoreError::Unavailable(_)) | Self::Closed(_))
    }
}

/// The progress of a job, and the place from which it continues.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Progress {
    /// Records on which a script has run.
    records: u64,
    replaced: u64,
    removed: u64,
    /// Records whose script failed: each has a dead letter.
    failed: u64,
    /// The last of these records in the order of the list, newest first: when it was indexed in microseconds, and its id.
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<(i64, i64)>,
}

impl Progress {
    fn to_json(&self) -> String {
        // Numbers always serialize.
        serde_json::to_string(self).unwrap_or_default()
    }
}

impl EventScripts {
    /// Runs the scripts on the records that `input` selects, from where `progress` says. Returns the result, JSON text, also when the
    /// job should stop before the end.
    ///
    /// # Errors
    /// When the database fails, or the collection has no script any more; what was done until then stays.
    pub async fn reindex(
        &self,
        writer: &WriterHandle,
        running: &RunningJob,
        (input, progress): (&str, &str),
        tenant: &Tenant,
    ) -> Result<String, ReindexError> {
        let wanted: Reindexing = serde_json::from_str(input).map_err(|_| ReindexError::Input)?;
        let mut done: Progress = serde_json::from_str(progress).unwrap_or_default();
        loop {
            let after = done.after.map(|(at, id)| Keyset { indexed_at: Timestamp(at), id });
            let page = Query {
                did: wanted.did.clone(),
                narrow: Narrow { from: wanted.since, ..Narrow::default() },
                after: after.map(Position::Time),
                ..Query::of(wanted.collection.clone())
            };
            let page = query::read(&self.0.db, &page, tenant).await?;
            for row in &page.rows {
                if running.should_stop().await? {
                    running.progress(&done.to_json()).await?;
                    return Ok(Progress { after: None, ..done }.to_json());
                }
                self.reindex_one(writer, row, &mut done).await?;
                done.after = Some((row.indexed_at.0, row.id));
            }
            running.progress(&done.to_json()).await?;
            if page.next.is_none() {
                return Ok(Progress { after: None, ..done }.to_json());
            }
        }
    }

    /// Runs the script on one record as if it was new, and applies its decision.
    async fn reindex_one(
        &self,
        writer: &WriterHandle,
        listed: &RecordRow,
        done: &mut Progress,
    ) -> Result<(), ReindexError> {
        let Some(event) = self.stored_event(listed).await? else { return Ok(()) };
        let uri = event.change.uri.clone();
        let Some(script) = self.script_for(&uri, event.action) else {
            return Err(ReindexError::NoScript(uri.collection));
        };
        done.records += 1;
        match retry::with_retries(|| self.attempt(&script, &event)).await {
            Ok((Verdict::Proceed, _)) => return Ok(()),
            Ok((Verdict::Replace { record, .. }, _)) if event.change.text() == Some(&record) => return Ok(()),
            Ok((verdict, _)) => {
                if verdict == Verdict::Skip {
                    done.removed += 1;
                } else {
                    done.replaced += 1;
                }
                let decided = verdict.apply(event.change.clone());
                writer.submit(with_next_rev(event, decided)).await?;
            }
            Err(failure) => {
                done.failed += 1;
                self.dead_letter_record(&script, &event, &uri, failure).await;
            }
        }
        Ok(())
    }

    /// The event of a stored record, if it is still there. Its rev is read before the record, so that a decision never replaces a
    /// record that is written meanwhile.
    async fn stored_event(&self, listed: &RecordRow) -> Result<Option<RecordEvent>, StoreError> {
        let Ok(uri) = RecordUri::parse(&listed.uri()) else { return Ok(None) };
        let Some(rev) = records::latest_rev(&self.0.db, &uri).await? else { return Ok(None) };
        let room = records::Room::of(records::PAGE_BYTES);
        let found = records::get_many_full(&self.0.db, std::slice::from_ref(&uri), room).await?.rows.pop();
        let Some(FullRecordRow { row, cid_verified, .. }) = found else { return Ok(None) };
        let Ok(inspected) = record::inspect(&row.record) else { return Ok(None) };
        let record = CheckedRecord {
            text: row.record,
            cid: row.cid,
            cid_verified,
            refs: inspected.refs,
            validity: Validity::Unchecked,
        };
        let change = Change { uri, rev: records::tid_of_rev(rev)?, record: Some(record) };
        Ok(Some(RecordEvent { action: RecordAction::Create, change }))
    }
}
